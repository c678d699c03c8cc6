"""Names that are imported at their first use."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.lazy_names import lazy_names
from dragoman.threads.limits import ThreadLimits


def test_a_name_is_imported_once() -> None:
    namespace: dict[str, Any] = {"__name__": "dragoman.threads", "__package__": "dragoman.threads"}
    found = lazy_names(namespace, {"limits": "DEFAULT_THREAD_LIMITS ThreadLimits"})("ThreadLimits")
    assert found is namespace["ThreadLimits"] is ThreadLimits


def test_an_unknown_name_is_an_attribute_error() -> None:
    get = lazy_names({"__name__": "dragoman.threads", "__package__": "dragoman.threads"}, {"limits": "ThreadLimits"})
    with pytest.raises(AttributeError, match=r"module 'dragoman\.threads' has no attribute 'limits'"):
        get("limits")

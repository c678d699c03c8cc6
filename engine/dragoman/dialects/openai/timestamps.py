"""Creation times of Chat and Responses replies: `created` and `created_at`."""

from __future__ import annotations

from typing import Any


def read_timestamp(value: Any) -> int | None:
    """Returns Unix time in whole seconds, or None if the value is no time. Some servers send fractions."""
    if type(value) is not int and type(value) is not float:
        return None
    return int(value) if 0 <= value < 2**53 else None

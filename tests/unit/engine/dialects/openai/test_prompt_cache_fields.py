"""Cache marks of the Messages API as routers take them."""

from __future__ import annotations

from typing import Any

import pytest

from support.flagged_requests import ask

Json = dict[str, Any]


@pytest.mark.parametrize(("ttl", "written"), [(None, {}), ("5m", {"ttl": "5m"}), ("1h", {"ttl": "1h"})])
def test_cache_marks_are_those_of_the_router(ttl: str | None, written: Json) -> None:
    mark = {"type": "ephemeral", **({"ttl": ttl} if ttl else {})}
    message = {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": mark}]}
    flags = {"explicit_cache": True, "text_parts": True, "cache_field": "cache_control"}
    body, counts = ask(flags=flags, messages=[message])
    (part,) = body["messages"][0]["content"]
    assert part == {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral", **written}}
    assert counts == {}

"""Cache marks of the Messages API as routers take them."""

from __future__ import annotations

from typing import Any

import pytest

from support.flagged_requests import ask

Json = dict[str, Any]


@pytest.mark.parametrize(("ttl", "written"), [(None, {}), ("5m", {"ttl": "5m"}), ("1h", {"ttl": "1h"})])
def test_cache_marks_are_spelled_as_the_router_spells_them(ttl: str | None, written: Json) -> None:
    mark = {"type": "ephemeral", **({"ttl": ttl} if ttl else {})}
    said = {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": mark}]}
    flags = {"explicit_cache": True, "text_parts": True, "cache_field": "cache_control"}
    body, counts = ask(flags=flags, messages=[said])
    (part,) = body["messages"][0]["content"]
    assert part == {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral", **written}}
    assert counts == {}

"""Ids of calls that have none."""

from __future__ import annotations

from dragoman.dialects.chat.call_ids import mint_call_id
from dragoman.tools.names import sanitize_call_id


def test_ids_are_stable_distinct_and_allowed_everywhere() -> None:
    ids = [mint_call_id(reply, block) for reply in ("chatcmpl-1", "chatcmpl-2", "x" * 200) for block in (0, 1)]
    assert len(set(ids)) == 6
    assert ids == [mint_call_id(reply, block) for reply in ("chatcmpl-1", "chatcmpl-2", "x" * 200) for block in (0, 1)]
    assert all(len(made) <= 40 and sanitize_call_id(made, 40) == made for made in ids)

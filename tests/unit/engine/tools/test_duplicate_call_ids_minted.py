"""Ids of calls that have none, or the id of another call."""

from __future__ import annotations

from dragoman.losses import LossCode, Losses
from dragoman.tools.duplicate_call_ids import mint_call_id
from dragoman.tools.names import sanitize_call_id

REPLIES = [(reply, number) for reply in ("chatcmpl-1", "chatcmpl-2", "x" * 200) for number in (0, 1)]


def minted(losses: Losses) -> list[str]:
    return [mint_call_id(None, reply, number, "tool_calls", losses.add) for reply, number in REPLIES]


def test_ids_are_stable_distinct_and_allowed_everywhere() -> None:
    losses = Losses()
    ids = minted(losses)
    assert len(set(ids)) == 6
    assert ids == minted(Losses())
    assert all(len(made) <= 40 and sanitize_call_id(made, 40) == made for made in ids)
    assert losses.counts == {LossCode.CALL_ID: 6}

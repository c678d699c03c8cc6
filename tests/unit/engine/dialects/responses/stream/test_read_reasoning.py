"""Reasoning items of a Responses stream."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.events import (
    BlockEnd,
    BlockStart,
    Delta,
    Opaque,
)
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from support.responses_bodies import body
from support.responses_frames import (
    Json,
    added,
    at,
    done,
    ended,
    reasoned,
)


def test_summary_parts_are_joined_by_a_blank_line() -> None:
    def summary_event(name: str, place: int, /, **fields: Any) -> Json:
        where = {"item_id": "rs_a", "output_index": 0, "summary_index": place}
        return {"type": f"response.reasoning_summary_{name}", **where, **fields}

    whole = reasoned(summary=("Plan", "Look it up."))
    stream = [
        added(0, **reasoned()),
        summary_event("part.added", 0, part={"type": "summary_text", "text": ""}),
        summary_event("text.delta", 0, delta="Plan"),
        summary_event("text.done", 0, text="Plan"),
        summary_event("part.done", 0, part={"type": "summary_text", "text": "Plan"}),
        summary_event("part.added", 1, part={"type": "summary_text", "text": ""}),
        summary_event("text.delta", 1, delta="Look"),
        summary_event("text.done", 1, text="Look it up."),
        summary_event("part.done", 1, part={"type": "summary_text", "text": "Look it up."}),
        done(0, **whole),
        ended(whole),
    ]
    expected = [Delta(0, "Plan"), Delta(0, "\n\n"), Delta(0, "Look"), Delta(0, " it up.")]
    assert body(*stream) == [BlockStart(0, "reasoning"), *expected, BlockEnd(0)]
    joined = [Delta(0, "Plan"), Delta(0, "\n\n"), Delta(0, "Look it up.")]
    assert body(ended(whole)) == [BlockStart(0, "reasoning"), *joined, BlockEnd(0)]


def test_T14_reasoning_and_its_summary_are_not_both_emitted() -> None:
    context = ReplyContext("m")
    whole = reasoned("Deep", summary=("Short", "er"))
    received = body(at(0, "reasoning_text.delta", delta="Deep"), done(0, **whole), ended(), context=context)
    assert received == [BlockStart(0, "reasoning"), Delta(0, "Deep"), BlockEnd(0)]
    assert context.losses.counts == {LossCode.UNKNOWN_EVENT: 1, LossCode.REPLY_REPAIRED: 1}


@pytest.mark.parametrize("name", ["reasoning_text.done", "content_part.done"])
def test_reasoning_without_deltas(name: str) -> None:
    fields: Json = {"text": "Deep"} if name == "reasoning_text.done" else {"part": {"type": "reasoning_text"}}
    received = body(added(0, **reasoned()), at(0, name, **fields), done(0, **reasoned("Deep")), ended())
    assert received == [BlockStart(0, "reasoning"), Delta(0, "Deep"), BlockEnd(0)]


def test_the_proof_is_the_finished_items_even_if_only_the_last_snapshot_has_it() -> None:
    whole = reasoned(encrypted_content="ENC")
    received = body(added(0, **reasoned(encrypted_content="draft")), ended(whole))
    opaque = Opaque(0, "responses", "encrypted_content", "ENC")
    assert received == [BlockStart(0, "reasoning"), opaque, BlockEnd(0)]

"""Fields of Messages replies besides content and counts, whole, streamed and forwarded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import Direction, Knobs, Translation, builtin_profile, direction
from dragoman.dialects.messages.reply_fields import record_unknown_block
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext

Json = dict[str, Any]
EDITS = {"applied_edits": [{"type": "clear_tool_uses_20250919", "cleared_tool_uses": 2, "note": "x" * 99}]}
REMOVED = [{"type": "thinking_dropped", "reason": "model_mismatch", "message_index": 1}]
USAGE = {
    "input_tokens": 5,
    "output_tokens": 3,
    "service_tier": "priority",
    "speed": "fast",
    "server_tool_use": {"web_search_requests": 2},
}
MESSAGE: Json = {
    **{"id": "msg_1", "type": "message", "role": "assistant", "model": "up", "stop_sequence": None},
    "content": [{"type": "text", "text": "Hi"}],
    "stop_reason": "end_turn",
    "usage": USAGE,
    "context_management": EDITS,
    "input_transformations": REMOVED,
}
STREAM: list[Json] = [
    {"type": "message_start", "message": {**MESSAGE, "content": [], "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 3},
        "context_management": EDITS,
    },
    {"type": "message_stop"},
]
ROWS = [direction(client, "messages") for client in ("chat", "messages", "responses")]


def played(row: Direction, *, whole: bool) -> tuple[Translation, bytes]:
    made = Translation.for_reply(row, "up", profile=builtin_profile("messages"), knobs=Knobs())
    if whole:
        return made, made.reply(json.dumps(MESSAGE).encode())
    machine = made.stream_machine()
    data = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in STREAM)
    return made, machine.feed(data.encode()) + machine.finish()


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_tier_speed_searches_edits_and_transformations_are_noted(row: Direction, whole: bool) -> None:
    made, out = played(row, whole=whole)
    report = made.context.service
    assert report is not None
    assert (report.tier, report.speed, report.searches) == ("priority", "fast", 2)
    assert report.input_transformations == REMOVED
    assert report.applied_edits == [{"type": "clear_tool_uses_20250919", "cleared_tool_uses": 2}]
    assert made.failure is None
    if row.client.dialect != "messages":
        assert b'"service_tier":"priority"' in out
        paths = {loss.path.rpartition(".")[2] for loss in made.losses.rows if loss.code is LossCode.UNKNOWN_FIELD}
        assert paths == {"context_management", "input_transformations", "speed"}


def test_a_block_that_is_passed_on_keeps_its_unknown_keys() -> None:
    block = {"type": "thinking", "thinking": "Hm", "signature": "S", "zz": 1}
    same, other = ReplyContext("m", same_dialect=True), ReplyContext("m")
    for context in (same, other):
        record_unknown_block(block, ("content", 0), context)
    assert (len(same.losses), [row.path for row in other.losses.rows]) == (0, ["content[0].zz"])


def test_a_caller_that_is_not_the_model_is_a_row() -> None:
    context = ReplyContext("m")
    block = {"type": "tool_use", "id": "t", "name": "f", "input": {}, "caller": {"type": "code_execution_20260120"}}
    record_unknown_block(block, ("content", 0), context)
    assert context.losses.counts == {LossCode.CALL_META: 1}


def test_a_stream_of_the_same_dialect_has_no_place_for_unknown_keys_of_thinking() -> None:
    block = {"type": "thinking", "thinking": "Hm", "signature": "S", "zz": "kept"}
    end: Json = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}}
    events: list[Json] = [STREAM[0], {"type": "content_block_start", "index": 0, "content_block": block}]
    events += [{"type": "content_block_stop", "index": 0}, *STREAM[1:2], *STREAM[2:4], end, STREAM[-1]]
    for event in events[3:6]:
        event["index"] = 1
    data = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
    body = json.dumps({**MESSAGE, "content": [block, *MESSAGE["content"]]}).encode()

    def made() -> Translation:
        translation = Translation.for_reply(ROWS[1], "up", profile=builtin_profile("messages"), knobs=Knobs())
        translation.rewritten, translation.context.same_dialect = True, True
        translation.context.names = {"sent": "declared"}
        return translation

    def rows(translation: Translation) -> list[str]:
        return [row.path for row in translation.losses.rows if row.path.endswith("zz")]

    streamed, split, whole, joined = made(), made(), made(), made()
    machine = streamed.stream_machine()
    assert b"kept" not in machine.feed(data) + machine.finish()
    assert b"kept" not in split.replay(body)
    assert rows(streamed) == rows(split) == ["content_block.zz"]
    assert b"kept" in whole.reply(body)
    assert b"kept" in joined.reply(data)
    assert rows(whole) == rows(joined) == []


def test_unknown_keys_of_a_direct_caller_are_rows() -> None:
    context = ReplyContext("m")
    block = {"type": "tool_use", "id": "t", "name": "f", "input": {}, "caller": {"type": "direct", "zz": 1}}
    record_unknown_block(block, ("content", 0), context)
    assert [row.path for row in context.losses.rows] == ["content[0].caller.zz"]

"""Each rule for Messages streams by a seeded defect: a golden, one thing wrong with it, and the validator's message."""

from __future__ import annotations

import pytest

from dragoman.dialects import Dialect
from support.defects import Change, add, double, drop, edit, find, move
from support.verdicts import assert_defect_is_found, golden_frames, settings_of, verdict

TOOLS, THINKING = "two_tools", "thinking_text_tool"
CASES: list[tuple[str, Change, str]] = [
    (TOOLS, edit("message_start", "event: message_start\n", ""), "name is not its type"),
    (TOOLS, drop("message_start"), "before message_start"),
    (TOOLS, double("message_start"), "T-13"),
    (TOOLS, edit("message_start", '"content":[]', '"content":[{}]'), "has content"),
    (TOOLS, edit("message_start", '"input_tokens"', '"tokens"'), "usage without input_tokens"),
    (TOOLS, drop("content_block_start"), "T-02"),
    (TOOLS, double("content_block_start"), "not the next"),
    (TOOLS, edit("content_block_start", '"index":1', '"index":2', 1), "not the next"),
    (THINKING, edit("content_block_start", '"thinking":""', '"thinking":"x"'), "starts with content"),
    (TOOLS, edit('"tool_use","id"', '"name"', '"title"'), "start of a block without name"),
    (TOOLS, edit('"tool_use","id"', '"call_b"', '"call_a"', 1), "call id twice"),
    (TOOLS, edit("input_json_delta", '"index":1', '"index":7'), "T-02"),
    (THINKING, edit("text_delta", '"text_delta","text"', '"thinking_delta","thinking"'), "T-12"),
    (TOOLS, move("content_block_stop", "content_block_delta"), "an empty text block"),
    (TOOLS, double("content_block_stop"), "T-02"),
    ("text", drop("content_block_stop"), "while a block is open"),
    (TOOLS, move("content_block_start", "message_stop", -1), "T-02"),
    ("text", move("content_block_stop", "message_stop"), "while a block is open"),
    (TOOLS, double("event: message_delta"), "message_delta twice"),
    (TOOLS, edit("event: message_delta", '"tool_use"', '"end_turn"'), "calls, but not"),
    ("text", edit("event: message_delta", '"end_turn"', '"tool_use"'), "without a call"),
    ("text", edit("event: message_delta", '"end_turn"', '"stop"'), "the dialect does not have"),
    ("text", edit("event: message_delta", '"stop_sequence":null', '"stop_sequence":"x"'), "another reason"),
    ("text", edit("event: message_delta", '"output_tokens"', '"tokens"'), "usage without output_tokens"),
    ("text", drop("event: message_delta"), "without message_delta"),
    ("text", drop("message_stop"), "no terminal frame"),
    ("text", double("message_stop"), "after the terminal frame"),
    ("text", add('event: novelty\ndata: {"type":"novelty"}\n\n', "message_stop"), "not of the dialect"),
    ("error", edit("event: error", '"message"', '"text"'), "an error without message"),
]


@pytest.mark.parametrize(("case", "change", "rule"), CASES)
def test_a_seeded_defect_is_found(case: str, change: Change, rule: str) -> None:
    assert_defect_is_found(Dialect.MESSAGES, case, change, rule)


def test_two_blocks_at_a_time_are_a_breach_where_they_were_to_follow_each_other() -> None:
    frames = golden_frames("messages_from_chat/two_tools+sequential")
    settings = settings_of("messages_from_chat/two_tools+sequential")
    move("content_block_start", "content_block_delta", 1)(frames)
    found = verdict(Dialect.MESSAGES, b"".join(frames), **settings)
    assert found is not None
    assert "two blocks" in found.rule


def test_a_delta_behind_the_signature_is_a_breach() -> None:
    frames = golden_frames("messages_from_responses/thinking_text_tool")
    at = next((at for at, frame in enumerate(frames) if b"signature_delta" in frame), None)
    if at is None:
        at = find(frames, "content_block_stop")
        signed = '{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}'
        frames.insert(at, f"event: content_block_delta\ndata: {signed}\n\n".encode())
        assert verdict(Dialect.MESSAGES, b"".join(frames)) is None
    frames.insert(at + 1, frames[find(frames, "thinking_delta")])
    found = verdict(Dialect.MESSAGES, b"".join(frames))
    assert found is not None
    assert "signature" in found.rule

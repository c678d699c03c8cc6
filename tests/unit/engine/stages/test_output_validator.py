"""Each rule by a seeded defect: a golden, one thing wrong with it, and what the validator says of that."""

from __future__ import annotations

import pytest

from dragoman.dialects import Dialect
from dragoman.losses import Losses
from support.defects import Change, add, double, drop, edit, find, move
from support.verdicts import golden_frames, settings_of, verdict

CHAT, MESSAGES, RESPONSES = Dialect
TOOLS, THOUGHT = "two_tools", "thinking_text_tool"
CASES: list[tuple[Dialect, str, Change, str]] = [
    (CHAT, TOOLS, edit("data", "data: ", "event: chunk\ndata: "), "event line"),
    (CHAT, TOOLS, drop('"role"'), "lacks the role"),
    (CHAT, TOOLS, double('"role"'), "role twice"),
    (CHAT, THOUGHT, edit('"role"', '"content":""', '"content":"Hi"'), "chunk of the role has other content"),
    (CHAT, THOUGHT, edit('"content":"', '"created":1', '"created":2', 1), "changed within the stream"),
    (CHAT, TOOLS, edit('"name"', '"index":0,"id"', '"index":1,"id"'), "leaves a gap"),
    (CHAT, TOOLS, double('"name"'), "id or type of a tool twice"),
    (CHAT, TOOLS, drop('"name"', 1), "starts without its type"),
    (CHAT, TOOLS, edit('"name"', '"id":"toolu_b"', '"id":"toolu_a"', 1), "call id twice"),
    (CHAT, TOOLS, edit('"name"', '"name":"', '"title":"'), "name is missing"),
    (CHAT, TOOLS, edit('"finish_reason":"', '"delta":{}', '"delta":{"content":"x"}'), "finish chunk carries a delta"),
    (CHAT, THOUGHT, move('"finish_reason":"', "reasoning_content"), "tool_calls without a call"),
    (CHAT, TOOLS, edit('"finish_reason":"', "tool_calls", "stop"), "stop although there are calls"),
    (CHAT, TOOLS, edit('"finish_reason":"', "tool_calls", "done"), "that the API does not define"),
    (CHAT, "text", move('"content":"', '"prompt_tokens"', 2), "a choice after the finish"),
    (CHAT, TOOLS, double('"finish_reason":"'), "a choice after the finish"),
    (CHAT, TOOLS, move('"prompt_tokens"', '"finish_reason":"'), "usage before the finish"),
    (CHAT, TOOLS, double('"prompt_tokens"'), "a chunk after the usage"),
    (CHAT, TOOLS, edit('"prompt_tokens"', '"total_tokens":', '"total_tokens":1'), "do not add up"),
    (CHAT, TOOLS, drop('"prompt_tokens"'), "no usage although it was requested"),
    (CHAT, TOOLS, edit('"content":"', ',"usage":null', ""), "key usage"),
    (CHAT, TOOLS, drop("[DONE]"), "no terminal frame"),
    (CHAT, TOOLS, drop('"finish_reason":"'), "the usage before the finish"),
    (CHAT, TOOLS, add("data: [DONE]\n\n"), "after the terminal frame"),
    (CHAT, TOOLS, add(": still here\n\n"), "after the terminal frame"),
    (CHAT, TOOLS, add("data: {\n\n", "[DONE]"), "not JSON"),
    (CHAT, TOOLS, add("data: []\n\n", "[DONE]"), "not a JSON object"),
    (CHAT, TOOLS, add("id: 7\n\n", "[DONE]"), "one line of data"),
    (
        CHAT,
        "logprobs",
        edit('"content":"', '"finish_reason"', '"logprobs":{},"finish_reason"', 1),
        "were not requested",
    ),
    (CHAT, "error", edit('"error"', '"param"', '"parameter"'), "four keys"),
    (MESSAGES, TOOLS, edit("message_start", "event: message_start\n", ""), "name is not its type"),
    (MESSAGES, TOOLS, drop("message_start"), "before message_start"),
    (MESSAGES, TOOLS, double("message_start"), "T-13"),
    (MESSAGES, TOOLS, edit("message_start", '"content":[]', '"content":[{}]'), "has content"),
    (MESSAGES, TOOLS, edit("message_start", '"input_tokens"', '"tokens"'), "without a count"),
    (MESSAGES, TOOLS, drop("content_block_start"), "T-02"),
    (MESSAGES, TOOLS, double("content_block_start"), "not the next"),
    (MESSAGES, TOOLS, edit("content_block_start", '"index":1', '"index":2', 1), "not the next"),
    (MESSAGES, THOUGHT, edit("content_block_start", '"thinking":""', '"thinking":"x"'), "starts with content"),
    (MESSAGES, TOOLS, edit('"tool_use","id"', '"name"', '"title"'), "name is missing"),
    (MESSAGES, TOOLS, edit('"tool_use","id"', '"call_b"', '"call_a"', 1), "call id twice"),
    (MESSAGES, TOOLS, edit("input_json_delta", '"index":1', '"index":7'), "T-02"),
    (MESSAGES, THOUGHT, edit("text_delta", '"text_delta","text"', '"thinking_delta","thinking"'), "T-12"),
    (MESSAGES, TOOLS, move("content_block_stop", "content_block_delta"), "T-02"),
    (MESSAGES, TOOLS, double("content_block_stop"), "T-02"),
    (MESSAGES, "text", drop("content_block_stop"), "while a block is open"),
    (MESSAGES, TOOLS, move("content_block_start", "message_stop", -1), "T-02"),
    (MESSAGES, "text", move("content_block_stop", "message_stop"), "while a block is open"),
    (MESSAGES, TOOLS, double("event: message_delta"), "message_delta twice"),
    (MESSAGES, TOOLS, edit("event: message_delta", '"tool_use"', '"end_turn"'), "calls, but not"),
    (MESSAGES, "text", edit("event: message_delta", '"end_turn"', '"tool_use"'), "without a call"),
    (MESSAGES, "text", edit("event: message_delta", '"end_turn"', '"stop"'), "the dialect does not have"),
    (MESSAGES, "text", edit("event: message_delta", '"stop_sequence":null', '"stop_sequence":"x"'), "another reason"),
    (MESSAGES, "text", edit("event: message_delta", '"output_tokens"', '"tokens"'), "without a count"),
    (MESSAGES, "text", drop("event: message_delta"), "without message_delta"),
    (MESSAGES, "text", drop("message_stop"), "no terminal frame"),
    (MESSAGES, "text", double("message_stop"), "after the terminal frame"),
    (MESSAGES, "text", add('event: novelty\ndata: {"type":"novelty"}\n\n', "message_stop"), "not of the dialect"),
    (MESSAGES, "error", edit("event: error", '"message"', '"text"'), "message is missing"),
]


@pytest.mark.parametrize(("dialect", "case", "change", "rule"), CASES)
def test_a_seeded_defect_is_found(dialect: Dialect, case: str, change: Change, rule: str) -> None:
    other = MESSAGES if dialect is CHAT else CHAT
    name = f"{dialect}_from_{other}/{case}"
    try:
        frames = golden_frames(name)
    except FileNotFoundError:
        frames = golden_frames(f"{dialect}_from_responses/{case}")
    assert verdict(dialect, b"".join(frames), **settings_of(name)) is None
    change(frames)
    found = verdict(dialect, b"".join(frames), **settings_of(name), losses=Losses())
    assert found is not None
    assert rule in found.rule


def test_two_blocks_at_a_time_are_a_breach_where_they_were_to_follow_each_other() -> None:
    frames = golden_frames("messages_from_chat/two_tools+sequential")
    settings = settings_of("messages_from_chat/two_tools+sequential")
    move("content_block_start", "content_block_delta", 1)(frames)
    found = verdict(MESSAGES, b"".join(frames), **settings)
    assert found is not None
    assert "two blocks" in found.rule


def test_a_delta_behind_the_signature_is_a_breach() -> None:
    frames = golden_frames("messages_from_responses/thinking_text_tool")
    at = next((at for at, frame in enumerate(frames) if b"signature_delta" in frame), None)
    if at is None:
        at = find(frames, "content_block_stop")
        signed = '{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}'
        frames.insert(at, f"event: content_block_delta\ndata: {signed}\n\n".encode())
        assert verdict(MESSAGES, b"".join(frames)) is None
    frames.insert(at + 1, frames[find(frames, "thinking_delta")])
    found = verdict(MESSAGES, b"".join(frames))
    assert found is not None
    assert "signature" in found.rule


def test_half_a_frame_at_the_end_is_a_breach() -> None:
    for dialect, other in ((CHAT, MESSAGES), (MESSAGES, CHAT), (RESPONSES, CHAT)):
        data = b"".join(golden_frames(f"{dialect}_from_{other}/text"))
        found = verdict(dialect, data[:-1])
        assert found is not None
        assert found.rule == "a frame without its end"

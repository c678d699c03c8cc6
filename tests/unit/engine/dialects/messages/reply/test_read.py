"""Whole Messages replies as they are read (mapping §9.1 to §9.4)."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from dragoman.canonical.events import RefusalInfo, Stop, StopReason, Usage
from dragoman.canonical.parts import Native, Part, Reasoning, Text, ToolCall
from dragoman.canonical.reply import Reply
from dragoman.dialects.messages.reply.read import read_reply
from dragoman.dialects.messages.reply.write import write_reply
from dragoman.errors import UpstreamProtocolError
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.reply_context import ReplyContext
from support.messages_frames import written_call, written_text


def read(content: Any, stop: Any = "end_turn", losses: Losses | None = None, **fields: Any) -> Reply:
    body = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": content}
    body |= {"stop_reason": stop, **fields}
    losses = Losses() if losses is None else losses
    return read_reply(body, ReplyContext("claude", names={"fitted": "client.name"}, losses=losses))


def write(
    *parts: Part, reason: StopReason = StopReason.END, losses: Losses | None = None, knobs: Any = None, **fields: Any
) -> Any:
    given: dict[str, Any] = {"usage": Usage(1, None, None, 1), "stop": Stop(reason), **fields}
    reply = Reply("chatcmpl-1", "gpt", list(parts), **given)
    losses = Losses() if losses is None else losses
    written = write_reply(reply, ReplyContext("claude", knobs=knobs or Knobs(), losses=losses))
    return orjson.loads(orjson.dumps(written))


TEXT = written_text("hi")
CALL = written_call("toolu_1", "f", {"b": 1, "a": "é"})


def test_a_reply_is_read() -> None:
    thinking = {"type": "thinking", "thinking": "t", "signature": "s"}
    redacted = {"type": "redacted_thinking", "data": "d"}
    usage = {"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 5}
    reply = read([thinking, redacted, TEXT, CALL], "tool_use", usage=usage)
    assert (reply.id, reply.model) == ("msg_1", "claude")
    assert reply.parts == [
        Reasoning("t", ("content", 0), "messages", "s", native=thinking),
        Reasoning("", ("content", 1), "messages", "d", True, redacted),
        Text("hi", ("content", 2)),
        ToolCall("toolu_1", "f", '{"b":1,"a":"é"}', ("content", 3)),
    ]
    assert reply.stop == Stop(StopReason.TOOL_CALLS, "tool_use")
    assert reply.usage == Usage(7, 4, None, 5)


@pytest.mark.parametrize("given", [{}, None])
def test_a_call_cut_before_its_first_argument_goes_back_as_it_came(given: Any) -> None:
    losses = Losses()
    reply = read([TEXT, {**CALL, "input": given}], "max_tokens", losses)
    assert (reply.parts[1], reply.cut) == (ToolCall("toolu_1", "f", "", ("content", 1)), frozenset({1}))
    written = write(*reply.parts, reason=StopReason.LENGTH, cut=reply.cut, losses=losses)
    assert written["content"] == [TEXT, {**CALL, "input": {}}]
    assert losses.counts == {}
    unknown = {"type": "novelty"}
    assert read([{**CALL, "input": given}, unknown], "max_tokens").cut == frozenset()
    assert read([{**CALL, "input": given}], "tool_use").cut == frozenset()
    assert read([CALL], "max_tokens").cut == frozenset()


def test_renamed_tools_get_their_own_names_back() -> None:
    (call,) = read([{**CALL, "name": "fitted"}]).parts
    assert isinstance(call, ToolCall)
    assert call.name == "client.name"


def test_citations_are_read() -> None:
    (text,) = read([{**TEXT, "citations": [{"type": "web_search_result_location", "url": "u", "title": "t"}]}]).parts
    assert isinstance(text, Text)
    assert (text.citations[0].url, text.citations[0].title) == ("u", "t")


def test_thinking_without_signature_is_no_error() -> None:
    (reasoning,) = read([{"type": "thinking", "thinking": "t"}]).parts
    assert isinstance(reasoning, Reasoning)
    assert reasoning.proof is None


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("server_tool_use", LossCode.HOSTED_HISTORY),
        ("web_search_tool_result", LossCode.HOSTED_HISTORY),
        ("mcp_tool_use", LossCode.VENDOR_BLOCK),
        ("compaction", LossCode.VENDOR_BLOCK),
        ("fallback", LossCode.VENDOR_BLOCK),
    ],
)
def test_blocks_of_the_provider_are_kept_as_they_are(kind: str, code: LossCode) -> None:
    block = {"type": kind, "x": 1}
    assert read([block, TEXT]).parts[0] == Native("messages", kind, block, code, ("content", 0))


def test_T24_an_unknown_block_is_left_out_with_a_row() -> None:
    losses = Losses()
    assert read([{"type": "hologram"}, TEXT], losses=losses).parts == [Text("hi", ("content", 1))]
    assert losses.counts == {LossCode.UNKNOWN_EVENT: 1}


@pytest.mark.parametrize(
    ("content", "native", "reason", "codes"),
    [
        ([TEXT], "end_turn", StopReason.END, {}),
        ([CALL], "tool_use", StopReason.TOOL_CALLS, {}),
        ([CALL], "end_turn", StopReason.TOOL_CALLS, {LossCode.FINISH_FIXED: 1}),
        ([TEXT], "tool_use", StopReason.END, {LossCode.FINISH_FIXED: 1}),
        ([CALL], "max_tokens", StopReason.LENGTH, {}),
        ([CALL], "refusal", StopReason.FILTERED, {}),
        ([TEXT], None, StopReason.END, {LossCode.STOP_UNKNOWN: 1}),
        ([TEXT], "brand_new", StopReason.END, {LossCode.STOP_UNKNOWN: 1}),
        ([CALL], None, StopReason.TOOL_CALLS, {LossCode.STOP_UNKNOWN: 1}),
        ([], "max_tokens", StopReason.LENGTH, {}),
        ([], "end_turn", StopReason.END, {}),
        ([TEXT], "pause_turn", StopReason.PAUSED, {}),
    ],
)
def test_stop_reasons_agree_with_the_content(content: Any, native: Any, reason: StopReason, codes: Any) -> None:
    losses = Losses()
    assert read(content, native, losses).stop == Stop(reason, native)
    assert losses.counts == codes


def test_the_matched_stop_sequence_is_known() -> None:
    assert read([TEXT], "stop_sequence", stop_sequence="END").stop == Stop(
        StopReason.STOP_SEQUENCE, "stop_sequence", "END"
    )


def test_a_refusal_without_text() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "No."}
    reply = read([], "refusal", stop_details=details)
    assert (reply.parts, reply.refusal) == ([], RefusalInfo("No.", "cyber"))


@pytest.mark.parametrize(
    "content",
    [
        5,
        ["hi"],
        [{"type": "text", "text": 5}],
        [{"type": "tool_use", "id": "x", "name": "f", "input": "{"}],
        [{"type": "tool_use", "id": "x", "input": {}}],
        [{"type": "thinking", "thinking": ["x"]}],
    ],
)
def test_T06_malformed_replies_are_the_upstreams_fault(content: Any) -> None:
    with pytest.raises(UpstreamProtocolError, match="content"):
        read(content)


def test_an_error_under_a_success_status() -> None:
    body: Any = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    with pytest.raises(UpstreamProtocolError, match="busy"):
        read_reply(body, ReplyContext("m"))
    with pytest.raises(UpstreamProtocolError):
        read_reply([], ReplyContext("m"))


def test_T22_neither_content_nor_a_reason_is_no_reply() -> None:
    with pytest.raises(UpstreamProtocolError):
        read([], None)

"""Whole Messages replies as they are written (mapping §9.1 to §9.4)."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from dragoman.canonical.events import Citation, RefusalInfo, Stop, StopReason, Usage
from dragoman.canonical.parts import Image, Native, Part, Reasoning, Refusal, Text, ToolCall, Url
from dragoman.canonical.reply import Reply
from dragoman.dialects.messages.reply.read import read_reply
from dragoman.dialects.messages.reply.write import write_reply
from dragoman.errors import UpstreamProtocolError
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.reply_context import ReplyContext
from support.messages_frames import written_call, written_full_usage, written_text


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


CALL = written_call("toolu_1", "f", {"b": 1, "a": "é"})


def test_a_reply_is_written() -> None:
    written = write(
        Reasoning("t", origin="chat"),
        Text("hi"),
        ToolCall("call_1", "f", '{"b": 1, "a": "é"}'),
        reason=StopReason.TOOL_CALLS,
        usage=Usage(10, 4, None, 5, 2),
    )
    assert written == {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [
            {"type": "thinking", "thinking": "t", "signature": ""},
            written_text("hi"),
            written_call("call_1", "f", {"b": 1, "a": "é"}),
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
        "usage": written_full_usage(
            input_tokens=6, cache_read_input_tokens=4, output_tokens=5, output_tokens_details={"thinking_tokens": 2}
        ),
    }


def test_an_empty_reply_is_legal() -> None:
    written = write(Text(""), Reasoning(""), reason=StopReason.LENGTH)
    assert (written["content"], written["stop_reason"]) == ([], "max_tokens")


def test_the_clients_model_name_or_the_upstreams() -> None:
    assert write(Text("x"), knobs=Knobs(echo_model="upstream"))["model"] == "gpt"


@pytest.mark.parametrize("reason", [StopReason.END, StopReason.REFUSAL])
def test_the_models_own_refusal_is_text_and_a_reason(reason: StopReason) -> None:
    written = write(Refusal("I can't."), reason=reason)
    assert written["content"] == [written_text("I can't.")]
    assert written["stop_reason"] == "refusal"
    assert written["stop_details"] == {"type": "refusal", "category": None, "explanation": "I can't."}


def test_a_filter_is_a_refusal_too() -> None:
    written = write(Text("so f"), reason=StopReason.FILTERED)
    assert written["stop_reason"] == "refusal"
    assert written["stop_details"] == {"type": "refusal", "category": None, "explanation": None}
    with_details = write(reason=StopReason.FILTERED, refusal=RefusalInfo("No.", "bio"))
    assert with_details["stop_details"] == {"type": "refusal", "category": "bio", "explanation": "No."}


@pytest.mark.parametrize("arguments", ["", " "])
def test_a_call_without_arguments(arguments: str) -> None:
    assert write(ToolCall("c", "f", arguments))["content"][0]["input"] == {}


@pytest.mark.parametrize("arguments", ['{"a":', "[]", "null", "nope"])
def test_T06_arguments_that_are_no_object_are_the_upstreams_fault(arguments: str) -> None:
    with pytest.raises(UpstreamProtocolError, match="arguments of the call of 'f'"):
        write(ToolCall("c", "f", arguments))


@pytest.mark.parametrize("number", ["123456789012345678901234567890", "1e300", "1E5", "-12345678901234567.5"])
def test_long_numbers_survive(number: str) -> None:
    reply = Reply("r", "m", [ToolCall("c", "f", f'{{"n": {number}}}')], Stop(StopReason.TOOL_CALLS), Usage())
    written = write_reply(reply, ReplyContext("m"))
    assert f'"n": {number}'.encode() in orjson.dumps(written)


@pytest.mark.parametrize("part", [ToolCall("c", "f", "text", custom=True), ToolCall("c", "", "{}"), Image(Url("u"))])
def test_what_no_messages_client_takes(part: Part) -> None:
    with pytest.raises(UpstreamProtocolError):
        write(part)


def test_call_ids_fit_the_clients_pattern() -> None:
    long = "call_" + "x" * 100
    ids = [block["id"] for block in write(*(ToolCall(i, "f", "{}") for i in (long, "f.x:0", "", "")))["content"]]
    assert ids[0] == long
    assert len(set(ids)) == 4
    assert all(call_id.replace("_", "").isalnum() for call_id in ids)


def test_missing_usage_is_zeros_and_a_row() -> None:
    losses = Losses()
    assert write(Text("x"), usage=None, losses=losses)["usage"] == written_full_usage()
    assert losses.counts == {LossCode.USAGE_ESTIMATED: 1}


def test_foreign_citations_and_blocks_are_dropped_with_rows() -> None:
    losses = Losses()
    own = {"type": "char_location", "cited_text": "x"}
    cited = Text("x", citations=[Citation("chat", {}, "https://a.test"), Citation("messages", own)])
    foreign = Native("responses", "web_search_call", {}, LossCode.HOSTED_HISTORY)
    written = write(cited, foreign, losses=losses)
    assert written["content"] == [{"type": "text", "text": "x", "citations": [own]}]
    assert losses.counts == {LossCode.CITATIONS: 1, LossCode.HOSTED_HISTORY: 1}


def test_a_reply_survives_the_round_trip() -> None:
    content = [
        {"type": "thinking", "thinking": "", "signature": "s"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {}},
        {"type": "text", "text": "x", "citations": [{"type": "char_location", "cited_text": "x"}]},
        CALL,
    ]
    usage = written_full_usage(
        input_tokens=3, cache_creation_input_tokens=1, cache_read_input_tokens=4, output_tokens=5
    )
    losses = Losses()
    reply = read(content, "tool_use", losses, usage=usage)
    written = write_reply(reply, ReplyContext("claude", losses=losses))
    again = orjson.loads(orjson.dumps(written))
    assert (again["content"], again["usage"], again["stop_reason"]) == (content, usage, "tool_use")
    assert read_reply(again, ReplyContext("m", losses=losses)) == reply
    assert not len(losses)

"""The Responses stream writer against the worked streams: which events, in which order, with which numbers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import Knobs
from dragoman.canonical.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    Delta,
    End,
    Error,
    Event,
    Finish,
    Opaque,
    Ping,
    RefusalInfo,
    Start,
    Stop,
    StopReason,
    Usage,
)
from dragoman.dialects.responses.stream.writer import ResponsesWriter as Writer
from dragoman.errors import Failure, FailureKind, StreamTruncated
from dragoman.losses import LossCode
from dragoman.reasoning.envelope import Envelope, unwrap
from dragoman.reply_context import ReplyContext
from dragoman.wire.sse import Frame, encode_frames
from oracles.grammar import responses
from support.frames import frames_of

Json = dict[str, Any]
START = Start("msg_x", "upstream-model")
USAGE = Usage(12, 4, None, 7, None)
COUNTED: Json = {
    "input_tokens": 12,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 19,
}
DECLINED = Finish(Stop(StopReason.FILTERED, "refusal"), USAGE, RefusalInfo("Declined: cyber.", "cyber"))
OVERLOADED = Error(Failure(FailureKind.OVERLOADED, "Overloaded", 529))


def context(**settings: Any) -> ReplyContext:
    return ReplyContext("client-model", 1, "req_1", **settings)


def finish(reason: StopReason, native: str | None = None) -> Finish:
    return Finish(Stop(reason, native), USAGE)


def frames(*events: Event, into: ReplyContext | None = None) -> list[Frame]:
    return frames_of(Writer(into or context()).feed(list(events)))


def payloads(*events: Event, into: ReplyContext | None = None) -> list[Json]:
    return [json.loads(frame.data) for frame in frames(*events, into=into) if frame.data is not None]


def checked(*events: Event, into: ReplyContext | None = None) -> list[Json]:
    """The payloads of a whole stream, which the grammar must like."""
    into = into or context()
    responses.check(encode_frames(frames(*events, into=into)))
    return payloads(*events, into=context(**{name: getattr(into, name) for name in ("knobs", "envelope", "echo")}))


def brief(event: Json) -> str:
    """An event in the notation of the worked streams, without its number."""
    kind = event["type"].removeprefix("response.")
    if "response" in event:
        response = event["response"]
        details = response["incomplete_details"]
        items = [f"{item['type']}:{item['status']}" for item in response["output"]]
        return " ".join([kind, response["status"], *([details["reason"]] if details else []), *items])
    words = [kind, f"oi={event['output_index']}"]
    if "item" in event:
        item = event["item"]
        words += [item["type"], item["id"], item["status"]]
        words += [item[key] for key in ("call_id", "name", "arguments") if item.get(key)]
    for key in ("delta", "text", "refusal", "arguments"):
        if key in event:
            words.append(repr(event[key]))
    if "part" in event:
        part = event["part"]
        words += [part["type"], repr(part.get("text", part.get("refusal")))]
    return " ".join(words)


def written(*events: Event, into: ReplyContext | None = None) -> list[str]:
    return [brief(event) for event in checked(*events, into=into)]


OPENING = ["created in_progress", "in_progress in_progress"]


def prose(index: int, kind: BlockKind, *texts: str, complete: bool = True) -> list[Event]:
    return [BlockStart(index, kind), *(Delta(index, text) for text in texts), BlockEnd(index, complete)]


def test_the_first_frames_in_full() -> None:
    response = (
        b'{"id":"resp_x","object":"response","created_at":1,"model":"client-model","status":"in_progress","output":[],'
        b'"parallel_tool_calls":true,"tool_choice":"auto","tools":[],"error":null,"incomplete_details":null,'
        b'"instructions":null,"metadata":{},"temperature":1.0,"top_p":1.0,"presence_penalty":0.0,'
        b'"frequency_penalty":0.0,"top_logprobs":0,"max_output_tokens":null,"max_tool_calls":null,"reasoning":null,'
        b'"text":{"format":{"type":"text"}},"truncation":"disabled","background":false,'
        b'"safety_identifier":null,"prompt_cache_key":null,"user":null,"previous_response_id":null,"store":false,'
        b'"usage":null,"completed_at":null,"service_tier":"default"}}'
    )
    assert frames(START) == [
        Frame("response.created", b'{"type":"response.created","sequence_number":0,"response":' + response),
        Frame("response.in_progress", b'{"type":"response.in_progress","sequence_number":1,"response":' + response),
    ]


def test_text_in_full() -> None:
    """events.md 6.1."""
    events = checked(START, *prose(0, "text", "Hel", "lo"), finish(StopReason.END, "end_turn"), End())
    item = {"type": "message", "id": "msg_x1", "role": "assistant", "status": "in_progress", "content": []}
    at = {"item_id": "msg_x1", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}
    whole = item | {"status": "completed", "content": [part]}
    assert events[2:9] == [
        {"type": "response.output_item.added", "sequence_number": 2, "output_index": 0, "item": item},
        {"type": "response.content_part.added", "sequence_number": 3, **at, "part": part | {"text": ""}},
        {"type": "response.output_text.delta", "sequence_number": 4, **at, "delta": "Hel", "logprobs": []},
        {"type": "response.output_text.delta", "sequence_number": 5, **at, "delta": "lo", "logprobs": []},
        {"type": "response.output_text.done", "sequence_number": 6, **at, "text": "Hello", "logprobs": []},
        {"type": "response.content_part.done", "sequence_number": 7, **at, "part": part},
        {"type": "response.output_item.done", "sequence_number": 8, "output_index": 0, "item": whole},
    ]
    last = events[9]
    assert (last["type"], last["sequence_number"]) == ("response.completed", 9)
    assert (last["response"]["output"], last["response"]["usage"]) == ([whole], COUNTED)
    assert len(events) == 10


def test_T01_T03_two_interleaved_calls_have_their_own_index_and_id() -> None:
    """events.md 6.2."""
    events: list[Event] = [START, *prose(0, "text", "Looking up")]
    events += [
        BlockStart(1, "tool", "toolu_a", "get_weather"),
        BlockStart(2, "tool", "toolu_b", "get_time"),
    ]
    events += [Delta(1, '{"city":'), Delta(2, '{"tz":'), Delta(1, '"Oslo"}'), Delta(2, '"CET"}'), BlockEnd(1)]
    assert written(*events, BlockEnd(2), finish(StopReason.TOOL_CALLS), End())[7:] == [
        "output_item.done oi=0 message msg_x1 completed",
        "output_item.added oi=1 function_call fc_x1 in_progress toolu_a get_weather",
        "output_item.added oi=2 function_call fc_x2 in_progress toolu_b get_time",
        "function_call_arguments.delta oi=1 '{\"city\":'",
        "function_call_arguments.delta oi=2 '{\"tz\":'",
        "function_call_arguments.delta oi=1 '\"Oslo\"}'",
        "function_call_arguments.delta oi=2 '\"CET\"}'",
        'function_call_arguments.done oi=1 \'{"city":"Oslo"}\'',
        'output_item.done oi=1 function_call fc_x1 completed toolu_a get_weather {"city":"Oslo"}',
        'function_call_arguments.done oi=2 \'{"tz":"CET"}\'',
        'output_item.done oi=2 function_call fc_x2 completed toolu_b get_time {"tz":"CET"}',
        "completed completed message:completed function_call:completed function_call:completed",
    ]


def test_T12_T14_reasoning_text_and_call_are_three_items() -> None:
    """events.md 6.3: reasoning is never part of the answer, and the whole block rides in an envelope."""
    block = {"type": "thinking", "thinking": "Need weather", "signature": "SIG"}
    events: list[Event] = [START, BlockStart(0, "reasoning"), Delta(0, "Need"), Delta(0, " weather")]
    events += [Opaque(0, "messages", "signature", "SIG", block), BlockEnd(0), *prose(1, "text", "Checking")]
    events += [
        BlockStart(2, "tool", "toolu_a", "f"),
        Delta(2, "{}"),
        BlockEnd(2),
        finish(StopReason.TOOL_CALLS),
    ]
    into = context(envelope=Envelope("anthropic", "claude"))
    assert written(*events, End(), into=into)[:10] == [
        *OPENING,
        "output_item.added oi=0 reasoning rs_x1 in_progress",
        "content_part.added oi=0 reasoning_text ''",
        "reasoning_text.delta oi=0 'Need'",
        "reasoning_text.delta oi=0 ' weather'",
        "reasoning_text.done oi=0 'Need weather'",
        "content_part.done oi=0 reasoning_text 'Need weather'",
        "output_item.done oi=0 reasoning rs_x1 completed",
        "output_item.added oi=1 message msg_x1 in_progress",
    ]
    done = next(event["item"] for event in checked(*events, End(), into=into) if event["type"].endswith("item.done"))
    envelope = unwrap(done.pop("encrypted_content"))
    assert envelope is not None
    assert (envelope.dialect, envelope.family, envelope.block) == ("messages", "anthropic", block)
    content = [{"type": "reasoning_text", "text": "Need weather"}]
    assert done == {"type": "reasoning", "id": "rs_x1", "summary": [], "status": "completed", "content": content}


def test_a_refusal_in_words_is_a_result() -> None:
    """events.md 4.4."""
    assert written(START, *prose(0, "refusal", "I can't", " help."), finish(StopReason.REFUSAL), End())[3:] == [
        "content_part.added oi=0 refusal ''",
        'refusal.delta oi=0 "I can\'t"',
        "refusal.delta oi=0 ' help.'",
        'refusal.done oi=0 "I can\'t help."',
        'content_part.done oi=0 refusal "I can\'t help."',
        "output_item.done oi=0 message msg_x1 completed",
        "completed completed message:completed",
    ]


@pytest.mark.parametrize(
    ("knob", "end"),
    [
        ("completed", "completed completed message:completed"),
        ("native", "incomplete incomplete content_filter message:completed"),
    ],
)
def test_a_messages_refusal_with_nothing_shown(knob: Any, end: str) -> None:
    """events.md 6.4: an item of its own before the terminal, which the knob decides."""
    into = context(knobs=Knobs(refusal_terminal=knob))
    assert written(START, DECLINED, End(), into=into)[2:] == [
        "output_item.added oi=0 message msg_x1 in_progress",
        "content_part.added oi=0 refusal ''",
        "refusal.delta oi=0 'Declined: cyber.'",
        "refusal.done oi=0 'Declined: cyber.'",
        "content_part.done oi=0 refusal 'Declined: cyber.'",
        "output_item.done oi=0 message msg_x1 completed",
        end,
    ]
    assert into.losses.counts == {LossCode.REFUSAL_CATEGORY: 1}


def test_a_messages_refusal_without_a_word_gets_one() -> None:
    unsaid = Finish(Stop(StopReason.FILTERED, "refusal"), USAGE)
    assert "refusal.delta oi=0 'The model declined to answer.'" in written(START, unsaid, End())
    after_text = written(START, *prose(0, "text", "Step one"), unsaid, End())
    assert after_text[-1] == "incomplete incomplete content_filter message:completed", "no words of ours"


@pytest.mark.parametrize("knob", ["completed", "native"])
def test_a_messages_refusal_after_text_is_a_filter_whatever_the_knob(knob: Any) -> None:
    """events.md 6.5, decision 0002."""
    lines = written(
        START, *prose(0, "text", "Step one"), DECLINED, End(), into=context(knobs=Knobs(refusal_terminal=knob))
    )
    assert lines[8] == "output_item.added oi=1 message msg_x2 in_progress"
    assert lines[-1] == "incomplete incomplete content_filter message:completed message:completed"


def test_a_filter_cut_leaves_the_text_incomplete() -> None:
    """events.md 4.5."""
    events = [
        *prose(0, "text", "Step one", complete=False),
        finish(StopReason.FILTERED, "content_filter"),
        End(),
    ]
    assert written(START, *events)[5:] == [
        "output_text.done oi=0 'Step one'",
        "content_part.done oi=0 output_text 'Step one'",
        "output_item.done oi=0 message msg_x1 incomplete",
        "incomplete incomplete content_filter message:incomplete",
    ]


@pytest.mark.parametrize("complete", [True, False])
def test_T22_a_cut_call_is_never_written_as_complete(complete: bool) -> None:
    """events.md 6.6: Messages reports the cap only later, so the arguments themselves decide."""
    call: list[Event] = [BlockStart(0, "tool", "toolu_a", "write_file"), Delta(0, '{"path":"a')]
    events = [START, *call, BlockEnd(0, complete), finish(StopReason.LENGTH, "max_tokens"), End()]
    assert written(*events)[2:] == [
        "output_item.added oi=0 function_call fc_x1 in_progress toolu_a write_file",
        'function_call_arguments.delta oi=0 \'{"path":"a\'',
        'output_item.done oi=0 function_call fc_x1 incomplete toolu_a write_file {"path":"a',
        "incomplete incomplete max_output_tokens function_call:incomplete",
    ]


def test_T22_an_error_closes_nothing() -> None:
    """events.md 6.7."""
    assert written(START, BlockStart(0, "text"), Delta(0, "Hel"), OVERLOADED)[4:] == [
        "output_text.delta oi=0 'Hel'",
        "failed failed message:incomplete",
    ]
    failed = checked(START, BlockStart(0, "text"), Delta(0, "Hel"), OVERLOADED)[-1]["response"]
    assert failed["error"] == {"code": "server_error", "message": "Overloaded"}
    assert failed["output"][0]["content"] == [{"type": "output_text", "text": "Hel", "annotations": [], "logprobs": []}]


def test_T23_a_cut_stream_fails_with_what_there_was() -> None:
    """events.md 6.8: a complete item stays complete; an incomplete call is not written as done."""
    events: list[Event] = [
        START,
        *prose(0, "text", "Hel"),
        BlockStart(1, "tool", "a", "f"),
        Delta(1, '{"a":1}'),
    ]
    lines = written(*events, Error(StreamTruncated().failure))
    assert lines[-1] == "failed failed message:completed function_call:incomplete"
    assert not any("done oi=1" in line for line in lines)


def test_an_error_before_the_start_still_begins_with_created() -> None:
    events = checked(OVERLOADED)
    assert [(event["type"], event["sequence_number"]) for event in events] == [
        ("response.created", 0),
        ("response.failed", 1),
    ]
    assert events[0]["response"]["id"] == events[1]["response"]["id"] == "resp_req_1"


def test_nothing_at_the_finish_and_nothing_after_the_end() -> None:
    writer = Writer(context())
    writer.feed([START])
    assert writer.feed([finish(StopReason.END), Ping()]) == [Frame("", None)]
    assert [frame.event for frame in frames_of(writer.feed([End()]))] == ["response.completed"]
    assert writer.done
    assert writer.feed([Ping()]) == []


def test_late_counts_and_none() -> None:
    into = context()
    *_, last = payloads(START, finish(StopReason.END), End(Usage(output_total=9, reasoning=5)), into=into)
    usage = last["response"]["usage"]
    assert (usage["output_tokens"], usage["total_tokens"]) == (9, 21)
    assert usage["output_tokens_details"] == {"reasoning_tokens": 5}
    assert into.usage == Usage(12, 4, None, 9, 5)
    assert not into.losses.counts
    *_, last = payloads(START, Finish(Stop(StopReason.END)), End(), into=into)
    assert last["response"]["usage"] is None
    assert into.losses.counts == {LossCode.USAGE_ESTIMATED: 1}


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        (StopReason.END, "completed"),
        (StopReason.STOP_SEQUENCE, "completed"),
        (StopReason.REFUSAL, "completed"),
        (StopReason.LENGTH, "incomplete max_output_tokens"),
        (StopReason.CONTEXT, "incomplete max_output_tokens"),
        (StopReason.PAUSED, "incomplete max_output_tokens"),
        (StopReason.POLICY_CUT, "incomplete max_output_tokens"),
        (StopReason.FILTERED, "incomplete content_filter"),
    ],
)
def test_every_stop_reason(reason: StopReason, status: str) -> None:
    assert written(START, finish(reason), End())[-1] == f"{status.split(' ')[0]} {status}"


def test_the_echo_the_model_and_the_time() -> None:
    echo: Json = {"instructions": "Be brief", "tools": [{"type": "function", "name": "f"}]}
    echo |= {"id": "resp_other", "store": True, "reasoning": {"effort": "low"}, "metadata": {"a": "b"}}
    into = context(echo=echo, knobs=Knobs(echo_model="upstream"))
    response = payloads(Start("", "upstream-model", None, 17), finish(StopReason.END), End(), into=into)[-1]["response"]
    assert (response["id"], response["created_at"], response["model"]) == ("resp_req_1", 17, "upstream-model")
    assert (response["instructions"], response["tool_choice"], response["store"]) == ("Be brief", "auto", False)
    assert (response["reasoning"], response["metadata"]) == ({"effort": "low"}, {"a": "b"})
    assert response["completed_at"] is None


def test_a_long_response_is_written_as_a_short_one_is() -> None:
    events: list[Event] = [START, *prose(0, "text", "Hi"), finish(StopReason.END), End()]
    short, long = (payloads(*events, into=context(echo={"instructions": text})) for text in ("x", "x" * 5000))
    assert [event["type"] for event in short] == [event["type"] for event in long]
    for one, other in zip(short, long, strict=True):
        if "response" in one:
            one["response"]["instructions"] = other["response"]["instructions"]
    assert short == long

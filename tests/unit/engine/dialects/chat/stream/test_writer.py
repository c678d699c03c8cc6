"""The Chat stream writer, event by event: what the official SDK's accumulator needs, and what it must never see."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from dragoman import Knobs
from dragoman.canonical.events import (
    Annotation,
    BlockEnd,
    BlockStart,
    Citation,
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
from dragoman.dialects.chat.stream.writer import ChatWriter as Writer
from dragoman.errors import Failure, FailureKind
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.wire.sse import encode_frames
from oracles.grammar import Accumulated, chat
from support import canonical
from support.frames import frames_of
from support.strategies import ANY, event_streams

Json = dict[str, Any]
START = Start("msg_u", "upstream-model")
END = Finish(Stop(StopReason.END, "end_turn"), Usage(12, 4, None, 7, None))
FAILURE = Failure(FailureKind.OVERLOADED, "busy", 529)


def context(**settings: Any) -> ReplyContext:
    return ReplyContext("client-model", 1, "req_1", **{"include_usage": True, **settings})


def written(*events: Event, into: ReplyContext | None = None) -> bytes:
    return encode_frames(Writer(into or context()).feed(list(events)))


def payloads(*events: Event, into: ReplyContext | None = None) -> list[Json]:
    frames = frames_of(Writer(into or context()).feed(list(events)))
    return [json.loads(frame.data) for frame in frames if frame.data is not None and frame.data != b"[DONE]"]


def deltas(*events: Event, into: ReplyContext | None = None) -> list[Json]:
    return [chunk["choices"][0]["delta"] for chunk in payloads(*events, into=into) if chunk.get("choices")]


def accumulated(*events: Event, into: ReplyContext | None = None) -> Accumulated:
    into = into or context()
    return chat.check(written(*events, into=into), include_usage=into.include_usage)


def test_the_first_chunk_in_full() -> None:
    assert written(START) == (
        b'data: {"id":"chatcmpl-u","object":"chat.completion.chunk","created":1,"model":"client-model",'
        b'"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}\n\n'
    )


def test_the_upstreams_own_time_and_the_gateways_own_id() -> None:
    (chunk,) = payloads(Start("", "m", None, 17))
    assert (chunk["id"], chunk["created"]) == ("chatcmpl-req_1", 17)
    assert payloads(Start("", "m", None, 17), into=context(knobs=Knobs(echo_model="upstream")))[0]["model"] == "m"


def test_usage_only_if_the_client_asked() -> None:
    whole = (START, BlockStart(0, "text"), Delta(0, "a"), BlockEnd(0), END, End())
    assert accumulated(*whole).usage == {
        "prompt_tokens": 12,
        "completion_tokens": 7,
        "total_tokens": 19,
        "prompt_tokens_details": {"cached_tokens": 4},
    }
    bare = context(include_usage=False)
    assert all("usage" not in chunk for chunk in payloads(*whole, into=bare))
    assert accumulated(*whole, into=bare).usage is None


def test_the_finish_comes_at_once_and_done_with_the_end() -> None:
    writer = Writer(context())
    writer.feed([START])
    assert [frame.data and frame.data[-20:] for frame in frames_of(writer.feed([END]))][-1] != b"[DONE]"
    assert [frame.data for frame in frames_of(writer.feed([End()]))] == [b"[DONE]"]
    assert writer.done
    assert writer.feed([Ping()]) == []


def test_late_counts_are_booked() -> None:
    into = context()
    written(START, END, End(Usage(output_total=9)), into=into)
    assert into.usage == Usage(12, 4, None, 9, None)


def test_T01_T05_calls_have_their_own_index_and_id_type_name_once() -> None:
    events: list[Event] = [START, BlockStart(0, "text"), Delta(0, "a"), BlockEnd(0)]
    events += [BlockStart(1, "tool", "toolu_a", "f"), BlockStart(2, "tool", "toolu_b", "g")]
    assert deltas(*events, Delta(2, "{"), Delta(1, "{}"), Delta(2, "}"))[2:] == [
        {"tool_calls": [{"index": 0, "id": "toolu_a", "type": "function", "function": {"name": "f", "arguments": ""}}]},
        {"tool_calls": [{"index": 1, "id": "toolu_b", "type": "function", "function": {"name": "g", "arguments": ""}}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": "{"}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": "}"}}]},
    ]


@pytest.mark.parametrize(("complete", "expected"), [(True, "{}"), (False, "")])
def test_a_whole_call_without_arguments_is_an_empty_object(complete: bool, expected: str) -> None:
    """Clients parse the string; the empty one is no JSON (mapping §6.3)."""
    finish = Finish(Stop(StopReason.TOOL_CALLS if complete else StopReason.LENGTH))
    events = (START, BlockStart(0, "tool", "a", "f"), Delta(0, ""), BlockEnd(0, complete), finish, End())
    assert accumulated(*events).calls[0].arguments == expected


def test_a_free_text_call_may_be_empty() -> None:
    events = (START, BlockStart(0, "tool", "a", "f", custom=True), Delta(0, "x"), BlockEnd(0))
    assert deltas(*events)[1:] == [
        {"tool_calls": [{"index": 0, "id": "a", "type": "custom", "custom": {"name": "f", "input": ""}}]},
        {"tool_calls": [{"index": 0, "custom": {"input": "x"}}]},
    ]
    assert len(deltas(START, BlockStart(0, "tool", "a", "f", custom=True), BlockEnd(0))) == 2


def test_neighbouring_texts_join_and_separated_ones_are_paragraphs() -> None:
    def texts(between: list[Event]) -> str:
        text: list[Event] = [BlockStart(0, "text"), Delta(0, "a"), BlockEnd(0)]
        more: list[Event] = [BlockStart(5, "text"), Delta(5, "b"), BlockEnd(5)]
        return accumulated(START, *text, *between, *more, END, End()).text

    assert texts([]) == "ab"
    assert texts([BlockStart(1, "reasoning"), Delta(1, "x"), BlockEnd(1)]) == "a\n\nb"
    assert texts([BlockStart(1, "opaque", name="n", code="vendor_block"), BlockEnd(1)]) == "a\n\nb"


def test_text_behind_a_call_is_a_loss_of_order() -> None:
    into = context()
    call = (BlockStart(0, "tool", "a", "f"), Delta(0, "{}"), BlockEnd(0))
    finish = Finish(Stop(StopReason.TOOL_CALLS))
    assert (
        accumulated(START, *call, BlockStart(1, "text"), Delta(1, "b"), BlockEnd(1), finish, End(), into=into).text
        == "b"
    )
    assert into.losses.counts == {LossCode.BLOCK_ORDER: 1, LossCode.USAGE_ESTIMATED: 1}


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        ("reasoning_content", ["reasoning_content"]),
        ("reasoning", ["reasoning"]),
        ("both", ["reasoning_content", "reasoning"]),
        ("off", []),
    ],
)
def test_T15_reasoning_goes_to_the_field_the_operator_chose(value: Any, fields: list[str]) -> None:
    into = context(knobs=Knobs(reasoning_field=value))
    events = (
        START,
        BlockStart(0, "reasoning"),
        Delta(0, "hm"),
        Opaque(0, "messages", "signature", "S"),
        BlockEnd(0),
    )
    assert deltas(*events, into=into)[1:] == ([dict.fromkeys(fields, "hm")] if fields else [])
    assert into.losses.counts[LossCode.REASONING_SIGNATURE] == 1
    assert (LossCode.REASONING_MODE in into.losses.counts) is (value == "off")


@pytest.mark.parametrize("knob", ["completed", "native"])
@pytest.mark.parametrize("explanation", ["No.", None])
def test_a_refusal_with_nothing_shown_is_one_refusal_delta(knob: Any, explanation: str | None) -> None:
    into = context(knobs=Knobs(refusal_terminal=knob))
    stop = Finish(Stop(StopReason.FILTERED, "refusal"), None, RefusalInfo(explanation, "cyber"))
    result = accumulated(START, stop, End(), into=into)
    assert result.refusal == (explanation or "The model declined to answer.")
    assert result.finish == ("stop" if knob == "completed" else "content_filter")
    assert into.losses.counts[LossCode.REFUSAL_CATEGORY] == 1


@pytest.mark.parametrize("knob", ["completed", "native"])
def test_a_refusal_after_text_is_only_a_filter(knob: Any) -> None:
    into = context(knobs=Knobs(refusal_terminal=knob))
    stop = Finish(Stop(StopReason.FILTERED, "refusal"), None, RefusalInfo("No."))
    result = accumulated(START, BlockStart(0, "text"), Delta(0, "a"), BlockEnd(0), stop, End(), into=into)
    assert (result.text, result.refusal, result.finish) == ("a", "", "content_filter")
    assert into.losses.counts[LossCode.REFUSAL_EXPLANATION] == 1


def test_a_filter_of_another_dialect_is_no_refusal() -> None:
    result = accumulated(START, Finish(Stop(StopReason.FILTERED, "content_filter")), End())
    assert (result.refusal, result.finish) == ("", "content_filter")


def test_annotations_come_once_with_the_extent_of_their_text() -> None:
    def cite(index: int, url: str | None) -> Annotation:
        return Annotation(index, Citation("messages", {}, url, "T"))

    into = context()
    first = (BlockStart(0, "text"), Delta(0, "ab"), cite(0, "https://a.example"), BlockEnd(0))
    second = (BlockStart(1, "text"), Delta(1, "cde"), cite(1, "https://b.example"), cite(1, None), BlockEnd(1))
    notes = [note["url_citation"] for note in accumulated(START, *first, *second, END, End(), into=into).annotations]
    assert [(note["url"], note["start_index"], note["end_index"]) for note in notes] == [
        ("https://a.example", 0, 2),
        ("https://b.example", 2, 5),
    ]
    assert into.losses.counts == {LossCode.CITATIONS: 1}


def test_T22_an_error_is_the_last_frame_and_there_is_no_done() -> None:
    into = context()
    writer = Writer(into)
    data = encode_frames(writer.feed([START, BlockStart(0, "tool", "a", "f"), Error(FAILURE), End()]))
    assert chat.check(data, include_usage=True).error == {
        "message": "busy",
        "type": "service_unavailable_error",
        "param": None,
        "code": "server_is_overloaded",
    }
    assert b"[DONE]" not in data
    assert writer.done
    assert into.failure is FAILURE


@pytest.mark.parametrize("event", [Delta(3, "x"), Delta(0, "x")])
def test_T02_a_delta_of_no_block_becomes_an_error_in_band(event: Event) -> None:
    into = context()
    result = accumulated(START, BlockStart(1, "text"), Delta(1, "kept"), event, End(), into=into)
    assert (result.text, result.error is not None) == ("kept", True)
    assert into.failure is not None


def test_T72_pings_are_comments() -> None:
    assert written(Ping()) == b": keep-alive\n\n"


@given(event_streams(ANY))
def test_every_stream_obeys_the_grammar_and_keeps_the_words(events: list[Event]) -> None:
    result = chat.check(written(*events), include_usage=True, stops=True)
    expected = canonical.check(events)
    # Chat has one text: blocks that overlap are in it as their texts arrive.
    texts = {event.index for event in events if isinstance(event, BlockStart) and event.kind == "text"}
    arrived = "".join(event.text for event in events if isinstance(event, Delta) and event.index in texts)
    assert result.text.replace("\n", "") == arrived.replace("\n", "")
    assert [call.name for call in result.calls] == [call.name for call in expected.calls]

"""The Messages stream writer, event by event: what the official SDK and Claude Code need of a stream."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest
from hypothesis import given

from dragoman import Knobs
from dragoman.canonical.events import (
    Annotation,
    BlockEnd,
    BlockKind,
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
from dragoman.dialects.messages.stream.writer import MessagesWriter as Writer
from dragoman.dialects.messages.stream.writer import _empty_block, _text_prefix
from dragoman.errors import Failure, FailureKind
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.wire.sse import Frame, encode_frames
from oracles.grammar import Accumulated, messages
from support import canonical
from support.frames import frames_of
from support.messages_frames import written_call, written_full_usage
from support.strategies import ANY, event_streams

Json = dict[str, Any]
START = Start("chatcmpl-x", "upstream-model")
END = Finish(Stop(StopReason.END, "stop"), Usage(12, 4, None, 7, None))
FAILURE = Failure(FailureKind.OVERLOADED, "busy", 503)


def context(**settings: Any) -> ReplyContext:
    return ReplyContext("client-model", 1, "req_1", **{"input_estimate": 20, **settings})


def frames(*events: Event, into: ReplyContext | None = None) -> list[Frame]:
    return frames_of(Writer(into or context()).feed(list(events)))


def payloads(*events: Event, into: ReplyContext | None = None) -> list[Json]:
    return [json.loads(frame.data or b"{}") for frame in frames(*events, into=into)]


def noted(*events: Event, into: ReplyContext | None = None) -> Accumulated:
    into = into or context()
    return messages.check(encode_frames(frames(*events, into=into)), overlapping=into.knobs.block_order == "interleave")


def test_the_first_event_in_full() -> None:
    assert encode_frames(frames(START)) == (
        b"event: message_start\n"
        b'data: {"type":"message_start","message":{"id":"msg_x","type":"message","role":"assistant",'
        b'"model":"client-model","content":[],"stop_reason":null,"stop_sequence":null,'
        b'"stop_details":null,"container":null,"usage":{"input_tokens":20,"cache_creation_input_tokens":0,'
        b'"cache_read_input_tokens":0,"output_tokens":0,"output_tokens_details":null,"server_tool_use":null,'
        b'"cache_creation":null,"inference_geo":null,"service_tier":null}}}\n\n'
    )


def test_every_event_line_names_its_type() -> None:
    whole = (START, Ping(), BlockStart(0, "text"), Delta(0, "a"), BlockEnd(0), END, End())
    assert all(frame.event == json.loads(frame.data or b"")["type"] for frame in frames(*whole))
    assert [frame.event for frame in frames(*whole)] == [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


def test_T30_the_estimate_fills_the_meter_until_the_upstream_reports() -> None:
    (start,) = payloads(START)
    assert start["message"]["usage"]["input_tokens"] == 20
    known = Start("x", "m", Usage(12, 4, None, 1, None))
    assert payloads(known)[0]["message"]["usage"] == written_full_usage(
        input_tokens=8, cache_read_input_tokens=4, output_tokens=1
    )
    assert noted(START, END, End()).usage == written_full_usage(
        input_tokens=8, cache_read_input_tokens=4, output_tokens=7
    )


def test_T30_without_any_counts_the_estimates_stay_and_are_a_loss() -> None:
    into = context()
    text = (BlockStart(0, "text"), Delta(0, "nine char"), BlockEnd(0))
    usage = noted(START, *text, Finish(Stop(StopReason.END)), End(), into=into).usage
    assert usage == written_full_usage(input_tokens=20, output_tokens=3)
    assert into.losses.counts == {LossCode.USAGE_ESTIMATED: 1}


def test_T31_cached_tokens_are_never_counted_twice_nor_below_zero() -> None:
    usage = Usage(5, 4, 3, 7, 2)
    assert noted(START, Finish(Stop(StopReason.END), usage), End()).usage == written_full_usage(
        cache_creation_input_tokens=3,
        cache_read_input_tokens=4,
        output_tokens=7,
        output_tokens_details={"thinking_tokens": 2},
    )


def test_T01_T12_blocks_start_empty_in_start_order_and_deltas_keep_theirs() -> None:
    events: list[Event] = [START, BlockStart(0, "reasoning"), Delta(0, "hm"), BlockEnd(0)]
    events += [BlockStart(1, "tool", "call_a", "f"), BlockStart(2, "tool", "call_b", "g")]
    events += [Delta(2, "{}"), Delta(1, "{}"), BlockEnd(2), BlockEnd(1), Finish(Stop(StopReason.TOOL_CALLS)), End()]
    assert [payload for payload in payloads(*events) if payload["type"] == "content_block_start"] == [
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "thinking", "thinking": "", "signature": ""},
        },
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": written_call("call_a", "f", {}),
        },
        {
            "type": "content_block_start",
            "index": 2,
            "content_block": written_call("call_b", "g", {}),
        },
    ]
    assert noted(*events).order == ["reasoning", "tool", "tool"]


def test_a_signature_is_written_where_it_came_from_here_only() -> None:
    into = context()
    block = (BlockStart(0, "reasoning"), Delta(0, "hm"))
    own = noted(START, *block, Opaque(0, "messages", "signature", "SIG"), BlockEnd(0), END, End())
    assert own.signatures == ["SIG"]
    foreign = Opaque(0, "responses", "encrypted_content", "ENC")
    assert noted(START, *block, foreign, BlockEnd(0), END, End(), into=into).signatures == []
    assert into.losses.counts == {LossCode.REASONING_ENCRYPTED: 1}


def test_opaque_blocks_of_this_dialect_are_restored_and_foreign_ones_take_no_index() -> None:
    into = context()
    own = {"type": "redacted_thinking", "data": "RED"}
    foreign = BlockStart(0, "opaque", name="web_search_call", code="hosted_history")
    events: list[Event] = [START, foreign, Opaque(0, "responses", "block", {"x": 1}), BlockEnd(0)]
    events += [BlockStart(1, "opaque"), Opaque(1, "messages", "block", own), BlockEnd(1)]
    events += [BlockStart(2, "text"), Delta(2, "a"), BlockEnd(2), END, End()]
    assert noted(*events, into=into).blocks == [("redacted", "RED"), ("text", "a")]
    assert into.losses.counts == {LossCode.HOSTED_HISTORY: 1}


def test_citations_of_this_dialect_only() -> None:
    into = context()
    own = {"type": "page_location", "cited_text": "a"}
    notes = [Annotation(0, Citation("messages", own)), Annotation(0, Citation("chat", {"x": 1}, "https://a.example"))]
    result = noted(START, BlockStart(0, "text"), Delta(0, "a"), *notes, BlockEnd(0), END, End(), into=into)
    assert result.annotations == [own]
    assert into.losses.counts == {LossCode.CITATIONS: 1}


@pytest.mark.parametrize(("info", "explanation"), [(None, "I can't."), (RefusalInfo("Policy.", "cyber"), "Policy.")])
def test_a_refusal_is_text_and_a_reason_with_details(info: RefusalInfo | None, explanation: str) -> None:
    block = (BlockStart(0, "refusal"), Delta(0, "I can"), Delta(0, "'t."), BlockEnd(0))
    result = noted(START, *block, Finish(Stop(StopReason.REFUSAL), Usage(1, None, None, 1), info), End())
    assert result.blocks == [("text", "I can't.")]
    assert result.finish == "refusal"
    assert result.stop_details == {
        "type": "refusal",
        "category": info.category if info else None,
        "explanation": explanation,
    }


def test_endless_refusal_wording_is_not_kept_without_bound() -> None:
    piece = "no " * 10_000
    stated: list[Event] = [Delta(0, piece) for _ in range(20)]
    end = Finish(Stop(StopReason.REFUSAL, "stop"), Usage(1, None, None, 1, None))
    written = payloads(Start("x", "m"), BlockStart(0, "refusal"), *stated, BlockEnd(0), end, End())
    explanation = written[-2]["delta"]["stop_details"]["explanation"]
    assert explanation == piece * (len(explanation) // len(piece))
    assert len(explanation) < 100_000
    assert "".join(p["delta"]["text"] for p in written if p["type"] == "content_block_delta") == piece * 20


def test_a_filter_has_details_without_words() -> None:
    result = noted(START, Finish(Stop(StopReason.FILTERED, "content_filter")), End())
    assert result.stop_details == {"type": "refusal", "category": None, "explanation": None}


def test_a_stop_sequence_is_named() -> None:
    result = noted(START, Finish(Stop(StopReason.STOP_SEQUENCE, None, "END")), End())
    assert (result.finish, result.sequence) == ("stop_sequence", "END")


def test_T20_a_reply_without_any_block_is_whole() -> None:
    assert [frame.event for frame in frames(START, END, End())] == ["message_start", "message_delta", "message_stop"]


def test_T22_T23_an_error_is_the_last_event_and_nothing_is_closed() -> None:
    into = context()
    writer = Writer(into)
    out = frames_of(writer.feed([START, BlockStart(0, "tool", "a", "f"), Delta(0, '{"x'), Error(FAILURE), End()]))
    assert [frame.event for frame in out][-2:] == ["content_block_delta", "error"]
    assert json.loads(out[-1].data or b"") == {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "busy"},
        "request_id": "req_1",
    }
    assert writer.done
    assert into.failure is FAILURE


@pytest.mark.parametrize("event", [Delta(3, "x"), BlockStart(1, "tool", "a", "apply_patch", custom=True)])
def test_T02_T50_what_cannot_be_written_is_an_error_in_band(event: Event) -> None:
    into = context()
    result = noted(START, BlockStart(0, "text"), Delta(0, "kept"), event, End(), into=into)
    assert (result.text, result.error is not None) == ("kept", True)
    assert into.failure is not None


def test_a_delta_after_the_end_of_its_block_is_an_error() -> None:
    assert noted(START, BlockStart(0, "text"), BlockEnd(0), Delta(0, "x"), End()).error is not None


def test_the_operator_may_show_the_upstreams_model() -> None:
    assert payloads(START, into=context(knobs=Knobs(echo_model="upstream")))[0]["message"]["model"] == "upstream-model"


def test_late_counts_are_booked() -> None:
    into = context()
    frames(START, END, End(Usage(output_total=9)), into=into)
    assert into.usage == Usage(12, 4, None, 9, None)


def test_T40_a_block_opens_with_its_first_content_and_takes_its_place_then() -> None:
    begun = (
        START,
        BlockStart(0, "text"),
        BlockStart(1, "reasoning"),
        BlockStart(2, "tool", "call_a", "f"),
    )
    assert [payload["type"] for payload in payloads(*begun)] == ["message_start", "content_block_start"]
    stated = (Delta(2, "{}"), Delta(0, ""), Delta(1, "hm"), BlockEnd(2), Delta(0, "a"), BlockEnd(1), BlockEnd(0))
    result = noted(*begun, *stated, Finish(Stop(StopReason.TOOL_CALLS)), End())
    assert result.blocks == [("tool", "{}"), ("reasoning", "hm"), ("text", "a")]


@pytest.mark.parametrize("kind", ["text", "refusal", "reasoning"])
def test_T40_a_block_without_content_is_none(kind: BlockKind) -> None:
    silent = (BlockStart(0, kind), Delta(0, ""), BlockEnd(0))
    assert frames(START, *silent, END, End()) == frames(START, END, End())


def test_sources_that_come_before_their_text_wait_for_it() -> None:
    native = {"type": "char_location", "cited_text": "a", "document_index": 0}
    source = Annotation(0, Citation("messages", native))
    assert [frame.event for frame in frames(START, BlockStart(0, "text"), source)] == ["message_start"]
    deltas = payloads(START, BlockStart(0, "text"), source, Delta(0, "a"), BlockEnd(0))[2:4]
    assert [payload["delta"] for payload in deltas] == [
        {"type": "citations_delta", "citation": native},
        {"type": "text_delta", "text": "a"},
    ]


@pytest.mark.parametrize("order", ["interleave", "sequential"])
@given(events=event_streams(ANY))
def test_every_stream_obeys_the_grammar_and_keeps_the_words(
    order: Literal["interleave", "sequential"], events: list[Event]
) -> None:
    result = noted(*events, into=context(knobs=Knobs(block_order=order)))
    expected = canonical.check(events)
    if expected.error is None:
        meant = canonical.in_sequence(events) if order == "sequential" else events
        blocks = canonical.check(canonical.assistant_turn(meant)).blocks
        prose = [(("text" if kind == "refusal" else kind), stated) for kind, stated in blocks if kind != "opaque"]
        assert [block for block in result.blocks if block[0] != "opaque"] == prose


@given(event_streams(ANY))
def test_one_block_at_a_time_keeps_the_calls_and_every_word(events: list[Event]) -> None:
    result, expected = noted(*events), canonical.check(events)
    if expected.error is None:
        assert result.calls == expected.calls
        assert sorted(result.text) == sorted(expected.text + expected.refusal)
        assert sorted(result.reasoning) == sorted(expected.reasoning)
        assert sorted(result.signatures) == sorted(expected.signatures)


def test_the_frames_that_are_kept_between_streams_are_bounded() -> None:
    for number in range(300):
        assert _empty_block("text", number).count(b'"index":%d,' % number) == 1
        assert _text_prefix("text", number).count(b'"index":%d,' % number) == 1
    assert _empty_block.cache_info().currsize == _text_prefix.cache_info().currsize == 256

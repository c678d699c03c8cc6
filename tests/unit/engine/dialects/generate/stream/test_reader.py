from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.canonical.events import BlockStart, End, Error, Event, Finish, Ping, Start, StopReason, TextRun, Usage
from dragoman.dialects.generate.stream.reader import GenerateReader
from dragoman.errors import FailureKind
from dragoman.limits import Limits
from dragoman.losses import LossCode
from dragoman.wire.sse_parser import Parser
from support import canonical
from support.generate import chunk, new_context, read, sse

Json = dict[str, Any]
OVERLOADED = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
HEL, LO = chunk([{"text": "Hel"}], usage=(12, 1)), chunk([{"text": "lo"}], "STOP", usage=(12, 2, 5, 4))


def finish_of(events: list[Event]) -> Finish:
    canonical.check(events)
    return next(event for event in events if isinstance(event, Finish))


def failure_of(data: bytes) -> Any:
    events = read(data)
    canonical.check(events)
    assert isinstance(events[-1], Error)
    return events[-1].failure


def test_a_text() -> None:
    events = read(sse([HEL, LO]))
    start = events[0]
    assert isinstance(start, Start)
    assert (start.id, start.model, start.usage) == ("x", "m", Usage(12, 0, None, 1, 0))
    assert finish_of(events).usage == Usage(12, 4, None, 7, 5)
    assert isinstance(events[-1], End)


def test_counts_are_running_totals() -> None:
    late = {"usageMetadata": {"promptTokenCount": 13, "candidatesTokenCount": 9}, "responseId": "x"}
    traffic = {"usageMetadata": {"trafficType": "ON_DEMAND"}}
    assert finish_of(read(sse([HEL, traffic, LO, late, traffic]))).usage == Usage(13, 0, None, 9, 0)


def test_the_end_is_the_end_of_the_body() -> None:
    context = new_context()
    parser, reader = Parser(context.limits, whole=True, bare=True), GenerateReader(context)
    events = reader.feed(parser.feed(sse([HEL, LO])))
    assert not reader.done
    assert not any(isinstance(event, Finish) for event in events)
    assert isinstance(reader.finish()[-1], End)
    assert "finish=True" in repr(reader)


@pytest.mark.parametrize(
    "data", [sse([HEL]), b"", b": hello\n\n", b"<html><title>Bad gateway</title></html>", sse([{}])]
)
def test_a_cut_stream(data: bytes) -> None:
    assert failure_of(data).reason == "truncated"


@pytest.mark.parametrize(
    ("feedback", "text"),
    [
        ({"blockReason": "SAFETY"}, "The upstream blocked the prompt (SAFETY)."),
        ({"blockReason": "MODEL_ARMOR", "blockReasonMessage": "Not here."}, "Not here."),
    ],
)
def test_a_blocked_prompt(feedback: Json, text: str) -> None:
    blocked = {"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 4}, "responseId": "x"}
    finish = finish_of(read(sse([blocked])))
    assert (finish.stop.reason, finish.stop.native) == (StopReason.FILTERED, feedback["blockReason"])
    assert finish.refusal is not None
    assert finish.refusal.explanation == text


def test_feedback_that_blocks_nothing() -> None:
    events = read(sse([{"promptFeedback": {"safetyRatings": []}}, HEL, LO]))
    assert finish_of(events).stop.reason is StopReason.END


def test_a_filter_after_a_text() -> None:
    events = read(sse([HEL, chunk(None, "PROHIBITED_CONTENT")]))
    assert finish_of(events).refusal is not None
    assert not any(getattr(event, "kind", "") == "refusal" for event in events)


@pytest.mark.parametrize(
    "first", [[], [HEL], [chunk([{"functionCall": {"id": "a", "name": "look"}}])]], ids=["alone", "text", "call"]
)
def test_a_malformed_call_is_an_error(first: list[Json]) -> None:
    broken = chunk([{"functionCall": {"id": "b", "name": "x"}}], "MALFORMED_FUNCTION_CALL", finishMessage="print(…")
    data = sse([*first, broken])
    failure = failure_of(data)
    assert failure.status == 502
    assert isinstance(read(data)[0], Error) is (first == [])  # then it becomes an HTTP error
    assert "print(…" in failure.message


CALL = chunk([{"text": "Hi"}, {"functionCall": {"id": "a", "name": "look"}}])


@pytest.mark.parametrize(
    "last", [[], [chunk(None, "SAFETY")], [chunk(None, "MALFORMED_FUNCTION_CALL")], [OVERLOADED]], ids=str
)
def test_a_call_of_an_unusable_reply_is_not_run(last: list[Json]) -> None:
    context = new_context()
    events = read(sse([CALL, *last]), context)
    assert not any(getattr(event, "kind", "") == "tool" for event in events)
    filtered = last == [chunk(None, "SAFETY")]
    assert isinstance(events[-1], Error) is not filtered
    assert context.losses.counts == ({LossCode.CALL_CUT: 1} if filtered else {})


def test_a_call_waits_for_the_reason_and_no_text_does() -> None:
    context = new_context()
    parser, reader = Parser(context.limits, whole=True, bare=True), GenerateReader(context)
    frames = [CALL, chunk([{"functionCall": {"id": "b", "name": "look"}}]), chunk(None, "STOP")]
    made = [reader.feed(parser.feed(sse([each]))) for each in frames]
    kinds = [[event.kind for event in events if isinstance(event, BlockStart)] for events in made]
    assert kinds == [["text"], [], ["tool", "tool"]]


def test_calls_that_are_held_are_limited() -> None:
    context = new_context(limits=Limits(tool_arguments=1000))
    call = chunk([{"functionCall": {"id": "a", "name": "look", "args": {"x": "y" * 400}}}])
    events = read(sse([call] * 3), context)
    assert isinstance(events[-1], Error)
    assert "tool_arguments" in events[-1].failure.message


@pytest.mark.parametrize("first", [[], [HEL], [HEL, LO]], ids=["first", "text", "end"])
@pytest.mark.parametrize("form", ["data", "bare", "pretty", "array"])
def test_an_error_in_the_stream(first: list[Json], form: str) -> None:
    error = {
        "data": sse([OVERLOADED]),
        "bare": json.dumps(OVERLOADED).encode(),
        "pretty": json.dumps(OVERLOADED, indent=2).encode() + b"\n",
        "array": json.dumps([OVERLOADED]).encode(),
    }[form]
    failure = failure_of(sse(first) + error)
    assert (failure.kind, failure.message) == (FailureKind.OVERLOADED, "The model is overloaded.")


@pytest.mark.parametrize("separator", [b",\r\n", b",", b"\n,\n"])
def test_a_stream_without_alt_sse(separator: bytes) -> None:
    data = b"[" + separator.join(json.dumps(each).encode() for each in (HEL, LO)) + b"\n]"
    assert read(data) == read(sse([HEL, LO]))


def test_an_array_with_an_error_or_without_an_end() -> None:
    assert failure_of(json.dumps([HEL, OVERLOADED]).encode()).kind is FailureKind.OVERLOADED
    assert failure_of(json.dumps([HEL]).encode()).reason == "protocol"
    assert failure_of(json.dumps([HEL, LO]).encode()[:-1]).status == 502
    assert failure_of(b"[5]").headers == {"x-should-retry": "false"}


def test_an_array_in_one_frame() -> None:
    assert read(b"data: " + json.dumps([HEL, LO]).encode() + b"\n\n") == read(sse([HEL, LO]))


@pytest.mark.parametrize("whole", [False, True])
def test_a_complete_reply_instead_of_a_stream(whole: bool) -> None:
    reply = chunk([{"text": "Hel"}, {"text": "lo"}], "STOP", usage=(12, 2))
    events = read(json.dumps(reply).encode() if whole else sse([reply]))
    assert finish_of(events).usage == Usage(12, 0, None, 2, 0)


def test_frames_of_other_servers() -> None:
    events = read(b"data: {}\n\n" + sse([HEL], b"\n\n") + b": ping\n\n" + sse([LO], b"\n\n") + b"data: [DONE]\n\n")
    assert sum(isinstance(event, Ping) for event in events) == 2
    assert finish_of(events).stop.reason is StopReason.END


@pytest.mark.parametrize(
    "bad",
    [
        {"candidates": 5},
        {"candidates": [HEL["candidates"][0]] * 2},
        {"candidates": [5]},
        {"candidates": [{"index": 1}]},
        {"candidates": [{"finishReason": 5}]},
        {"candidates": [{"content": 5}]},
        {"candidates": [{"content": {"parts": 5}}]},
        {"candidates": [{"content": {"role": "user", "parts": []}}]},
    ],
)
def test_a_malformed_chunk(bad: Json) -> None:
    assert failure_of(sse([HEL, bad])).reason == "protocol"


@pytest.mark.parametrize("data", [b"data: {\n\n", b"data: 5\n\n", b'data: "x"\n\n'])
def test_a_frame_that_is_no_object(data: bytes) -> None:
    assert failure_of(sse([HEL], b"\n\n") + data).reason == "protocol"


@pytest.mark.parametrize(
    "empty", [chunk(None), chunk([]), {"candidates": []}, {"candidates": None}, {"responseId": "x"}]
)
def test_a_chunk_without_content(empty: Json) -> None:
    assert finish_of(read(sse([empty, HEL, empty, LO, empty]))).stop.reason is StopReason.END


def test_of_two_reasons_the_cut_counts() -> None:
    context = new_context()
    events = read(sse([chunk([{"text": "a"}], "MAX_TOKENS"), chunk([], "STOP")]), context)
    assert finish_of(events).stop.reason is StopReason.LENGTH
    assert [loss.code for loss in context.losses] == [LossCode.REPLY_REPAIRED]


def test_further_texts_are_read_by_a_template() -> None:
    context = new_context()
    parser, reader = Parser(context.limits, whole=True, bare=True), GenerateReader(context)
    plain = [chunk([{"text": text}]) for text in ("a", "b", "c", "d")]
    events = [event for each in plain for event in reader.feed(parser.feed(sse([each], b"\n\n")))]
    assert any(isinstance(event, TextRun) for event in events)

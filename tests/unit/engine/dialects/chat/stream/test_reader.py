"""The Chat stream reader: what servers send beyond the grammar; each breach as an `Error` after what came before."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import Limits, Profile
from dragoman.canonical.events import (
    Annotation,
    BlockEnd,
    BlockStart,
    Delta,
    End,
    Error,
    Finish,
    Ping,
    Stop,
    StopReason,
    Usage,
)
from dragoman.dialects.chat.stream.reader import ChatReader as Reader
from dragoman.errors import FailureKind, LimitExceeded
from dragoman.losses import LossCode
from dragoman.wire.sse import Frame, OddFrame
from support import canonical
from support.chat_chunks import BEFORE, HEL, ROLE, Json, call, chunk, context, failed, piece, read, tool
from support.strategies import texts

USAGE = {"prompt_tokens": 12, "completion_tokens": 7, "total_tokens": 19, "prompt_tokens_details": {"cached_tokens": 4}}
COUNTS = Usage(12, 4, None, 7, None)


STOP = piece({}, "stop")
COUNTED = chunk(usage=USAGE)


def test_text_with_usage_after_the_finish() -> None:
    assert read(ROLE, HEL, STOP, COUNTED, "[DONE]") == [
        *BEFORE,
        BlockEnd(0),
        Finish(Stop(StopReason.END, "stop"), COUNTS),
        End(),
    ]


def test_the_finish_is_held_until_the_usage_or_the_end() -> None:
    assert read(ROLE, HEL, STOP, eof=False) == [*BEFORE, BlockEnd(0)]
    assert read(ROLE, HEL, STOP, "[DONE]", eof=False)[-2:] == [Finish(Stop(StopReason.END, "stop")), End()]
    assert read(ROLE, HEL, STOP)[-2:] == [Finish(Stop(StopReason.END, "stop")), End()]


def test_nothing_is_read_after_the_end() -> None:
    reader = Reader(context())
    reader.feed([Frame("", json.dumps(x).encode()) for x in (ROLE, HEL, STOP, COUNTED)])
    assert reader.done
    assert reader.feed([Frame("", json.dumps(HEL).encode())]) == []
    assert reader.finish() == []


def test_T27_T23_an_end_before_the_finish_is_a_cut() -> None:
    assert "before its terminal event" in failed(read(ROLE, HEL), *BEFORE)
    events = read(ROLE, HEL, "[DONE]", STOP, "[DONE]")
    assert "[DONE] before a finish_reason" in failed(events, *BEFORE)
    assert isinstance(events[-1], Error)
    assert events[-1].failure.code == "stream_truncated"


def test_half_a_frame_at_the_end_is_a_cut_and_not_bad_json() -> None:
    reader = Reader(context())
    events = reader.feed([Frame("", json.dumps(ROLE).encode()), Frame("", json.dumps(HEL).encode())])
    events += reader.feed([OddFrame("", b'{"id": "chatcm', whole=False)])
    assert "before its terminal event" in failed(events + reader.finish(), *BEFORE)


def test_half_a_usage_chunk_after_the_finish_costs_only_the_usage() -> None:
    reader = Reader(context())
    reader.feed([Frame("", json.dumps(x).encode()) for x in (ROLE, HEL, STOP)])
    assert reader.feed([OddFrame("", b'{"choices":[],"usa', whole=False)]) == []
    assert reader.finish() == [Finish(Stop(StopReason.END, "stop")), End()]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (chunk({"index": 1, "delta": {"content": "x"}}), "second choice"),
        (chunk({"index": 0, "delta": {}}, {"index": 1, "delta": {}}), "2 choices"),
        (piece({"role": "user"}), "sent the role 'user'"),
        (piece({"role": "tool", "content": "x"}), "sent the role 'tool'"),
        (piece({"function_call": "f"}), "function_call that is not an object"),
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
        (piece({"content": 5}), "not a string"),
        (piece({"reasoning_content": "x", "refusal": 5}), "not a string"),
        (chunk({"index": 0, "delta": "x"}), "not an object"),
        (chunk({"index": 0, "delta": {}, "finish_reason": 5}), "not a string"),
        (piece({"tool_calls": {"index": 0}}), "not an array"),
        (piece({"tool_calls": ["x"]}), "not an object"),
        (tool(index="x", id="a", function={"name": "f"}), "not an integer"),
        (tool(index=0, id="a", function={"name": 5}), "name that is not a string"),
    ],
)
def test_a_breach_of_the_grammar_ends_the_stream_and_keeps_what_came_before(frame: Json | str, message: str) -> None:
    events = read(ROLE, HEL, frame, STOP, COUNTED, "[DONE]")
    assert message in events[-1].failure.message if isinstance(events[-1], Error) else pytest.fail(str(events))
    assert events[:3] == BEFORE
    assert not any(isinstance(event, Finish | End | BlockEnd) and event != BlockEnd(0) for event in events)
    canonical.check(events)


@pytest.mark.parametrize("chunks", [(COUNTED, ROLE, HEL, STOP, "[DONE]"), (ROLE, COUNTED, HEL, STOP, "[DONE]")])
def test_counts_before_the_finish_reason_are_those_of_the_reply(chunks: tuple[Json | str, ...]) -> None:
    assert read(*chunks)[-2:] == [Finish(Stop(StopReason.END, "stop"), COUNTS), End()]


def test_counts_and_done_end_a_reply_without_a_finish_reason() -> None:
    ledger = context()
    assert read(ROLE, HEL, COUNTED, "[DONE]", into=ledger)[-2:] == [
        Finish(Stop(StopReason.END, None), COUNTS),
        End(),
    ]
    assert ledger.losses.counts[LossCode.STOP_UNKNOWN] == 1
    whole = call(0, "a", "f", '{"a":1}')
    assert read(ROLE, whole, COUNTED, "[DONE]")[-2:] == [Finish(Stop(StopReason.TOOL_CALLS, None), COUNTS), End()]


@pytest.mark.parametrize(
    "chunks",
    [
        (ROLE, HEL, "[DONE]"),
        (ROLE, HEL, COUNTED),
        (ROLE, COUNTED, HEL, "[DONE]"),
        (ROLE, call(0, "a", "f", '{"a":'), COUNTED, "[DONE]"),
        (ROLE, call(0, "a", "f", ""), COUNTED, "[DONE]"),
    ],
)
def test_one_proof_of_an_end_is_not_enough_and_neither_is_half_a_call(chunks: tuple[Json | str, ...]) -> None:
    last = read(*chunks)[-1]
    assert isinstance(last, Error)
    assert last.failure.code == "stream_truncated"


def test_audio_beside_a_text_is_left_out_and_alone_an_error() -> None:
    ledger = context()
    audio = piece({"audio": {"id": "a", "data": "x"}})
    assert isinstance(read(ROLE, HEL, audio, audio, STOP, "[DONE]", into=ledger)[-1], End)
    assert ledger.losses.counts[LossCode.UNKNOWN_EVENT] == 1
    assert "audio only" in failed(read(piece({"audio": {"id": "a"}}), STOP, "[DONE]"), BEFORE[0])


@pytest.mark.parametrize(
    ("native", "complete"), [("length", False), ("content_filter", False), ("tool_calls", True), ("stop", True)]
)
def test_a_cap_or_a_filter_leaves_open_blocks_incomplete(native: str, complete: bool) -> None:
    events = read(ROLE, call(0, "a", "f", '{"a":1}' if complete else '{"pa'), piece({}, native))
    assert BlockEnd(0, complete) in events


def test_finish_reasons_that_disagree_with_the_content() -> None:
    ledger = context()
    assert Finish(Stop(StopReason.TOOL_CALLS, "stop"), COUNTS) in read(ROLE, call(0, "a", "f"), STOP, COUNTED)
    assert Finish(Stop(StopReason.END, "tool_calls")) in read(ROLE, HEL, piece({}, "tool_calls"), into=ledger)
    assert Finish(Stop(StopReason.END, "novel")) in read(ROLE, HEL, piece({}, "novel"), into=ledger)
    assert ledger.losses.counts == {LossCode.REPLY_REPAIRED: 1, LossCode.FINISH_FIXED: 1, LossCode.STOP_UNKNOWN: 1}


@pytest.mark.parametrize("profile", [Profile(), Profile(usage_fallback="last_seen")])
def test_usage_on_chunks_with_choices_counts_only_by_profile(profile: Profile) -> None:
    late = {**piece({}, "stop"), "usage": USAGE}
    events = read(ROLE, HEL, late, "[DONE]", into=context(profile=profile))
    expected = COUNTS if profile.usage_fallback == "last_seen" else None
    assert events[-2] == Finish(Stop(StopReason.END, "stop"), expected)


def test_the_usage_chunk_beats_what_was_seen_before_it() -> None:
    early = {**HEL, "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}
    into = context(profile=Profile(usage_fallback="last_seen"))
    assert read(ROLE, early, STOP, COUNTED, into=into)[-2] == Finish(Stop(StopReason.END, "stop"), COUNTS)


def test_T24_chunks_that_are_no_choice_are_passed_over() -> None:
    filters = chunk(prompt_filter_results=[{"prompt_index": 0}])
    ledger = context()
    events = read(filters, ROLE, HEL, {"object": "novelty"}, chunk(), STOP, COUNTED, into=ledger)
    assert events[:3] == BEFORE
    assert events[-1] == End()
    assert ledger.losses.counts == {LossCode.UNKNOWN_EVENT: 1, LossCode.UNKNOWN_FIELD: 1}


def test_T28_an_empty_finish_reason_is_none() -> None:
    assert read(piece({"role": "assistant"}, ""), piece({"content": "Hel"}, ""), eof=False) == BEFORE


def test_T72_comments_are_signs_of_life() -> None:
    assert Reader(context()).feed([Frame("", None)]) == [Ping()]


def test_T14_reasoning_in_two_spellings_is_read_once() -> None:
    both = piece({"reasoning": "hm", "reasoning_content": "hm", "reasoning_details": [{"text": "hm"}]})
    assert read(ROLE, both, eof=False)[1:] == [BlockStart(0, "reasoning"), Delta(0, "hm")]


def test_annotations_belong_to_the_open_text() -> None:
    note = {"type": "url_citation", "url_citation": {"url": "https://a.example", "title": "A", "start_index": 0}}
    ledger = context()
    events = read(piece({"annotations": [note]}), HEL, piece({"annotations": [note]}), eof=False, into=ledger)
    assert isinstance(events[-1], Annotation)
    assert (events[-1].index, events[-1].citation.url) == (0, "https://a.example")
    assert ledger.losses.counts == {LossCode.CITATIONS: 1}


@pytest.mark.parametrize("annotations", [{"type": "url_citation"}, "see", ["see"]])
def test_annotations_that_are_invalid_are_recorded(annotations: Any) -> None:
    ledger = context()
    read(HEL, piece({"annotations": annotations}), eof=False, into=ledger)
    assert ledger.losses.counts == {LossCode.CITATIONS: 1}


def test_T22_an_error_frame_in_any_shape_ends_the_stream() -> None:
    frames: list[Json] = [
        {"error": {"message": "no", "type": "server_error", "code": "server_is_overloaded"}},
        {"object": "error", "message": "no", "code": 503},
        {"error_type": "overloaded_error", "error_message": "no"},
        {**HEL, "error": {"message": "no", "code": 503}},
    ]
    for frame in frames:
        events = read(ROLE, HEL, frame, STOP, COUNTED)
        assert events[:-1] == BEFORE
        assert isinstance(events[-1], Error)
        assert events[-1].failure.message == "no"


def test_limits_end_the_stream() -> None:
    into = context(limits=Limits(tool_arguments=4))
    events = read(ROLE, call(0, "a", "f", "1234"), tool(index=0, function={"arguments": "5"}), into=into)
    assert "tool_arguments = 4" in failed(events, *events[:3])
    # The calls of a reply share the limit: they are all kept until it ends.
    events = read(
        ROLE, call(0, "a", "f", "123"), call(1, "b", "f", "45"), into=context(limits=Limits(tool_arguments=4))
    )
    assert "tool_arguments = 4" in failed(events, *events[:-1])
    into = context(limits=Limits(blocks=1))
    assert "blocks = 1" in failed(read(ROLE, HEL, piece({"reasoning": "x"}), into=into), *BEFORE, BlockEnd(0))


def test_a_fault_of_the_parser_ends_the_stream() -> None:
    fault = LimitExceeded("sse_line", 1, upstream=True)
    events = Reader(context()).feed([Frame("", json.dumps(HEL).encode()), OddFrame("", None, fault=fault)])
    assert isinstance(events[-1], Error)
    assert (len(events), events[-1].failure.kind) == (4, FailureKind.API)


_odd = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=3,
)
_FRAMES = (
    ROLE,
    piece({"content": "a", "reasoning_content": "b", "refusal": "c", "annotations": [{"type": "url_citation"}]}),
    call(0, "a", "f", "{}"),
    tool(index=1, id="b", type="custom", custom={"name": "g", "input": "x"}),
    piece({"reasoning_details": [{"type": "x", "text": "y"}]}, "tool_calls"),
    COUNTED,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    steps: list[Any] = list(value) if isinstance(value, dict) else []
    if isinstance(value, list):
        steps = list(range(len(value)))
    return [path] + [deeper for step in steps for deeper in places(value[step], (*path, step))]


@given(st.integers(0, len(_FRAMES) - 1), st.integers(0, 200), _odd)
def test_no_value_in_any_place_raises(number: int, place: int, value: Any) -> None:
    frames: list[Any] = json.loads(json.dumps(_FRAMES))
    paths = places(frames[number])
    *steps, last = (number, *paths[place % len(paths)])
    target: Any = frames
    for step in steps:
        target = target[step]
    target[last] = value
    canonical.check(read(*(frame if isinstance(frame, dict) else json.dumps(frame) for frame in frames)))


@pytest.mark.parametrize("empty", [None, "", [], {}, False, 0])
def test_empty_members_of_a_delta_are_as_absent_ones(empty: Any) -> None:
    keys = ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks", "refusal", "audio")
    members = dict.fromkeys((*keys, "function_call", "tool_calls", "annotations"), empty)
    plain, full = context(), context()
    end = (STOP, "[DONE]")
    assert read(ROLE, piece({**members, "content": "Hel"}), *end, into=full) == read(ROLE, HEL, *end, into=plain)
    assert full.losses.rows == plain.losses.rows == []

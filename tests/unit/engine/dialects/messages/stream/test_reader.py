"""The Messages stream reader: its blocks, its cumulative usage; each breach as an `Error` after what came before."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import Limits
from dragoman.canonical.events import (
    Annotation,
    BlockEnd,
    BlockStart,
    Delta,
    End,
    Error,
    Finish,
    Opaque,
    Ping,
    RefusalInfo,
    Start,
    Stop,
    StopReason,
    Usage,
)
from dragoman.dialects.messages.stream.reader import MessagesReader as Reader
from dragoman.errors import FailureKind
from dragoman.losses import LossCode
from dragoman.wire.sse import Frame, OddFrame
from support import canonical
from support.messages_frames import (
    LAST,
    START,
    Json,
    args,
    closed,
    context,
    delta,
    opened,
    read,
    stopped,
    tool,
)
from support.strategies import texts

INPUT = Usage(12, 4, None, 1, None)
COUNTS = Usage(12, 4, None, 7, None)
ANSWER = [Start("msg_u", "m", INPUT), BlockStart(0, "text"), Delta(0, "Hel")]


def text(index: int, stated: str = "") -> Json:
    return opened(index, type="text", text=stated)


def writes(index: int, words: str) -> Json:
    return delta(index, "text_delta", text=words)


HEL = (START, text(0), writes(0, "Hel"))
END_TURN = stopped("end_turn")


def test_text() -> None:
    assert read(*HEL, writes(0, ""), closed(0), END_TURN, LAST) == [
        *ANSWER,
        BlockEnd(0),
        Finish(Stop(StopReason.END, "end_turn"), COUNTS),
        End(COUNTS),
    ]


@pytest.mark.parametrize(
    ("event", "noted"),
    [
        ({**START, "message": {**START["message"], "id": "msg_other"}}, "message_start twice"),
        (writes(1, "x"), "continued block 1, which is not open"),
        (delta(0, "input_json_delta", partial_json="x"), "input_json_delta in a text block"),
        (delta(0, "signature_delta", signature="x"), "signature_delta in a text block"),
        (writes(0, 5), "text_delta in a text block"),  # type: ignore[arg-type]
        ({"type": "content_block_delta", "index": 0, "delta": "x"}, "malformed content_block_delta"),
        (opened(1, type="tool_use", id="a", name="", input={}), "without a name"),
        ({"type": "content_block_start", "index": 1}, "malformed content_block_start"),
        (text("one"), "malformed content_block_start"),  # type: ignore[arg-type]
        (LAST, "before a stop_reason"),
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
    ],
)
def test_T02_T12_T13_a_breach_ends_the_stream_and_keeps_what_came_before(event: Json | str, noted: str) -> None:
    events = read(*HEL, event, closed(0), END_TURN, LAST)
    assert isinstance(events[-1], Error)
    assert noted in events[-1].failure.message
    assert events[-1].failure.status == 502
    assert events[:-1] == ANSWER


@pytest.mark.parametrize(
    "event",
    [text(0), writes(0, "x"), closed(0), END_TURN, LAST],
    ids=["block", "delta", "stop", "message_delta", "end"],
)
def test_nothing_may_come_before_message_start(event: Json) -> None:
    (error,) = read(event, START)
    assert isinstance(error, Error)
    assert error.failure.code == "upstream_protocol"


def test_a_block_after_the_stop_reason_is_a_breach() -> None:
    events = read(START, END_TURN, text(0), LAST)
    assert isinstance(events[-1], Error)
    assert isinstance(events[-2], Finish)


@pytest.mark.parametrize("count", range(6))
def test_T20_T22_an_end_before_message_stop_is_a_cut(count: int) -> None:
    whole = [*HEL, closed(0), END_TURN, LAST]
    events = read(*whole[:count])
    assert isinstance(events[-1], Error)
    assert events[-1].failure.code == "stream_truncated"
    assert events[:-1] == read(*whole)[: len(events) - 1]


def test_half_a_frame_at_the_end_is_a_cut_and_not_bad_json() -> None:
    reader = Reader(context())
    events = reader.feed([Frame("message_start", json.dumps(START).encode()), OddFrame("", b'{"type', whole=False)])
    events += reader.finish()
    assert isinstance(events[-1], Error)
    assert events[-1].failure.code == "stream_truncated"


def test_an_unterminated_last_frame_that_is_whole_counts() -> None:
    reader = Reader(context())
    reader.feed([Frame("", json.dumps(x).encode()) for x in (*HEL, closed(0), END_TURN)])
    assert reader.feed([OddFrame("", json.dumps(LAST).encode(), whole=False)]) == [End(COUNTS)]


def test_done_is_of_another_dialect_and_means_nothing() -> None:
    assert read("[DONE]", *HEL, "[DONE]", eof=False) == ANSWER


def test_T10_T12_thinking_with_its_signature() -> None:
    block = (opened(0, type="thinking", thinking="", signature=""), delta(0, "thinking_delta", thinking="hm"))
    events = read(START, *block, delta(0, "signature_delta", signature="SIG="), closed(0), eof=False)
    assert events[1:] == [
        BlockStart(0, "reasoning"),
        Delta(0, "hm"),
        Opaque(0, "messages", "signature", "SIG="),
        BlockEnd(0),
    ]
    filled = read(START, opened(0, type="thinking", thinking="hm", signature="SIG="), closed(0), eof=False)
    assert filled == events


def test_redacted_thinking_and_provider_blocks_are_opaque_and_whole() -> None:
    redacted = {"type": "redacted_thinking", "data": "RED"}
    search = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    ledger = context()
    events = read(START, opened(0, **redacted), closed(0), opened(1, **search), args(1, "{}"), eof=False, into=ledger)
    assert events[1:] == [
        BlockStart(0, "opaque", name="redacted_thinking", code=LossCode.REASONING_ENCRYPTED),
        Opaque(0, "messages", "block", redacted),
        BlockEnd(0),
        BlockStart(1, "opaque", name="server_tool_use", code=LossCode.HOSTED_HISTORY),
        Opaque(1, "messages", "block", search),
        Opaque(1, "messages", "delta", {"type": "input_json_delta", "partial_json": "{}"}),
    ]
    assert len(ledger.losses) == 0, "leaving them out is the writer's loss"


def test_T24_unknown_events_blocks_and_deltas_are_counted_and_never_end_the_stream() -> None:
    ledger = context()
    odd = (opened(0, type="novelty"), delta(0, "novel_delta", x=1), writes(0, "x"), closed(0))
    events = read(
        START, {"type": "novel"}, *odd, text(1), delta(1, "novel_delta", x=1), writes(1, "a"), closed(1), END_TURN,
        LAST, into=ledger,
    )  # fmt: skip
    assert events[1:4] == [BlockStart(0, "text"), Delta(0, "a"), BlockEnd(0)]
    assert events[-1] == End(COUNTS)
    assert ledger.losses.counts == {LossCode.UNKNOWN_EVENT: 3}


def test_the_index_of_an_unknown_block_may_be_used_again_after_its_end() -> None:
    events = read(START, opened(0, type="novelty"), closed(0), text(0), writes(0, "a"), eof=False)
    assert events[1:] == [BlockStart(0, "text"), Delta(0, "a")]


def test_citations() -> None:
    cited = {"type": "web_search_result_location", "url": "https://a.example", "title": "A"}
    block = opened(0, type="text", text="a", citations=[cited])
    events = read(START, block, delta(0, "citations_delta", citation=cited), eof=False)
    notes = [event for event in events if isinstance(event, Annotation)]
    assert [(note.index, note.citation.url, note.citation.native) for note in notes] == [(0, cited["url"], cited)] * 2


def test_T30_T31_usage_is_cumulative_and_overwrites() -> None:
    first = {"output_tokens": 3, "input_tokens": None}
    late = {"input_tokens": 5, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 3, "output_tokens": 9}
    last = {**late, "output_tokens_details": {"thinking_tokens": 2}}
    events = read(START, stopped(None, first), stopped("end_turn", late), stopped("end_turn", last), LAST)
    assert events == [
        Start("msg_u", "m", INPUT),
        Finish(Stop(StopReason.END, "end_turn"), Usage(12, 4, 3, 9, None)),
        End(Usage(12, 4, 3, 9, 2)),
    ]


def test_no_usage_at_all_stays_unknown() -> None:
    events = read({"type": "message_start", "message": {"id": "u", "model": "m"}}, stopped("end_turn", {}), LAST)
    assert events == [Start("u", "m"), Finish(Stop(StopReason.END, "end_turn")), End()]


@pytest.mark.parametrize(
    ("native", "reason"),
    [
        ("stop_sequence", StopReason.STOP_SEQUENCE),
        ("max_tokens", StopReason.LENGTH),
        ("model_context_window_exceeded", StopReason.CONTEXT),
        ("pause_turn", StopReason.PAUSED),
        ("compaction", StopReason.POLICY_CUT),
        ("refusal", StopReason.FILTERED),
    ],
)
def test_stop_reasons(native: str, reason: StopReason) -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "No."}
    finish = read(START, stopped(native, stop_sequence="END", stop_details=details), LAST)[1]
    assert finish == Finish(Stop(reason, native, "END"), COUNTS, RefusalInfo("No.", "cyber"))


def test_stop_reasons_that_disagree_with_the_content() -> None:
    ledger = context()
    whole = (tool(0), closed(0))
    assert Finish(Stop(StopReason.TOOL_CALLS, "end_turn"), COUNTS) in read(START, *whole, END_TURN, LAST)
    assert Finish(Stop(StopReason.END, "tool_use"), COUNTS) in read(START, stopped("tool_use"), LAST, into=ledger)
    assert Finish(Stop(StopReason.END, "novel"), COUNTS) in read(*HEL, closed(0), stopped("novel"), LAST, into=ledger)
    assert ledger.losses.counts == {LossCode.FINISH_FIXED: 1, LossCode.STOP_UNKNOWN: 1}


@pytest.mark.parametrize("before", [(START,), (*HEL, closed(0)), (START, tool(0), closed(0))])
def test_message_stop_without_a_stop_reason_is_an_error(before: tuple[Json, ...]) -> None:
    """As for a Chat stream whose `[DONE]` comes before its finish_reason: no reason is made up."""
    events = read(*before, LAST)
    assert isinstance(events[-1], Error)
    failure = events[-1].failure
    assert (failure.status, failure.code) == (502, "stream_truncated")
    assert failure.message == "upstream sent message_stop before a stop_reason"


def test_T22_errors_keep_what_came_before() -> None:
    noted: Json = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}, "request_id": "r"}
    for event in (noted, {"error": noted["error"]}):
        events = read(*HEL, event, closed(0))
        assert events[:-1] == ANSWER
        assert isinstance(events[-1], Error)
        assert (events[-1].failure.kind, events[-1].failure.message) == (FailureKind.OVERLOADED, "Overloaded")


def test_T72_pings_and_comments_anywhere() -> None:
    events = Reader(context()).feed([Frame("", None), Frame("ping", b'{"type":"ping"}')])
    assert events == [Ping(), Ping()]


def test_limits_end_the_stream() -> None:
    events = read(START, tool(0), args(0, "1234"), args(0, "5"), into=context(limits=Limits(tool_arguments=4)))
    assert isinstance(events[-1], Error)
    assert "tool_arguments = 4" in events[-1].failure.message
    assert events[-2] == Delta(0, "1234")
    # The texts of starts are kept until deltas follow.
    events = read(START, text(0, "123"), text(1, "45"), into=context(limits=Limits(tool_arguments=4)))
    assert isinstance(events[-1], Error)
    assert "tool_arguments = 4" in events[-1].failure.message
    events = read(*HEL, text(1), into=context(limits=Limits(blocks=1)))
    assert isinstance(events[-1], Error)
    assert "blocks = 1" in events[-1].failure.message


_odd = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=3,
)
_EVENTS = (
    START,
    opened(0, type="thinking", thinking="a", signature="b"),
    delta(0, "signature_delta", signature="x"),
    closed(0),
    opened(1, type="text", text="a", citations=[{"type": "page_location", "url": "u"}]),
    delta(1, "citations_delta", citation={"type": "page_location"}),
    closed(1),
    opened(2, type="server_tool_use", id="a", name="b", input={}),
    args(2, "{}"),
    closed(2),
    tool(3, given={"a": 1}),
    closed(3),
    stopped("tool_use", stop_details={"type": "refusal", "category": "c", "explanation": "e"}),
    LAST,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    steps: list[Any] = list(value) if isinstance(value, dict) else []
    if isinstance(value, list):
        steps = list(range(len(value)))
    return [path] + [deeper for step in steps for deeper in places(value[step], (*path, step))]


@given(st.integers(0, len(_EVENTS) - 1), st.integers(0, 200), _odd)
def test_no_value_in_any_place_raises(number: int, place: int, value: Any) -> None:
    events: list[Any] = json.loads(json.dumps(_EVENTS))
    paths = places(events[number])
    *steps, last = (number, *paths[place % len(paths)])
    target: Any = events
    for step in steps:
        target = target[step]
    target[last] = value
    canonical.check(read(*(event if isinstance(event, dict) else json.dumps(event) for event in events)))


@pytest.mark.parametrize("name", [{}, [], ["ping"], {"type": "ping"}, 1, None])
def test_an_event_whose_type_is_no_text_is_unknown(name: Any) -> None:
    """Found by fuzzing: with further members it raised TypeError."""
    into = context()
    assert read(START, {"type": name, "novelty": 1}, into=into, eof=False) == [Start("msg_u", "m", INPUT)]
    assert into.losses.counts[LossCode.UNKNOWN_EVENT] == 1

"""Stop sequences cut here: the same cut however the text comes, in streams and in whole replies, and in text alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    Delta,
    End,
    Error,
    Event,
    Finish,
    Start,
    Stop,
    StopReason,
    Usage,
)
from dragoman.canonical.parts import Part, Reasoning, Text, ToolCall
from dragoman.canonical.reply import Reply
from dragoman.errors import Failure, FailureKind
from dragoman.losses import LossCode, Losses
from dragoman.reply_context import ReplyContext
from dragoman.stages.stop_sequences import StopCutter, cut_reply
from support import canonical
from support.strategies import ANY, batches, event_streams, fragments

START = Start("x", "m")
END: list[Event] = [Finish(Stop(StopReason.END, "stop"), Usage(1, None, None, 2)), End()]
_texts = st.text("ENDSTOP x\n", max_size=30)
_stops = st.lists(
    st.sampled_from(("END", "STOP", "E", "ND", "DS", "STO", "\n", "ENDSTOP", "x E")), min_size=1, max_size=3
)


def cut(events: list[Event], *stops: str) -> list[Event]:
    cutter = StopCutter(ReplyContext("m"), stops)
    out: list[Event] = []
    for event in events:
        out += cutter.feed([event])
        if cutter.done:
            return out
    return out + cutter.finish()


def stated(*pieces: str, index: int = 0) -> list[Event]:
    return [BlockStart(index, "text"), *(Delta(index, piece) for piece in pieces), BlockEnd(index)]


def reply(*parts: Part) -> Reply:
    return Reply("x", "m", list(parts), Stop(StopReason.END, "stop"), Usage(1, None, None, 2))


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Delta))


def test_a_match_across_pieces_never_shows_any_part_of_itself() -> None:
    assert cut([START, *stated("One E", "N", "D two"), *END], "END") == [
        START,
        BlockStart(0, "text"),
        Delta(0, "One "),
        BlockEnd(0),
        Finish(Stop(StopReason.STOP_SEQUENCE, None, "END")),
        End(),
    ]


def test_what_was_held_leaves_when_it_was_no_match() -> None:
    assert text_of(cut([START, *stated("One E", "N", "T"), *END], "END")) == "One ENT"
    assert text_of(cut([START, *stated("One EN"), *END], "END")) == "One EN"


def test_text_that_can_be_no_beginning_of_a_match_is_not_held() -> None:
    cutter = StopCutter(ReplyContext("m"), ("END",))
    cutter.feed([START, BlockStart(0, "text")])
    assert cutter.feed([Delta(0, "One")]) == [Delta(0, "One")]
    assert cutter.feed([Delta(0, " twE")]) == [Delta(0, " tw")]
    assert cutter.feed([Delta(0, "E")]) == [Delta(0, "E")]


@pytest.mark.parametrize("pieces", [["ABCD"], ["ABC", "D"], ["A", "B", "C", "D"], ["AB", "CD"]])
def test_the_match_that_is_whole_first_wins_however_the_text_comes(pieces: list[str]) -> None:
    events = cut([START, *stated(*pieces), *END], "ABCD", "C", "BC")
    assert text_of(events) == "A"
    assert Finish(Stop(StopReason.STOP_SEQUENCE, None, "BC")) in events


@pytest.mark.parametrize("kind", ["tool", "reasoning", "refusal"])
def test_nothing_but_text_is_ever_cut(kind: BlockKind) -> None:
    events = [START, BlockStart(0, kind, "a", "f"), Delta(0, '{"a":"EN'), Delta(0, 'D"}'), BlockEnd(0), *END]
    assert cut(events, "END") == events


def test_a_call_that_is_open_at_the_cut_stays_incomplete() -> None:
    events = [START, BlockStart(0, "tool", "a", "f"), Delta(0, "{"), *stated("xEND", index=1)[:-1]]
    assert cut(events, "END")[-4:] == [
        BlockEnd(0, complete=False),
        BlockEnd(1, complete=True),
        Finish(Stop(StopReason.STOP_SEQUENCE, None, "END")),
        End(),
    ]


def test_a_match_never_spans_two_blocks() -> None:
    assert text_of(cut([START, *stated("EN"), *stated("D", index=1), *END], "END")) == "END"


def test_T26_the_cutter_is_done_at_the_match_and_ignores_the_rest() -> None:
    cutter = StopCutter(ReplyContext("m"), ("END",))
    out = cutter.feed([START, *stated("aENDb"), *END])
    assert cutter.done
    assert out[-1] == End()
    assert cutter.feed(stated("c", index=1)) == []
    assert cutter.finish() == []


def test_an_error_passes_and_releases_nothing() -> None:
    error = Error(Failure(FailureKind.API, "cut", 502))
    assert cut([START, BlockStart(0, "text"), Delta(0, "xEN"), error], "END")[-2:] == [Delta(0, "x"), error]


@given(st.data(), _texts, _stops)
def test_any_pieces_give_the_same_cut_as_the_whole_reply(data: st.DataObject, text: str, stops: list[str]) -> None:
    events = cut([START, *stated(*data.draw(fragments(text))), *END], *stops)
    canonical.check(events)
    whole = reply(Text(text))
    cut_reply(whole, stops, Losses())
    (part,) = whole.parts
    assert isinstance(part, Text)
    assert text_of(events) == part.text
    assert [event.stop for event in events if isinstance(event, Finish)] == [whole.stop]
    assert not any(stop in part.text for stop in stops)


@given(event_streams(ANY), _stops, st.data())
def test_any_batches_give_the_same_events_and_a_legal_stream(
    events: list[Event], stops: list[str], data: st.DataObject
) -> None:
    expected = cut(events, *stops)
    cutter = StopCutter(ReplyContext("m"), stops)
    out: list[Event] = []
    for batch in data.draw(batches(events)):
        out += cutter.feed(batch)
        if cutter.done:
            break
    assert out == expected
    canonical.check(out)


def test_a_whole_reply_loses_everything_behind_the_match() -> None:
    losses = Losses()
    call = ToolCall("a", "f", '{"x":"END"}')
    whole = reply(Reasoning("END"), call, Text("aENDb"), Text("c"), ToolCall("b", "g", "{}"))
    cut_reply(whole, ("END",), losses)
    assert whole.parts == [Reasoning("END"), call, Text("a")]
    assert whole.stop == Stop(StopReason.TOOL_CALLS)
    assert losses.counts == {LossCode.USAGE_ESTIMATED: 1, LossCode.FINISH_FIXED: 1}
    untouched = reply(Text("abc"))
    cut_reply(untouched, ("END",), losses)
    assert untouched == reply(Text("abc"))


@pytest.mark.parametrize("whole", [True, False])
def test_behind_a_whole_call_the_reply_ends_as_one_that_calls(whole: bool) -> None:
    """A client that learns of a stop sequence, or a plain stop, does not run the call."""
    reason = StopReason.TOOL_CALLS if whole else StopReason.STOP_SEQUENCE
    context = ReplyContext("m")
    called: list[Event] = [BlockStart(0, "tool", "c", "f"), Delta(0, "{}"), BlockEnd(0, complete=whole)]
    events = StopCutter(context, ("END",)).feed([START, *called, *stated("a END b", index=1), *END])
    assert [event.stop.reason for event in events if isinstance(event, Finish)] == [reason]
    assert ("finish_fixed=1" in context.losses.header()) == whole
    losses = Losses()
    answer = reply(ToolCall("c", "f", "{}"), Text("a END b"))
    if not whole:
        answer.cut = frozenset({0})
    cut_reply(answer, ["END"], losses)
    assert answer.stop.reason is reason
    assert (LossCode.FINISH_FIXED in {row.code for row in losses.rows}) == whole

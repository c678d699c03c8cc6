"""The block map, and the order of blocks for clients that assume one open at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.blocks import BlockMap, Sequencer
from dragoman.errors import Failure, FailureKind, LimitExceeded, UpstreamProtocolError
from dragoman.events import BlockEnd, BlockStart, Delta, End, Error, Event, Finish, Kind, Ping, Start, Stop, StopReason
from dragoman.limits import Limits
from support import canonical
from support.strategies import ANY, batches, event_streams


def test_T01_indexes_count_up_in_start_order_whatever_the_keys() -> None:
    blocks = BlockMap()
    assert blocks.start(7, Kind.TOOL) == 0
    assert blocks.start("text", Kind.TEXT) == 1
    assert blocks.start((3, 1), Kind.TOOL) == 2
    assert blocks.open == {7: (0, Kind.TOOL), "text": (1, Kind.TEXT), (3, 1): (2, Kind.TOOL)}
    assert blocks.end("text") == 1
    assert blocks.end(7) == 0
    assert blocks.open == {(3, 1): (2, Kind.TOOL)}


def test_a_key_may_come_back_after_its_end_as_a_new_block() -> None:
    blocks = BlockMap()
    assert blocks.start("text", Kind.TEXT) == 0
    assert blocks.end("text") == 0
    assert blocks.start("text", Kind.TEXT) == 1


def test_start_twice_is_the_upstreams_fault() -> None:
    blocks = BlockMap()
    blocks.start(0, Kind.TEXT)
    with pytest.raises(UpstreamProtocolError, match="started block 0 twice"):
        blocks.start(0, Kind.TOOL)
    assert blocks.count == 1
    assert blocks.open == {0: (0, Kind.TEXT)}


def test_T02_ending_what_is_not_open_is_the_upstreams_fault() -> None:
    blocks = BlockMap()
    with pytest.raises(UpstreamProtocolError, match="block 0, which is not open") as caught:
        blocks.end(0)
    assert caught.value.failure.status == 502
    blocks.start(0, Kind.TEXT)
    blocks.end(0)
    with pytest.raises(UpstreamProtocolError):
        blocks.end(0)


def test_the_limit_counts_all_blocks_not_only_the_open_ones() -> None:
    blocks = BlockMap(Limits(blocks=2))
    for key in range(2):
        blocks.start(key, Kind.TEXT)
        blocks.end(key)
    with pytest.raises(LimitExceeded) as caught:
        blocks.start(2, Kind.TEXT)
    assert (caught.value.name, caught.value.limit, caught.value.failure.status) == ("blocks", 2, 502)


def tool(index: int) -> BlockStart:
    return BlockStart(index, Kind.TOOL, f"call_{index}", "f")


def test_sequencer_holds_later_blocks_until_the_earlier_one_ends() -> None:
    sequencer = Sequencer()
    assert sequencer.feed([tool(0), tool(1), Delta(1, "b"), Delta(0, "a")]) == [tool(0), Delta(0, "a")]
    assert sequencer.feed([BlockEnd(1), tool(2), Delta(2, "c")]) == []
    assert sequencer.feed([BlockEnd(0)]) == [BlockEnd(0), tool(1), Delta(1, "b"), BlockEnd(1), tool(2), Delta(2, "c")]
    assert sequencer.feed([Delta(2, "d")]) == [Delta(2, "d")], "the next block is live from here on"
    assert sequencer.feed([BlockEnd(2), tool(3)]) == [BlockEnd(2), tool(3)]


def test_sequencer_lets_pings_and_errors_through_at_once() -> None:
    sequencer = Sequencer()
    error = Error(Failure(FailureKind.API, "cut", 502))
    sequencer.feed([tool(0), tool(1), Delta(1, "b")])
    assert sequencer.feed([Ping()]) == [Ping()]
    assert sequencer.feed([error]) == [error], "what was held is not shown as if it had come"
    assert sequencer.finish() == []


def test_sequencer_holds_no_more_than_its_limit() -> None:
    sequencer = Sequencer(Limits(reply_body=3))
    assert sequencer.feed([tool(0), tool(1), Delta(1, "abc"), BlockEnd(1), Delta(0, "x" * 9)]) == [
        tool(0),
        Delta(0, "x" * 9),
    ], "what passes at once takes no room"
    sequencer.feed([BlockEnd(0), tool(2), tool(3), Delta(3, "ab")])
    (error,) = sequencer.feed([Delta(3, "cd"), BlockEnd(2)])
    assert isinstance(error, Error)
    assert "reply_body = 3" in error.failure.message
    assert sequencer.done


def fed(events: list[Event], cut: list[list[Event]]) -> list[Event]:
    sequencer = Sequencer()
    out: list[Event] = []
    for batch in cut:
        out += sequencer.feed(batch)
    return out + sequencer.finish()


def of_block(events: list[Event], index: int) -> list[Event]:
    return [event for event in events if getattr(event, "index", None) == index]


@given(event_streams(ANY), st.data())
def test_law_sequencer_gives_a_permutation_with_one_open_block_at_a_time(
    events: list[Event], data: st.DataObject
) -> None:
    out = fed(events, data.draw(batches(events)))
    assert out == fed(events, [events]), "whatever the batches"
    canonical.check(out)
    current: int | None = None
    for event in out:
        if isinstance(event, BlockStart):
            assert current is None
            current = event.index
        elif isinstance(event, BlockEnd):
            assert current == event.index
            current = None
        elif not isinstance(event, Start | Finish | End | Ping):
            assert event.index == current  # type: ignore[union-attr]
    assert len(out) == len(events)
    assert sorted(map(id, out)) == sorted(map(id, events)), "the very events, each once"
    for index in {event.index for event in events if isinstance(event, BlockStart)}:
        assert of_block(out, index) == of_block(events, index)
    starts = [event.index for event in out if isinstance(event, BlockStart)]
    assert starts == sorted(starts)


@given(event_streams(replace(ANY, errors=True)))
def test_law_sequencer_never_invents_an_end(events: list[Event]) -> None:
    out = fed(events, [events])
    canonical.check(out)
    for index in {event.index for event in out if isinstance(event, BlockStart)}:
        held = of_block(out, index)
        assert held == of_block(events, index)[: len(held)]


@given(event_streams(replace(ANY, interleave="none")))
def test_law_what_is_in_order_already_passes_unchanged_and_unbuffered(events: list[Event]) -> None:
    sequencer = Sequencer()
    for event in events:
        assert sequencer.feed([event]) == [event]


def test_an_end_stops_nothing_but_its_own_block() -> None:
    """T-03: the start of call 2 must not close call 1, nor may its end."""
    events: list[Event] = [
        Start("x", "m"),
        tool(0),
        Delta(0, '{"a":'),
        tool(1),
        Delta(1, "{}"),
        BlockEnd(1),
        Delta(0, "1}"),
        BlockEnd(0),
        Finish(Stop(StopReason.TOOL_CALLS)),
        End(),
    ]
    assert [call.arguments for call in canonical.check(fed(events, [events])).calls] == ['{"a":1}', "{}"]

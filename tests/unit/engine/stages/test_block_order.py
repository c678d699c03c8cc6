"""The block map, and the order of blocks for clients that assume one open at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    Logprobs,
    Opaque,
    Ping,
    Start,
    Stop,
    StopReason,
)
from dragoman.dialects.shared.block_index import BlockMap
from dragoman.errors import Failure, FailureKind, LimitExceeded, UpstreamProtocolError
from dragoman.limits import Limits
from dragoman.stages.block_order import BlockOrder
from support import canonical
from support.strategies import ANY, batches, event_streams


def test_T01_indexes_count_up_in_start_order_whatever_the_keys() -> None:
    blocks = BlockMap()
    assert blocks.start(7, "tool") == 0
    assert blocks.start("text", "text") == 1
    assert blocks.start((3, 1), "tool") == 2
    assert blocks.open == {7: (0, "tool"), "text": (1, "text"), (3, 1): (2, "tool")}
    assert blocks.end("text") == 1
    assert blocks.end(7) == 0
    assert blocks.open == {(3, 1): (2, "tool")}


def test_a_key_may_come_back_after_its_end_as_a_new_block() -> None:
    blocks = BlockMap()
    assert blocks.start("text", "text") == 0
    assert blocks.end("text") == 0
    assert blocks.start("text", "text") == 1


def test_start_twice_is_the_upstreams_fault() -> None:
    blocks = BlockMap()
    blocks.start(0, "text")
    with pytest.raises(UpstreamProtocolError, match="started block 0 twice"):
        blocks.start(0, "tool")
    assert blocks.count == 1
    assert blocks.open == {0: (0, "text")}


def test_T02_ending_what_is_not_open_is_the_upstreams_fault() -> None:
    blocks = BlockMap()
    with pytest.raises(UpstreamProtocolError, match="block 0, which is not open") as caught:
        blocks.end(0)
    assert caught.value.failure.status == 502
    blocks.start(0, "text")
    blocks.end(0)
    with pytest.raises(UpstreamProtocolError):
        blocks.end(0)


def test_the_limit_counts_all_blocks_not_only_the_open_ones() -> None:
    blocks = BlockMap(Limits(blocks=2))
    for key in range(2):
        blocks.start(key, "text")
        blocks.end(key)
    with pytest.raises(LimitExceeded) as caught:
        blocks.start(2, "text")
    assert (caught.value.name, caught.value.limit, caught.value.failure.status) == ("blocks", 2, 502)


def tool(index: int) -> BlockStart:
    return BlockStart(index, "tool", f"call_{index}", "f")


def test_later_blocks_are_held_until_the_earlier_one_ends() -> None:
    order = BlockOrder()
    assert order.feed([tool(0), tool(1), Delta(1, "b"), Delta(0, "a")]) == [tool(0), Delta(0, "a")]
    assert order.feed([BlockEnd(1), tool(2), Delta(2, "c")]) == []
    assert order.busy
    assert order.feed([BlockEnd(0)]) == [BlockEnd(0), tool(1), Delta(1, "b"), BlockEnd(1), tool(2), Delta(2, "c")]
    assert order.feed([Delta(2, "d")]) == [Delta(2, "d")], "the next block is live from here on"
    assert order.feed([BlockEnd(2), tool(3)]) == [BlockEnd(2), tool(3)]
    assert not order.busy


def test_pings_and_errors_pass_at_once() -> None:
    order = BlockOrder()
    error = Error(Failure(FailureKind.API, "cut", 502))
    order.feed([tool(0), tool(1), Delta(1, "b")])
    assert order.feed([Ping()]) == [Ping()]
    assert order.feed([error]) == [error], "what was held is not shown as if it had come"


def test_no_more_is_held_than_the_limit_allows() -> None:
    order = BlockOrder(Limits(reply_body=3))
    assert order.feed([tool(0), tool(1), Delta(1, "abc"), BlockEnd(1), Delta(0, "x" * 9)]) == [
        tool(0),
        Delta(0, "x" * 9),
    ], "what passes at once takes no room"
    order.feed([BlockEnd(0), tool(2), tool(3), Delta(3, "ab")])
    (error,) = order.feed([Delta(3, "cd"), BlockEnd(2)])
    assert isinstance(error, Error)
    assert "reply_body = 3" in error.failure.message


def test_sources_and_proofs_that_are_held_count_as_well() -> None:
    source = Annotation(1, Citation("messages", {"type": "char_location", "cited_text": "x" * 80}))
    for held in (source, Opaque(1, "messages", "signature", "s" * 80), Logprobs(1, [{"token": "x" * 80}])):
        order = BlockOrder(Limits(reply_body=60))
        order.feed([tool(0), text(1)])
        (error,) = order.feed([held])
        assert isinstance(error, Error)


def test_held_text_is_one_piece_in_memory() -> None:
    order = BlockOrder()
    order.feed([tool(0), tool(1)])
    for _ in range(1000):
        order.feed([Delta(1, "x")])
    assert order.feed([BlockEnd(0)]) == [BlockEnd(0), tool(1), Delta(1, "x" * 1000)]


def text(index: int) -> BlockStart:
    return BlockStart(index, "text")


def test_open_prose_ends_when_the_next_block_starts() -> None:
    order = BlockOrder(prose_ends=True)
    assert order.feed([text(0), Delta(0, "a"), tool(1)]) == [text(0), Delta(0, "a"), BlockEnd(0), tool(1)]
    assert order.feed([Delta(0, "b"), Delta(1, "{}")]) == [Delta(1, "{}")]
    assert order.feed([BlockEnd(1)]) == [BlockEnd(1), text(-1), Delta(-1, "b")]
    assert order.feed([BlockEnd(0)]) == [BlockEnd(-1)]
    assert not order.busy
    order = BlockOrder(prose_ends=True)
    order.feed([text(0), Delta(0, "a"), tool(1)])
    assert order.feed([BlockEnd(0), Delta(1, "{}")]) == [Delta(1, "{}")], "nothing more came of it"


def test_a_proof_that_comes_late_has_a_block_of_its_own() -> None:
    order = BlockOrder(prose_ends=True)
    reasoned, proof = BlockStart(0, "reasoning"), Opaque(0, "messages", "signature", "s")
    assert order.feed([reasoned, Delta(0, "a"), text(1)]) == [reasoned, Delta(0, "a"), BlockEnd(0), text(1)]
    assert order.feed([proof]) == [BlockEnd(1), BlockStart(-1, "reasoning"), replace(proof, index=-1)]
    assert order.feed([BlockEnd(0), Delta(1, "x")]) == [BlockEnd(-1), text(-2), Delta(-2, "x")]


def test_an_opaque_block_without_its_payload_keeps_no_one_waiting() -> None:
    order = BlockOrder(prose_ends=True)
    hosted = BlockStart(0, "opaque", name="web_search_call", code="hosted_history")
    payload = Opaque(0, "responses", "block", {"type": "web_search_call"})
    assert order.feed([hosted, text(1), Delta(1, "a")]) == [hosted, text(1), Delta(1, "a")]
    assert order.feed([payload, BlockEnd(0)]) == [], "it does not split the text"
    assert order.feed([BlockEnd(1)]) == [BlockEnd(1), payload, BlockEnd(0)]
    order = BlockOrder(prose_ends=True)
    assert order.feed([hosted, payload, text(1)]) == [hosted, payload], "one that is shown has to end"
    assert order.feed([BlockEnd(0)]) == [BlockEnd(0), text(1)]


def test_thousands_of_blocks_go_at_once() -> None:
    order = BlockOrder(prose_ends=True)
    order.feed([tool(0)])
    for index in range(1, 4000):
        assert order.feed([text(index), Delta(index, "x")]) == []
    out = order.feed([BlockEnd(0)])
    assert len(out) == 3 * 3999


def fed(events: list[Event], cut: list[list[Event]], *, prose_ends: bool = False) -> list[Event]:
    order = BlockOrder(prose_ends=prose_ends)
    out: list[Event] = []
    for batch in cut:
        out += order.feed(batch)
    return out


def alone(events: list[Event]) -> None:
    """Check that at most one block is open at a time."""
    current: int | None = None
    unseen: set[int] = set()  # opaque blocks, of which a client sees nothing before their payload
    for event in events:
        if isinstance(event, Opaque) and event.index in unseen:
            unseen.discard(event.index)
            assert current is None
            current = event.index
        elif isinstance(event, BlockStart) and event.kind == "opaque":
            unseen.add(event.index)
        elif isinstance(event, BlockStart):
            assert current is None
            current = event.index
        elif isinstance(event, BlockEnd):
            assert current == event.index
            current = None
        elif not isinstance(event, Start | Finish | End | Ping | Error):
            assert event.index == current


@given(event_streams(ANY), st.data())
def test_law_the_blocks_are_the_same_one_at_a_time_in_the_order_of_their_starts(
    events: list[Event], data: st.DataObject
) -> None:
    out = fed(events, data.draw(batches(events)))
    alone(out)
    assert canonical.check(out) == canonical.check(canonical.in_sequence(events))
    assert canonical.joined(out) == canonical.joined(fed(events, [events])), "whatever the batches"


@given(event_streams(replace(ANY, errors=True)))
def test_law_no_end_is_invented(events: list[Event]) -> None:
    out = fed(events, [events])
    ended = [event.index for event in events if isinstance(event, BlockEnd)]
    assert all(event.index in ended for event in out if isinstance(event, BlockEnd))
    for index in {event.index for event in out if isinstance(event, BlockStart)}:
        after, before = content(out, index), content(events, index)
        assert after == before[: len(after)] or (
            isinstance(after[-1], Delta) and isinstance(before[len(after) - 1], Delta)
        )


def content(events: list[Event], index: int) -> list[Event]:
    return canonical.joined([event for event in events if getattr(event, "index", None) == index])


@given(event_streams(replace(ANY, interleave="none")), st.booleans())
def test_law_what_is_in_order_already_passes_unchanged_and_at_once(events: list[Event], prose_ends: bool) -> None:
    order = BlockOrder(prose_ends=prose_ends)
    for event in events:
        assert order.feed([event]) == [event]
        assert not order.busy


def numbered(events: list[Event]) -> list[Event]:
    """Return the same stream, each text with its block and its place in it, so that it is known wherever it ends up."""
    places: dict[int, int] = {}
    out: list[Event] = []
    for event in events:
        if isinstance(event, Delta):
            places[event.index] = places.get(event.index, -1) + 1
            event = Delta(event.index, f"{event.index}.{places[event.index]};")
        out.append(event)
    return out


@given(event_streams(ANY).map(numbered), st.data())
def test_law_prose_that_ends_early_goes_on_and_nothing_is_lost(events: list[Event], data: st.DataObject) -> None:
    out = fed(events, data.draw(batches(events)), prose_ends=True)
    alone(out)
    kinds = {event.index: event.kind for event in [*events, *out] if isinstance(event, BlockStart)}
    pieces: dict[int, list[str]] = {}
    for event in out:
        if isinstance(event, Delta):
            for piece in event.text.split(";")[:-1]:
                source = int(piece.partition(".")[0])
                assert kinds[event.index] is kinds[source]
                assert event.index in (source, *range(-len(events), 0))
                pieces.setdefault(source, []).append(piece)
    for source, found in pieces.items():
        assert found == [f"{source}.{place}" for place in range(len(found))]
    for kind in (Annotation, Opaque):
        given = [kind_of for kind_of in events if type(kind_of) is kind]
        assert len([event for event in out if type(event) is kind]) == len(given)
    assert sum(map(len, pieces.values())) == len([event for event in events if isinstance(event, Delta)])
    calls = {index for index, kind in kinds.items() if kind == "tool"}
    for index in calls:
        assert content(out, index) == content(events, index)
    starts = [event.index for event in out if isinstance(event, BlockStart) and event.index in calls]
    assert starts == sorted(starts)
    assert [type(event) for event in out if isinstance(event, Finish | End)] == [Finish, End]


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

"""The bounds of the streams that can be resumed."""

from __future__ import annotations

from dragoman import Dialect
from dragoman.aio import StreamTimers, Timeouts
from dragoman_server.config.resume import ResumeOptions
from dragoman_server.proxy.resumable.kept_streams import KeptStreams
from dragoman_server.proxy.resumable.stream import ResumableStream
from dragoman_server.receipt import Receipt


def add(streams: KeptStreams, owner: str, request_id: str, *, ended: bool = False) -> bool:
    """Add a stream, if there is room for it."""
    budget = streams.budget_for(owner)
    if budget is None:
        return False
    stream = ResumableStream(Receipt(request_id, Dialect.CHAT, 7), 4096)
    stream.owner = owner
    stream.open(StreamTimers(Timeouts()), {}, budget)
    if ended:
        stream.log.close()
    streams[owner, request_id] = stream
    return True


async def test_an_ended_stream_makes_room_and_an_open_one_does_not() -> None:
    streams = KeptStreams(ResumeOptions(seconds=5.0, streams=2))
    assert add(streams, "a", "1")
    assert add(streams, "b", "2", ended=True)
    assert add(streams, "c", "3")
    assert list(streams) == [("a", "1"), ("c", "3")]
    assert not add(streams, "d", "4")


async def test_a_client_makes_room_for_itself_only() -> None:
    streams = KeptStreams(ResumeOptions(seconds=5.0, streams_per_client=1))
    assert add(streams, "a", "1", ended=True)
    assert add(streams, "b", "2")
    assert not add(streams, "b", "3")
    assert add(streams, "a", "4")
    assert list(streams) == [("b", "2"), ("a", "4")]


async def test_the_streams_of_a_client_share_a_fourth_of_the_bytes() -> None:
    streams = KeptStreams(ResumeOptions(seconds=5.0, total_bytes=1024 * 1024))
    budgets = streams.budget_for("a"), streams.budget_for("a"), streams.budget_for("b"), streams.budget_for("")
    assert budgets[0] is budgets[1]
    assert [each and each.limit for each in budgets] == [262_144, 262_144, 262_144, 1_048_576]

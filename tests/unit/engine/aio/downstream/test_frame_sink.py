"""Receivers of frames: events without comments, however they are batched, and the timers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import pytest

from dragoman.aio.downstream.frame_sink import FrameSink
from dragoman.aio.stream_timers import StreamTimers
from dragoman.aio.timeouts import Timeouts
from dragoman.wire.sse import Frame, FrameBatch

ENCODED = b": ping\n\nevent: a\ndata: 1\n\ndata: 2\n\n"
PARSED = (Frame("a", b"1"), Frame("", b"2"))


class Recorder(FrameSink):
    """Records what is sent, and the client disconnects at the frame with the data `last`."""

    def __init__(self, timers: StreamTimers, last: bytes = b"") -> None:
        super().__init__(timers)
        self.last = last
        self.sent: list[tuple[str, bytes]] = []

    async def send(self, event: str, data: bytes) -> None:
        if data == self.last:
            raise ConnectionResetError
        self.sent.append((event, data))


async def batches(*frames: FrameBatch) -> AsyncGenerator[FrameBatch, None]:
    for batch in frames:
        yield batch


@pytest.mark.parametrize("frames", [[ENCODED], [[*PARSED]], [ENCODED[:8], [PARSED[0]], ENCODED[25:]]])
async def test_encoded_and_parsed_frames_are_sent_alike(frames: Sequence[FrameBatch]) -> None:
    timers = StreamTimers(Timeouts())
    sink = Recorder(timers)
    assert await sink.open() is sink.direct is False
    assert sink.opened
    await sink.send_body(batches(*frames), None)  # type: ignore[arg-type]
    await sink.end(b"data: 3\n\n")
    timers.stop()
    assert sink.sent == [("a", b"1"), ("", b"2"), ("", b"3")]


async def test_the_error_of_a_client_that_left_ends_the_stream() -> None:
    timers = StreamTimers(Timeouts())
    sink = Recorder(timers, last=b"2")
    with pytest.raises(ConnectionError):
        await sink.send_body(batches(ENCODED), None)  # type: ignore[arg-type]
    timers.stop()
    assert sink.sent == [("a", b"1")]


async def test_a_receiver_needs_a_way_to_send() -> None:
    with pytest.raises(NotImplementedError):
        await FrameSink(StreamTimers(Timeouts())).write(ENCODED)

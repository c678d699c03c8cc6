"""The base of what takes a stream's frames in place of `DownstreamResponse`, and does not send them as SSE."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from dragoman.aio.stream_timers import StreamTimers
from dragoman.aio.trampoline import InlineTask
from dragoman.stages.base import StreamDriver
from dragoman.wire.sse import FrameBatch
from dragoman.wire.sse_parser import decode_frames


class FrameSink:
    """A receiver of one stream's frames, with the `timers` of its exchange. A subclass has `send`."""

    __slots__ = ("_timers", "inline_task", "opened")

    direct = False
    response = None

    def __init__(self, timers: StreamTimers) -> None:
        self._timers = timers
        self.opened = False
        self.inline_task: InlineTask[None] | None = None

    async def send(self, event: str, data: bytes) -> None:
        """Send one frame: its event name and its data. Raises ConnectionError if the client has disconnected."""
        raise NotImplementedError

    async def open(self) -> bool:
        """Attach the timers: there are no headers to send. Return `direct`."""
        self.opened = True
        self._timers.attach_sink(self)
        return self.direct

    def flush(self) -> None:
        """Return at once: there are no headers."""

    async def send_body(self, frames: AsyncGenerator[FrameBatch, None], driver: StreamDriver) -> None:
        """Send all frames. Raises ConnectionError if the client disconnects, and the errors of `frames`."""
        async for batch in frames:
            self._timers.writing()
            await self.write(batch)
            self._timers.written()

    async def write(self, frames: FrameBatch) -> None:
        """Send complete frames; comments are dropped. Raises ConnectionError if the client has disconnected."""
        for frame in decode_frames(frames):
            if frame.data is not None:
                await self.send(frame.event, frame.data)

    async def end(self, last: FrameBatch) -> None:
        """Send the last frames."""
        await self.write(last)

    def send_heartbeat(self) -> None:
        """Return at once: who reads the frames later sends heartbeats of its own."""

    def detach(self) -> None:
        """Return at once: nothing is freed before the end."""

    def abort(self) -> None:
        """Return at once: no connection is written to."""

    def unsent(self) -> int:
        """Return 0, as above."""
        return 0

    def close(self) -> None:
        """Return at once: no heartbeat is pending."""

"""Streams that can be resumed, of all processes that share the store."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import NamedTuple

from dragoman import Dialect
from dragoman.threads import StoreError
from dragoman.wire import json_loads
from dragoman_server.proxy.resumable.stream import ResumableStream
from dragoman_server.proxy.runs.interface import LostRun, Marks, Run, RunId
from dragoman_server.proxy.runs.own_run import OwnRun
from dragoman_server.proxy.runs.shared_runs import SharedRuns
from dragoman_server.proxy.store_health import unavailable

log = logging.getLogger("dragoman")
KIND = "stream"
_LOST = b"lost"
"""The state of a stream whose process has stopped before its end."""


class StreamElsewhere(NamedTuple):
    """A stream that another process runs, or has run. `is_lost` is True if that has stopped before its end."""

    name: RunId
    client: Dialect
    headers: dict[str, str]
    run: Run

    @property
    def is_lost(self) -> bool:
        """True if its process has stopped before its end."""
        return self.run.state == _LOST


class SharedStreams:
    """The streams of all processes. They are kept for `kept` seconds after their end."""

    def __init__(self, shared: SharedRuns, kept: float) -> None:
        self._shared = shared
        self._kept = kept
        self.go_on: Callable[[OwnRun, LostRun], bool] | None = None
        """Goes on with a stream whose upstream still generates it; False if it cannot."""
        shared.end_lost[KIND] = self._end_lost

    # --- streams of this process -------------------------------------------------------------------------------------

    async def share(self, stream: ResumableStream, on_marks: Callable[[ResumableStream, Marks | None], None]) -> bool:
        """Let other processes resume a stream. If the store fails, only this one can, and the log has a warning.

        `on_marks` is called with the marks of others, None once it is another process's. Return True if one that takes
        it goes on with it.
        """
        assert stream.owner is not None
        head = {"kind": KIND, "client": str(stream.client), "headers": dict(stream.headers)}
        try:
            name = RunId(stream.owner, stream.request_id)
            own = await self._shared.begin(name, head, partial(on_marks, stream))
            assert own is not None
            stream.shared, own.log = own, stream.log
            if stream.log.closed:
                self.end(stream)
            elif stream.attachment is not None and stream.attachment.handover:
                own.attach, stream.attachment.handover = stream.attachment.handover, b""
                await self._shared.flush(own)
                return True
        except StoreError as error:
            log.warning("%s can be resumed in this process only: %s", stream.request_id, error)
        return False

    def end(self, stream: ResumableStream) -> None:
        """Record the end of a stream."""
        if stream.shared is not None and stream.shared.kept is None:
            stream.shared.end(b"", self._kept)

    def forget(self, stream: ResumableStream) -> None:
        """Let a stream be resumed no longer."""
        if stream.shared is not None:
            self._shared.forget(stream.shared)

    async def pass_on(self, own: OwnRun) -> None:
        """Leave a stream to another process."""
        await self._shared.pass_on(own)

    async def events(self, lost: LostRun) -> list[bytes]:
        """Return the events of a stream that was taken, as frames. Raises StoreError."""
        return await self._shared.stored_events(lost.name, lost.run.first, lost.run.end)

    async def replace_reader(self, stream: ResumableStream) -> None:
        """End the client that reads a stream elsewhere: one of this process replaces it."""
        if stream.shared is not None and (mark := stream.take_back()):
            try:
                await self._shared.end_reading(stream.shared.name, mark)
            except StoreError as error:
                log.warning("%s may have two readers: %s", stream.request_id, error)

    # --- streams of other processes ----------------------------------------------------------------------------------

    async def find(self, owner: str, request_id: str, number: int) -> StreamElsewhere | None:
        """Return a stream of any process, or None; wait a while for its events before `number`.

        Raises DragomanError (503).
        """
        name = RunId(owner, request_id)
        try:
            run = await self._shared.get(name, number)
        except StoreError as error:
            raise unavailable(error) from None
        head = json_loads(run.head) if run is not None else {}
        if run is None or head["kind"] != KIND:
            return None
        return StreamElsewhere(name, Dialect(head["client"]), head["headers"], run)

    async def follow(
        self, stream: StreamElsewhere, number: int, heartbeat: float, reader_id: str
    ) -> AsyncGenerator[bytes, None]:
        """Yield the events from this one on, as `ResumableStream.follow` does."""
        try:
            async with self._shared.reading(stream.name, number, f"{self._shared.host} {reader_id}") as reader:
                while not reader.is_over:
                    data = await reader.next(heartbeat)
                    if data or not reader.is_over:
                        yield data
            run = await self._shared.get(stream.name)
        except StoreError as error:
            raise ConnectionError(str(error)) from None
        if reader.failure or run is None or run.state == _LOST:
            raise ConnectionError(reader.failure or "the process of the stream has stopped")

    async def _end_lost(self, run: OwnRun, lost: LostRun) -> None:
        """End a stream that has lost its process, unless this one can go on with it. What it has is kept a while."""
        if not (lost.attach and self.go_on is not None and self.go_on(run, lost)):
            self.lose(run)

    def lose(self, run: OwnRun) -> None:
        """Record that nothing follows in a stream that has no end."""
        run.end(_LOST, self._kept)

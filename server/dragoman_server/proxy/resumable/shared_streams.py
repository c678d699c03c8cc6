"""Streams that can be resumed, of all processes that share the store."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
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
        shared.end_lost[KIND] = self._end_lost

    # --- streams of this process -------------------------------------------------------------------------------------

    async def share(self, stream: ResumableStream, on_reader: Callable[[ResumableStream, str], None]) -> None:
        """Let other processes resume a stream. If the store fails, only this one can, and the log has a warning.

        `on_reader` is called with the mark of the client that reads it elsewhere, empty without one.
        """
        assert stream.owner is not None

        def on_marks(marks: Marks | None) -> None:
            if marks is None:
                stream.shared = None
            else:
                on_reader(stream, marks.reader)

        head = {"kind": KIND, "client": str(stream.client), "headers": dict(stream.headers)}
        try:
            own = await self._shared.begin(RunId(stream.owner, stream.request_id), head, on_marks)
        except StoreError as error:
            log.warning("%s can be resumed in this process only: %s", stream.request_id, error)
            return
        assert own is not None
        stream.shared, own.log = own, stream.log
        if stream.log.closed:
            self.end(stream)

    def end(self, stream: ResumableStream) -> None:
        """Record the end of a stream."""
        if stream.shared is not None:
            stream.shared.end(b"", self._kept)

    def forget(self, stream: ResumableStream) -> None:
        """Let a stream be resumed no longer."""
        if stream.shared is not None:
            self._shared.forget(stream.shared)

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

    async def _end_lost(self, run: OwnRun, _: LostRun) -> None:
        """End a stream that has lost its process: what it has is kept for a while."""
        run.end(_LOST, self._kept)

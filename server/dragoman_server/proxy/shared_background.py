"""Responses that run in the background of any process that shares the store."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from dragoman.threads import (
    Node,
    StoredRequest,
    StoreError,
    cancelled_response,
    failed_response,
    lagging_event,
    terminal_event,
)
from dragoman.wire import Json, json_dumps, json_loads
from dragoman_server.accounts.usage.book import UsageBook
from dragoman_server.proxy.runs.interface import LostRun, Run, RunId
from dragoman_server.proxy.runs.own_run import OwnRun
from dragoman_server.proxy.runs.reader import DROPPED
from dragoman_server.proxy.runs.shared_runs import SharedRuns
from dragoman_server.proxy.store_health import unavailable
from dragoman_server.proxy.stored_responses import StoredResponses
from dragoman_server.receipt import Receipt

KIND = "background"
STOPPED = "the gateway stopped before the response was complete"
PING = b": ping\n\n"


class SharedBackground:
    """The runs of all processes. Their events are kept for `kept` seconds after their end; `usage` books them.

    The row of a run is written before its end is shared. So a process that ends a lost run books it, by the entry in
    its head. If the lost process had just written the row to the same file, or table, it stays as it is.
    """

    def __init__(self, shared: SharedRuns, stored: StoredResponses, kept: float, usage: UsageBook) -> None:
        self._shared = shared
        self._usage = usage
        self._stored = stored
        self._kept = kept
        self.go_on: Callable[[OwnRun, LostRun], bool] | None = None
        """Goes on with a run whose upstream still generates its response; False if it cannot."""
        shared.end_lost[KIND] = self._end_lost

    @staticmethod
    def head(receipt: Receipt, request: StoredRequest, *, streamed: bool, usage: Json | None = None) -> Json:
        """Return the description of a run. `usage` is the entry by which it is booked if it loses its process."""
        return {
            "kind": KIND,
            "request_id": receipt.request_id,
            "created": receipt.created,
            "parent": request.parent,
            "streamed": streamed,
            "usage": usage,
        }

    async def get(self, owner: str, run_id: str, number: int = 0) -> Run | None:
        """Return a run, or None; wait a while for its events before `number`. Raises DragomanError (503)."""
        try:
            run = await self._shared.get(RunId(owner, run_id), number)
        except StoreError as error:
            raise unavailable(error) from None
        return run if run is not None and json_loads(run.head)["kind"] == KIND else None

    async def cancel(self, owner: str, run_id: str) -> None:
        """Cancel a run if there is one that runs, and wait for its end. Raises DragomanError (503)."""
        try:
            await self._shared.cancel(RunId(owner, run_id))
        except StoreError as error:
            raise unavailable(error) from None

    async def follow(self, name: RunId, after: int, heartbeat: float) -> AsyncGenerator[bytes, None]:
        """Yield the events after this number until the end, as `BackgroundRun.follow` does."""
        async with self._shared.reading(name, after + 1) as reader:
            while not reader.is_over:
                data = await reader.next(heartbeat)
                if data:
                    yield data
                elif not reader.is_over:
                    yield PING
            if reader.failure:
                why = () if reader.failure == DROPPED else (reader.failure,)
                yield b"event: error\ndata: %b\n\n" % json_dumps(lagging_event(reader.position.number, *why))

    async def _end_lost(self, run: OwnRun, lost: LostRun) -> None:
        """End a run, unless this process can go on with it."""
        if not (lost.attach and self.go_on is not None and self.go_on(run, lost)):
            await self._end(run, lost)

    async def _end(self, run: OwnRun, lost: LostRun) -> None:
        """Store a response as failed, or as cancelled. One that its process has stored stays as it is."""
        head = json_loads(lost.run.head)
        last = json_loads(lost.run.state)
        state = cancelled_response(last) if lost.run.cancelled else failed_response(last, STOPPED)
        state["store"] = True
        new = Node(*lost.name, head["parent"], head["created"], lost.request, json_dumps(state))
        node = await self._stored.keep_node(new, head["request_id"])
        if (entry := head.get("usage")) is not None:
            self._usage.add_lost(entry)
        run.end(b"" if node is not None else new.reply, self._kept)
        if head["streamed"]:
            number = lost.run.end
            run.add_last(number, terminal_frame(json_loads((node or new).reply), number))


def is_streamed(run: Run) -> bool:
    """True if the events of a run are kept."""
    return json_loads(run.head)["streamed"] is True


def terminal_frame(response: Json, number: int) -> bytes:
    """Return the frame that ends the events of a response."""
    event = terminal_event(response, number)
    return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), json_dumps(event))

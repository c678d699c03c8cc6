"""Responses that run in the background: they go on when their client leaves, and can be read, followed and cancelled.

A run is an exchange like any other, with a log in place of the client's connection. Its request is handled twice: the
first time until it is known that it asks for this (`RunInBackground`), the second time in a task of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from functools import partial
from typing import Any

from aiohttp import web
from multidict import CIMultiDict

from dragoman import Dialect, DragomanError, Failure
from dragoman.aio import ClientGone, Downstream, EventLog, LogBudget, LoggedStream, StreamTimers, without_connection
from dragoman.errors import FailureKind, FailureOrigin
from dragoman.threads import (
    StoredRequest,
    cancelled_response,
    failed_response,
    lagging_event,
    queued_response,
    response_id,
    response_not_found,
    terminal_event,
)
from dragoman.wire import Json, json_dumps, json_loads
from dragoman_server.config.state_options import StateOptions
from dragoman_server.observability.receipts import Receipt
from dragoman_server.proxy.error_response import CLIENT_GONE, OWN_ID
from dragoman_server.proxy.exchange import OpenStream, event_stream
from dragoman_server.proxy.long_bodies import compute
from dragoman_server.proxy.resolve_request import CLIENT_REQUEST, RunInBackground
from dragoman_server.proxy.stored_responses import StoredResponses, owner_of

log = logging.getLogger("dragoman")
Answer = Callable[[web.Request, OpenStream, Dialect, Receipt], Coroutine[Any, Any, web.StreamResponse]]
"""Handles a request whose stream is sent to what `open_stream` returns."""
_DROPPED = ("content-length", "content-encoding", "transfer-encoding", "expect", "connection")
"""Headers about a body that has been read, and about its connection."""
_ENDS = ("response.completed", "response.incomplete", "response.failed")
_PING = b": ping\n\n"
_KEPT = 64
"""Most runs of a client that have ended, and whose events are kept."""
_SHARE = 4
"""The part of all bytes that the runs of one client may hold before it can begin no other: a fourth."""


class BackgroundRun:
    """One response that runs, or has run, in the background: its last state, and the log of its events.

    `streamed` is True if it was requested with `stream`: only then its events may be read, and are kept. `request`,
    `state` and events are counted in `budget`.
    """

    def __init__(self, request: StoredRequest, limit: int, budget: LogBudget, *, streamed: bool) -> None:
        self.request: StoredRequest | None = request
        self.streamed = streamed
        self.log = EventLog(limit if streamed else 0, budget)
        self.task: asyncio.Task[web.StreamResponse] | None = None
        self.accepted = False
        """True once the request was translated."""
        self.state = b""
        """The last state, as JSON; empty once the store has it."""
        self._budget = budget
        self._counted = 0
        self._count()
        self.ended = False
        """True once `state` is final."""
        loop = asyncio.get_running_loop()
        self.finished: asyncio.Future[None] = loop.create_future()
        """Done once the final state is stored."""
        self._ready: asyncio.Future[None] = loop.create_future()
        self._timers: StreamTimers | None = None

    @property
    def held(self) -> int:
        """The bytes of its request, its state and its events."""
        return self._counted + self.log.size

    def accept(self, receipt: Receipt) -> None:
        """Record that the request was translated, and is about to be sent."""
        assert receipt.translation is not None
        self.accepted = True
        self._set_state(queued_response(receipt.translation.context))
        if not self.streamed:
            self.settle()

    def open_stream(self, timers: StreamTimers, _: dict[str, str]) -> Downstream:
        """Return the log as the receiver of the stream."""
        self.settle()
        self._timers = timers
        return LoggedStream(self.log, timers, self._on_event)

    def _on_event(self, event: str, data: bytes) -> None:
        if event == "response.in_progress":
            self._set_state(json_loads(data)["response"])
        elif event in _ENDS and not self.ended:
            self.end(json_loads(data)["response"])

    def end(self, state: Json) -> None:
        """Set the final state. It is stored, also that of a response that has failed."""
        self.ended = True
        self._set_state({**state, "store": True})

    def release(self, *, stored: bool) -> None:
        """Free the request, and the state unless only this run has it."""
        self.request = None
        if stored:
            self.state = b""
        self._count()

    def forget(self) -> None:
        """Free everything."""
        self.log.clear()
        self.release(stored=True)

    def _set_state(self, state: Json) -> None:
        self.state = json_dumps(state)
        self._count()

    def _count(self) -> None:
        size = len(self.state) + (len(self.request.input) if self.request is not None else 0)
        self._budget.spend(size - self._counted)
        self._counted = size

    def stop(self) -> None:
        """End the exchange as if its client had disconnected."""
        if self._timers is not None:
            self._timers.expire(ClientGone())
        elif self.task is not None:
            self.task.cancel()

    async def settled(self) -> None:
        """Wait until the client can be answered: accepted, begun, or failed."""
        await asyncio.shield(self._ready)

    def settle(self) -> None:
        """Let the client be answered."""
        if not self._ready.done():
            self._ready.set_result(None)

    async def follow(self, after: int, heartbeat: float) -> AsyncGenerator[bytes, None]:
        """Yield the events after this number until the end.

        A comment is yielded when there was no event for `heartbeat` seconds.
        """
        number = after + 1
        while True:
            await self.log.wait(number, heartbeat)
            if number < self.log.first:
                event = json_dumps(lagging_event(number))
                yield b"event: error\ndata: %b\n\n" % event
                return
            if number < self.log.end:
                data, number = self.log.read(number), self.log.end
                yield data
            elif self.log.closed:
                return
            else:
                yield _PING


class BackgroundRuns:
    """The runs of one gateway.

    Args:
        options: The limits.
        heartbeat: Returns the seconds without an event after which a client that follows a run gets a comment.
        stored: Stores what has ended.
        answer: Handles a request.
    """

    def __init__(
        self, options: StateOptions, heartbeat: Callable[[], float], stored: StoredResponses, answer: Answer
    ) -> None:
        self._options = options
        self._heartbeat = heartbeat
        self._stored = stored
        self._answer = answer
        self._budget = LogBudget(options.background_limit())
        self._runs: dict[tuple[str, str], BackgroundRun] = {}
        """By owner and id: also those that have ended, for `background_events` seconds."""
        self._tasks: set[asyncio.Task[None]] = set()

    def get(self, owner: str, run_id: str) -> BackgroundRun | None:
        """Return a run, or None if the owner has none of this id in memory."""
        run = self._runs.get((owner, run_id))
        return run if run is not None and run.accepted else None

    def check_room(self, owner: str) -> None:
        """Raise DragomanError (429) if the owner has too many runs, or all hold too much.

        If many of the owner's have ended, forget the first.
        """
        own = [(key, run) for key, run in self._runs.items() if key[0] == owner]
        finished = [key for key, run in own if run.finished.done()]
        for key in finished[: max(0, len(finished) - _KEPT)]:
            self._forget(key)
        if (running := sum(not run.ended for _, run in own)) >= self._options.background:
            raise _no_room(f"{running} responses run in the background; wait for one to end, or cancel it")
        held = sum(run.held for _, run in own if not run.finished.done()) if owner else 0
        if self._budget.exceeded or held > self._budget.limit // _SHARE:
            limit = "state.background_total_bytes"
            raise _no_room(f"the responses that run in the background hold too much memory ({limit}); try again later")

    async def begin(self, receipt: Receipt, wanted: RunInBackground) -> web.StreamResponse:
        """Begin a run, and return the response to its request."""
        payload = wanted.payload
        request = wanted.request.get(CLIENT_REQUEST, wanted.request)
        streamed = payload.get("stream") is True
        run = BackgroundRun(wanted.stored, self._options.background_bytes, self._budget, streamed=streamed)
        receipt.background = run
        run.task = asyncio.get_running_loop().create_task(self._run(run, request, payload, receipt))
        run.task.add_done_callback(lambda _: run.settle())
        key = owner_of(receipt.owner, receipt.key), response_id(receipt.request_id)
        self._runs[key] = run
        task = asyncio.get_running_loop().create_task(self._finish(run, key, receipt))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await run.settled()
        failed = _failed(run)
        if failed is not None and (run.streamed or not run.accepted):
            return failed
        if run.streamed:
            return await self.send(request, run, -1, receipt.request_id)
        ids = {"x-request-id": receipt.request_id, OWN_ID: receipt.request_id}
        state = run.state or await self._stored_state(key)  # it may have ended already
        return web.Response(body=state, content_type="application/json", headers=ids)

    async def _run(
        self, run: BackgroundRun, request: web.Request, payload: Json, receipt: Receipt
    ) -> web.StreamResponse:
        """Answer the request. Neither the client's connection nor `payload` is kept meanwhile."""
        headers = CIMultiDict(request.headers)
        for name in _DROPPED:
            headers.popall(name, None)
        assert run.request is not None
        body = await compute(len(run.request.input), partial(_streamed, payload), receipt.owner, request)
        copy = without_connection(request, headers, body)
        del request, payload, body
        return await self._answer(copy, run.open_stream, Dialect.RESPONSES, receipt)

    async def send(self, request: web.Request, run: BackgroundRun, after: int, request_id: str) -> web.StreamResponse:
        """Send the events of a run after this number, and those to come. A client that leaves ends nothing."""
        response = event_stream({"x-request-id": request_id, OWN_ID: request_id})
        await response.prepare(request)
        async for data in run.follow(after, self._heartbeat()):
            await response.write(data)
        await response.write_eof()
        return response

    async def _stored_state(self, key: tuple[str, str]) -> bytes:
        node = await self._stored.get(*key)
        if node is None:
            raise response_not_found(key[1])
        return node.reply

    async def cancel(self, run: BackgroundRun) -> None:
        """Cancel a run, and wait until its last state is stored. One that has ended stays as it is."""
        if not run.ended and run.task is not None:
            run.end(cancelled_response(json_loads(run.state)))
            event = json_dumps(terminal_event(json_loads(run.state), run.log.end))
            run.log.append(b"event: response.incomplete\ndata: %b\n\n" % event)
            run.log.close()
            run.stop()
            await asyncio.wait((run.finished,))

    async def close(self) -> None:
        """Cancel all runs, and wait until their last states are stored."""
        for run in self._runs.values():
            if run.task is not None:
                run.task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _finish(self, run: BackgroundRun, key: tuple[str, str], receipt: Receipt) -> None:
        """Store the last state of a run that was not stored, and forget the run after a while."""
        assert run.task is not None
        await asyncio.wait((run.task,))
        receipt.end("abandoned", CLIENT_GONE)  # without effect, unless it was cancelled before it was sent
        receipt.background = None  # receipts are kept longer
        failed, stored = _failed(run), True
        if not run.accepted or (failed is not None and run.streamed):  # the client got the error
            run.forget()
        else:
            assert run.request is not None
            if not run.ended:
                message = "the gateway stopped before the response was complete"
                if failed is not None and isinstance(failed.body, bytes):
                    message = json_loads(failed.body)["error"]["message"]
                run.end(failed_response(json_loads(run.state), message))
            stored = await self._stored.keep_state(key[0], receipt.request_id, receipt.created, run.request, run.state)
        run.log.close()
        run.release(stored=stored)
        run.finished.set_result(None)
        if (run.streamed and run.log.written) or not stored:
            asyncio.get_running_loop().call_later(self._options.background_events, self._forget, key)
        else:
            self._forget(key)

    def _forget(self, key: tuple[str, str]) -> None:
        if (run := self._runs.pop(key, None)) is not None:
            run.forget()


def _streamed(payload: Json) -> bytes:
    """Return a request for a stream."""
    return json_dumps({**payload, "stream": True})


def _no_room(message: str) -> DragomanError:
    failure = Failure(FailureKind.RATE_LIMIT, message, 429, origin=FailureOrigin.PROXY, reason="background")
    failure.headers["retry-after"] = "1"
    return DragomanError(failure)


def _failed(run: BackgroundRun) -> web.Response | None:
    """Return the error response of a run that has failed before its stream."""
    task = run.task
    if task is None or not task.done() or task.cancelled() or task.exception() is not None:
        return None
    response = task.result()
    return response if isinstance(response, web.Response) and response.status >= 400 else None

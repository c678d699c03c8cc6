"""Responses that run in the background: they go on when their client leaves, and can be read, followed and cancelled.

A run is an exchange like any other, with a log in place of the client's connection. Its request is handled twice: the
first time until it is known that it asks for this (`Draft.background`), the second time in a task of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import aclosing, suppress
from functools import partial
from typing import Any

from aiohttp import web
from multidict import CIMultiDict

from dragoman import DragomanError, Failure
from dragoman.aio import Downstream, LogBudget, LogTail, StreamTimers, Timeouts, send_log, without_connection
from dragoman.errors import FailureKind, FailureOrigin
from dragoman.threads import (
    StoredRequest,
    StoreError,
    cancelled_response,
    failed_response,
    response_id,
    response_not_found,
)
from dragoman.wire import Json, json_dumps, json_loads
from dragoman_server.config.state_options import StateOptions
from dragoman_server.draft import Draft
from dragoman_server.proxy.attached.attached_exchange import AttachedExchange
from dragoman_server.proxy.attached.attachment import Attachment
from dragoman_server.proxy.attached.rejoined_stream import RejoinedStream, filled_log
from dragoman_server.proxy.auth import owner_of
from dragoman_server.proxy.background_run import BackgroundRun
from dragoman_server.proxy.error_response import CLIENT_GONE, OWN_ID
from dragoman_server.proxy.long_bodies import compute
from dragoman_server.proxy.reply_headers import add_event_stream, event_stream
from dragoman_server.proxy.request_keys import CLIENT_REQUEST
from dragoman_server.proxy.resumable.stream import abort
from dragoman_server.proxy.runs.interface import LostRun, Marks, RunId
from dragoman_server.proxy.runs.own_run import OwnRun
from dragoman_server.proxy.runs.shared_runs import SharedRuns
from dragoman_server.proxy.shared_background import PING, STOPPED, SharedBackground, terminal_frame
from dragoman_server.proxy.store_health import unavailable
from dragoman_server.proxy.stored_responses import StoredResponses
from dragoman_server.receipt import Receipt
from dragoman_server.routing.task_set import TaskSet
from dragoman_server.scope import RequestScope
from dragoman_server.services import Services

log = logging.getLogger("dragoman")
Answer = Callable[[web.Request, RequestScope], Coroutine[Any, Any, web.StreamResponse]]
"""Handles a request whose stream is sent to what the scope's `open_stream` returns."""
_DROPPED = ("content-length", "content-encoding", "transfer-encoding", "expect", "connection")
"""Headers about a body that has been read, and about its connection."""
_KEPT = 64
"""Most runs of a client that have ended, and whose events are kept."""
_SHARE = 4
"""The part of all bytes that the runs of one client may hold before it can begin no other: a fourth."""


class BackgroundRuns:
    """The runs of one gateway.

    Args:
        options: The limits.
        timeouts: A function that returns the timeouts of a client that reads a run.
        stored: Stores what has ended.
        answer: Handles a request.
        shared: Shares them with other processes; None without a store that they share.
        services: Books those that others have left, and goes on with those that an upstream still generates.
    """

    def __init__(
        self,
        options: StateOptions,
        timeouts: Callable[[], Timeouts],
        stored: StoredResponses,
        answer: Answer,
        shared: SharedRuns | None,
        services: Services,
    ) -> None:
        self._options = options
        self._timeouts = timeouts
        self._stored = stored
        self._answer = answer
        self._budget = LogBudget(options.background_limit())
        self._runs: dict[tuple[str, str], BackgroundRun] = {}
        """By owner and id: also those that have ended, for `background_events` seconds."""
        self._tasks = TaskSet()
        self._stopping = False
        self._shared = shared
        self._services = services
        self._usage = usage = services.instruments.usage
        self.elsewhere: SharedBackground | None = None
        """The runs of all processes; None without a store that they share."""
        if shared is not None:
            self.elsewhere = SharedBackground(shared, stored, options.background_events, usage)
            self.elsewhere.go_on = self._go_on

    def get(self, owner: str, run_id: str) -> BackgroundRun | None:
        """Return a run, or None if the owner has none of this id in memory."""
        run = self._runs.get((owner, run_id))
        return run if run is not None and run.accepted and not run.taken else None

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

    async def begin(self, scope: RequestScope, draft: Draft) -> web.StreamResponse:
        """Begin the run of a request, and return the response to the request."""
        assert draft.background is not None
        receipt = scope.receipt
        key = owner_of(receipt.owner, receipt.key), response_id(receipt.request_id)
        request = draft.request.get(CLIENT_REQUEST, draft.request)
        streamed = draft.payload.get("stream") is True
        run = BackgroundRun(draft.background, self._options.background_bytes, self._budget, streamed=streamed)
        if self._shared is not None:
            run.share = partial(self._share, run, self._shared, RunId(*key), scope.receipt)
            run.attachment = scope.attachment = Attachment(partial(self._hand_over, run))
        scope.run, scope.open_stream = run, run.open_stream
        run.task = asyncio.get_running_loop().create_task(self._run(run, request, draft.payload, scope))
        draft.payload, draft.body = {}, b""
        run.task.add_done_callback(lambda _: run.settle())
        self._runs[key] = run
        self._tasks.begin(self._finish(run, key, scope))
        await run.settled()
        failed = _failed(run)
        if failed is not None and (run.streamed or not run.accepted):
            return failed
        if run.streamed:
            return await self.follow(request, run, -1, receipt.request_id)
        ids = {"x-request-id": receipt.request_id, OWN_ID: receipt.request_id}
        state = run.state or await self._stored_state(key)  # it may have ended already
        return web.Response(body=state, content_type="application/json", headers=ids)

    async def _share(
        self, run: BackgroundRun, shared: SharedRuns, name: RunId, receipt: Receipt, state: bytes
    ) -> OwnRun:
        """Let other processes know a run. Raises DragomanError: 429 if the client has too many, or 503."""
        assert run.request is not None
        usage = self._usage.entry(receipt)
        head = SharedBackground.head(receipt, run.request, streamed=run.streamed, usage=usage)
        most, marked = self._options.background, partial(self._marked, run)
        try:
            own = await shared.begin(name, head, marked, state=state, request=run.request.input, most=most)
        except StoreError as error:
            raise unavailable(error) from None
        if own is None:
            raise _no_room(f"{most} responses run in the background; wait for one to end, or cancel it")
        own.log = run.log if run.streamed else None
        receipt.is_held = self._usage.writes
        return own

    async def _hand_over(self, run: BackgroundRun, handover: bytes) -> None:
        """Let other processes go on with a run from here on."""
        if run.shared is not None:
            run.shared.attach = handover
            await self._flush(run)
            if self._stopping:
                self._pass_on(run)

    async def _flush(self, run: BackgroundRun) -> None:
        """Write what is new of a run for other processes. If that fails, it is tried again later."""
        if self._shared is not None and run.shared is not None:
            with suppress(StoreError):
                await self._shared.flush(run.shared)

    def _marked(self, run: BackgroundRun, marks: Marks | None) -> None:
        """End a run that was cancelled elsewhere, or that another process has taken, as its lease was over."""
        if run.taken:
            return
        if marks is None:
            run.leave()
            log.warning("a response in the background ends here: another process has taken it, as its lease was over")
        elif marks.cancelled and not run.ended:
            self._tasks.begin(self.cancel(run))

    def stop(self) -> None:
        """Leave each run whose upstream generates it in the background to another process: this one stops."""
        self._stopping = True
        if self._shared is not None:
            self._shared.stop()
        for run in list(self._runs.values()):
            if run.shared is not None and run.shared.can_pass_on:
                self._pass_on(run)

    def _pass_on(self, run: BackgroundRun) -> None:
        if not (run.ended or run.taken):
            log.info("a response in the background is left to another process: this one stops")
            run.leave()

    async def _run(
        self, run: BackgroundRun, request: web.Request, payload: Json, scope: RequestScope
    ) -> web.StreamResponse:
        """Answer the request. Neither the client's connection nor `payload` is kept meanwhile."""
        headers = CIMultiDict(request.headers)
        for name in _DROPPED:
            headers.popall(name, None)
        assert run.request is not None
        body = await compute(len(run.request.input), partial(_streamed, payload), scope.receipt.owner, request)
        copy = without_connection(request, headers, body)
        del request, payload, body  # twice the request's body, as long as it runs
        return await self._answer(copy, scope)

    async def follow(
        self, request: web.Request, run: BackgroundRun | RunId, after: int, request_id: str
    ) -> web.StreamResponse:
        """Send the events of a run, of this process or of any, after this number."""
        headers = {"x-request-id": request_id, OWN_ID: request_id}
        if isinstance(run, BackgroundRun):
            stream, tail = event_stream(headers), LogTail(run.log, after + 1)
            try:
                await send_log(request, stream, run.follow(tail), tail, self._timeouts(), PING)
            except ConnectionError:  # a client that leaves ends nothing
                abort(request)
            return stream
        assert self.elsewhere is not None
        add_event_stream(headers)
        response = web.StreamResponse(headers=headers)  # its headers do not wait for an event
        async with aclosing(self.elsewhere.follow(run, after, self._timeouts().heartbeat)) as events:
            await response.prepare(request)
            async for data in events:
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
            self._end(run, cancelled_response(json_loads(run.state)))
            await asyncio.wait((run.finished,))

    def _end(self, run: BackgroundRun, state: Json) -> None:
        """End a run with this state, and its exchange as if its client had disconnected."""
        run.end(state)
        run.log.append(terminal_frame(json_loads(run.state), run.log.end))
        run.log.close()
        run.stop()

    # --- runs of other processes -------------------------------------------------------------------------------------

    def _go_on(self, own: OwnRun, lost: LostRun) -> bool:
        """Go on with a run that has lost its process. Return False if that is not possible, or if it was cancelled."""
        head = json_loads(lost.run.head)
        try:
            exchange = AttachedExchange(self._services, lost.attach, lost.name.owner, head["request_id"])
        except ValueError as error:
            log.warning("%s cannot go on here: %s", lost.name.id, error)
            return False
        if lost.run.cancelled:
            self._tasks.begin(exchange.cancel())
            return False
        request = StoredRequest(head["parent"], None, True, lost.request)
        run = BackgroundRun(request, self._options.background_bytes, self._budget, streamed=head["streamed"])
        run.take(own, lost.run.state)
        run.attachment, exchange.scope.run = exchange.attachment, run
        own.on_marks = partial(self._marked, run)
        run.task = asyncio.get_running_loop().create_task(self._attach(run, own, lost, exchange))
        self._tasks.begin(self._finish(run, lost.name, exchange.scope))
        return True

    async def _attach(self, run: BackgroundRun, own: OwnRun, lost: LostRun, exchange: AttachedExchange) -> None:
        """Run the exchange of a run that was taken. A run whose response its upstream does not know has failed."""
        assert self._shared is not None
        first, end, frames = lost.run.first, lost.run.end, list[bytes]()
        if run.streamed:
            try:
                frames = await self._shared.stored_events(lost.name, first, end)
            except StoreError as error:
                log.error("%s cannot go on: %s", lost.name.id, error)
                exchange.book_lost()
                return
            run.log = filled_log(self._options.background_bytes, self._budget, first, frames)
            own.resume(run.log, first)
        self._runs[lost.name] = run

        def diverged() -> None:
            log.error("%s ends: its upstream has sent other events the second time", lost.name.id)
            self._end(run, failed_response(json_loads(run.state), STOPPED))

        def open_stream(timers: StreamTimers, headers: dict[str, str]) -> Downstream:
            inner = run.open_stream(timers, headers)
            return RejoinedStream(inner, run.log, timers, first, frames, run.on_event, diverged)

        is_known = await exchange.run(open_stream)
        if not (run.ended or run.taken) and not (is_known and run.log.end > end):
            self._end(run, failed_response(json_loads(run.state), STOPPED))

    async def close(self) -> None:
        """Cancel all runs, and wait until their last states are stored."""
        for run in self._runs.values():
            if run.task is not None:
                run.task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _finish(self, run: BackgroundRun, key: tuple[str, str], scope: RequestScope) -> None:
        """Store the last state of a run that was not stored, and forget the run after a while."""
        assert run.task is not None
        await asyncio.wait((run.task,))
        receipt = scope.receipt
        scope.end("abandoned", CLIENT_GONE)  # without effect, unless it was cancelled before it was sent
        if run.taken and run.shared is not None and self._shared is not None:
            await self._shared.pass_on(run.shared)
        if receipt.is_held:
            # This renews the lease, or finds that it was over, and another process books the run. The row comes before
            # the end that others see: a run that has not ended there is booked by the process that takes it.
            if not run.taken:
                await self._flush(run)
            await self._usage.book_held(receipt.request_id, elsewhere=run.taken)
        if run.taken:  # its state is the other process's
            run.log.close()
            self._forget(key)
            run.finished.set_result(None)
            return
        failed, stored = _failed(run), True
        is_known = run.accepted and not (failed is not None and run.streamed)  # else the client got the error
        if not is_known:
            run.forget()
            if self._shared is not None and run.shared is not None:
                self._shared.forget(run.shared)
        else:
            assert run.request is not None
            if not run.ended:
                message = STOPPED
                if failed is not None and isinstance(failed.body, bytes):
                    message = json_loads(failed.body)["error"]["message"]
                run.end(failed_response(json_loads(run.state), message))
            stored = await self._stored.keep_state(key[0], receipt.request_id, receipt.created, run.request, run.state)
        run.log.close()
        if is_known and run.shared is not None:
            run.shared.end(b"" if stored else run.state, self._options.background_events)
            await self._flush(run)
        run.release(stored=stored)
        run.finished.set_result(None)
        if (run.streamed and run.log.written) or not stored:
            asyncio.get_running_loop().call_later(self._options.background_events, self._forget, key)
        else:
            self._forget(key)

    def _forget(self, key: tuple[str, str]) -> None:
        if (run := self._runs.pop(key, None)) is not None:
            run.forget()
            if self._shared is not None and run.shared is not None:
                self._shared.forget(run.shared)


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

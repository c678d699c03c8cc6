"""The streams of a gateway that clients may resume (`[server.resume]`).

The exchange of such a request runs in a task of its own, with a log in place of the client's connection, and the
response follows the log. So the exchange has one receipt, one row of usage and one upstream request, however often the
client connects. Requests without the header do not pass through here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

from aiohttp import web
from aiohttp.http import HttpVersion11
from aiohttp.typedefs import Handler

from dragoman import ClientRequestError, Dialect, DragomanError
from dragoman.aio import (
    Downstream,
    EventStream,
    LogBudget,
    LogTail,
    StreamTimers,
    detached_request,
    numbered_ping_of,
    send_log,
)
from dragoman.errors import FailureKind, UpstreamProtocolError
from dragoman.threads import StoreError
from dragoman.wire import json_loads
from dragoman_server.proxy.attached.attached_exchange import AttachedExchange
from dragoman_server.proxy.attached.attachment import Attachment
from dragoman_server.proxy.attached.rejoined_stream import RejoinedStream, filled_log
from dragoman_server.proxy.auth import owner_of
from dragoman_server.proxy.error_response import CLIENT_GONE, client_failure, error_response
from dragoman_server.proxy.reply_headers import event_stream
from dragoman_server.proxy.request_handler import RequestHandler
from dragoman_server.proxy.request_keys import CLIENT_REQUEST
from dragoman_server.proxy.resumable.kept_streams import KeptStreams
from dragoman_server.proxy.resumable.position import LAST_EVENT_ID, RESUME, Position, wanted_position
from dragoman_server.proxy.resumable.stream import ResumableStream, abort
from dragoman_server.receipt import Receipt
from dragoman_server.routing.task_set import TaskSet
from dragoman_server.scope import RequestScope
from dragoman_server.services import Services
from dragoman_server.steps.admit import admit_request

if TYPE_CHECKING:
    from dragoman_server.proxy.resumable.shared_streams import SharedStreams, StreamElsewhere
    from dragoman_server.proxy.runs.interface import LostRun, Marks
    from dragoman_server.proxy.runs.own_run import OwnRun
    from dragoman_server.proxy.runs.shared_runs import SharedRuns

log = logging.getLogger("dragoman")
_LOOK_EVERY = 1.0
"""Seconds between two checks for a client that has left before the response, on servers that do not cancel handlers."""
_LOST = "the stream ends here: the process that ran it has stopped"


class ResumableStreams:
    """The streams of one gateway that can be resumed, those that are open and those that have ended a while ago."""

    def __init__(self, services: Services, handler: RequestHandler) -> None:
        self._services = services
        self._handler = handler
        self._options = services.config.server.resume
        self._streams = KeptStreams(self._options)
        self._tasks = TaskSet()
        self._passing_on = TaskSet()
        self._shared: SharedStreams | None = None
        self._stopping = False

    def __len__(self) -> int:
        return len(self._streams)

    def share(self, runs: SharedRuns) -> None:
        """Let the other processes of a store resume streams of this one, and this one theirs."""
        from dragoman_server.proxy.resumable.shared_streams import SharedStreams

        self._shared = self._streams.shared = SharedStreams(runs, self._options.kept)
        self._shared.go_on = self._go_on

    def endpoint(self, plain: Handler, client: Dialect) -> Handler:
        """Return the endpoint `plain` of a dialect with streams that can be resumed."""
        return partial(self._answer, plain=plain, client=client)

    async def _answer(self, request: web.Request, plain: Handler, client: Dialect) -> web.StreamResponse:
        headers = request.headers
        if RESUME not in headers and LAST_EVENT_ID not in headers:
            return await plain(request)
        try:
            wanted = wanted_position(headers)
        except ClientRequestError as error:
            return error_response(client, error.failure, self._services.new_id())
        if wanted is False:
            return await plain(request)
        if wanted is True:
            return await self._begin(request, client)
        return await self._resume(request, client, wanted)

    def stop(self) -> None:
        """End streams that have no client, and those whose client leaves from now on: no client may come back.

        Those that another process can go on with are left to it.
        """
        self._stopping = True
        for stream in list(self._streams.values()):
            if not (stream.is_read or self._pass_on(stream) or stream.elsewhere):
                stream.stop()

    def pass_on(self) -> None:
        """Leave the streams that clients read to other processes as far as those can go on with them."""
        for stream in list(self._streams.values()):
            self._pass_on(stream)

    async def close(self) -> None:
        """Cancel what runs, and wait for its end."""
        await asyncio.gather(*self._passing_on)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for stream in self._streams.values():
            if stream.leaving is not None:
                stream.leaving.cancel()

    # --- the first request -------------------------------------------------------------------------------------------

    async def _begin(self, request: web.Request, client: Dialect) -> web.StreamResponse:
        """Begin the exchange of a request, and send its stream."""
        scope = RequestScope.begin(self._services, request, client)
        stream = ResumableStream(scope.receipt, self._options.bytes)
        scope.open_stream = partial(self._open, stream, scope.receipt)
        receipt = scope.receipt
        if self._shared is not None:
            stream.attachment = scope.attachment = Attachment()
        copy = detached_request(request)
        copy[CLIENT_REQUEST] = request
        task = stream.task = asyncio.get_running_loop().create_task(self._handler.answer(copy, client, scope))
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, stream))
        del copy, scope  # 1.3 of the 50 kB of an open stream
        stream.attach(request)
        try:
            while not (stream.opened.done() or task.done()):
                await asyncio.wait((stream.opened, task), timeout=_LOOK_EVERY, return_when=asyncio.FIRST_COMPLETED)
                if request.transport is None or request.transport.is_closing():
                    break
            if stream.owner is not None and self._shared is not None:
                await self._share(self._shared, stream, receipt)  # before the client knows the id
        except asyncio.CancelledError:
            self._release(request, stream)
            raise
        if stream.opened.done():
            return await self._send(request, stream, 0)
        if not task.done():
            self._release(request, stream)
            await asyncio.wait((task,))
        return web.Response(status=CLIENT_GONE) if task.cancelled() else task.result()

    async def _share(self, shared: SharedStreams, stream: ResumableStream, receipt: Receipt) -> None:
        """Let other processes resume a stream, and go on with it if its upstream permits that."""
        if await shared.share(stream, self._marked) and receipt.ended == "open":
            # The process that goes on with it books it.
            receipt.is_held = self._services.instruments.usage.writes
            self._services.instruments.usage.hand_over(stream.request_id)

    def _open(
        self, stream: ResumableStream, receipt: Receipt, timers: StreamTimers, headers: dict[str, str]
    ) -> Downstream:
        """Keep a stream that begins, if there is room for it."""
        owner = owner_of(receipt.owner, receipt.key)
        budget = self._streams.budget_for(owner)
        if budget is not None:
            headers[RESUME] = stream.request_id
            stream.owner = owner
            self._streams[owner, stream.request_id] = stream
        return stream.open(timers, event_stream(headers).headers, budget)

    def _ended(self, stream: ResumableStream, task: asyncio.Task[Any]) -> None:
        stream.end()
        self._tasks.discard(task)
        attachment = stream.attachment
        if attachment is not None:
            usage = self._services.instruments.usage
            self._tasks.begin(usage.book_held(stream.request_id, elsewhere=attachment.is_taken))
        if stream.owner is None:
            return
        if self._shared is not None:
            self._shared.end(stream)
        key = stream.owner, stream.request_id
        if key in self._streams:
            # The key and not the stream: one that made room for another must not stay in memory until then.
            asyncio.get_running_loop().call_later(self._options.kept, self._streams.forget, key)
        else:
            stream.log.clear()

    # --- a client that connects again --------------------------------------------------------------------------------

    async def _resume(self, request: web.Request, client: Dialect, position: Position) -> web.StreamResponse:
        """Send the rest of a stream."""
        own_id = self._services.new_id()
        try:
            caller = await admit_request(self._services, request)
            await self._services.count(caller.key, client)
            await self._services.bodies.read(request)  # that of the first request, sent again, or nothing
            stream = await self._find(owner_of(caller.owner, caller.key), client, position)
        except DragomanError as error:
            return error_response(client, error.failure, own_id)
        log.info("%s is resumed at its event %d", position.request_id, position.number)
        if not isinstance(stream, ResumableStream):
            assert self._shared is not None
            heartbeat = self._services.config.server.timeouts.heartbeat
            events = self._shared.follow(stream, position.number, heartbeat, own_id)
            return await self._write(request, stream.headers, client, events)
        if self._shared is not None:
            await self._shared.replace_reader(stream)
        stream.attach(request)
        return await self._send(request, stream, position.number)

    async def _find(self, owner: str, client: Dialect, position: Position) -> ResumableStream | StreamElsewhere:
        """Return a stream of any process. Raises DragomanError for an unknown one, or an event that is not kept."""
        stream: ResumableStream | StreamElsewhere | None = self._streams.get((owner, position.request_id))
        if stream is None and self._shared is not None:
            stream = await self._shared.find(owner, *position)
        if stream is None or stream.client is not client:
            raise DragomanError(client_failure(FailureKind.NOT_FOUND, _unknown(position.request_id), 404))
        if not isinstance(stream, ResumableStream) and stream.is_lost and position.number >= stream.run.end:
            raise DragomanError(client_failure(FailureKind.NOT_FOUND, _LOST, 404))
        events = stream.log if isinstance(stream, ResumableStream) else stream.run
        if not events.has(position.number):
            text = _not_kept(events.first, events.end, position)
            raise DragomanError(client_failure(FailureKind.INVALID_REQUEST, text, 400))
        return stream

    async def _send(self, request: web.Request, stream: ResumableStream, number: int) -> web.StreamResponse:
        """Send the events of a stream from this one on to the client that is attached."""
        timeouts, tail = self._services.config.server.timeouts, LogTail(stream.log, number)
        response, ping = EventStream(headers=stream.headers), numbered_ping_of(stream.client)
        if request.version < HttpVersion11:
            response.force_close()
        try:
            await send_log(request, response, stream.follow(request, tail), tail, timeouts, ping)
        except ConnectionError:
            abort(request)
        finally:
            self._release(request, stream)
        return response

    async def _write(
        self, request: web.Request, headers: Mapping[str, str], client: Dialect, events: AsyncGenerator[bytes, None]
    ) -> web.StreamResponse:
        """Send events, and a heartbeat in place of b"". The connection is closed if they end early."""
        response = web.StreamResponse(headers=headers)
        if request.version < HttpVersion11:
            response.force_close()
        seconds, ping = self._services.config.server.timeouts.write, numbered_ping_of(client)
        try:
            async with aclosing(events):
                await response.prepare(request)
                async for data in events:
                    async with asyncio.timeout(seconds):
                        await response.write(data or ping)
            await response.write_eof()
        except (TimeoutError, ConnectionError):
            abort(request)
        return response

    def _release(self, request: web.Request, stream: ResumableStream) -> None:
        """Let a stream go on without its client for a while, if it can be resumed.

        A client that leaves before the response does not know the id by which it could resume it.
        """
        if not stream.detach(request):
            return
        if stream.log.closed:
            if stream.owner is not None and (stream.owner, stream.request_id) not in self._streams:
                stream.log.clear()
        elif not stream.elsewhere:
            self._leave(stream)

    def _marked(self, stream: ResumableStream, marks: Marks | None) -> None:
        """Take the marks of other processes; None: another process has taken the stream, as its lease was over."""
        if marks is not None:
            self._read_elsewhere(stream, marks.reader)
            return
        own, stream.shared = stream.shared, None
        if own is not None and own.is_attached:
            self._end_here(stream)

    def _end_here(self, stream: ResumableStream) -> None:
        """End a stream that another process goes on with. Its clients resume it there."""
        if stream.attachment is not None and stream.owner is not None:
            stream.attachment.is_taken = True
            self._streams.forget((stream.owner, stream.request_id))
            stream.abort_reader()
            stream.stop()

    def _pass_on(self, stream: ResumableStream) -> bool:
        """Leave a stream to another process. Return False if none can go on with it."""
        own = stream.shared
        if own is None or self._shared is None or stream.log.closed or not own.can_pass_on:
            return False
        log.info("%s is left to another process: this one stops", stream.request_id)
        stream.shared = None
        self._end_here(stream)
        self._passing_on.begin(self._shared.pass_on(own))
        return True

    # --- streams of other processes ----------------------------------------------------------------------------------

    def _go_on(self, own: OwnRun, lost: LostRun) -> bool:
        """Go on with a stream that has lost its process. Return False if that is not possible."""
        owner, request_id = lost.name
        try:
            exchange = AttachedExchange(self._services, lost.attach, owner, request_id)
        except ValueError as error:
            log.warning("%s cannot go on here: %s", request_id, error)
            return False
        if self._stopping or (budget := self._streams.budget_for(owner)) is None:
            exchange.book_lost()
            self._tasks.begin(exchange.cancel())
            return False
        stream = ResumableStream(exchange.receipt, self._options.bytes)
        stream.owner, stream.shared, stream.attachment = owner, own, exchange.attachment
        own.on_marks = partial(self._marked, stream)
        task = stream.task = asyncio.get_running_loop().create_task(self._attach(stream, lost, exchange, budget))
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, stream))
        return True

    async def _attach(
        self, stream: ResumableStream, lost: LostRun, exchange: AttachedExchange, budget: LogBudget
    ) -> None:
        """Run the exchange of a stream that was taken."""
        assert self._shared is not None
        assert stream.shared is not None
        first, end, own = lost.run.first, lost.run.end, stream.shared
        try:
            frames = await self._shared.events(lost)
        except StoreError as error:
            log.error("%s cannot go on: %s", stream.request_id, error)
            exchange.book_lost()
            self._shared.lose(own)
            return

        def diverged() -> None:
            log.error("%s ends: its upstream has sent other events the second time", stream.request_id)
            stream.fail(UpstreamProtocolError("the upstream has sent other events the second time"))

        def open_stream(timers: StreamTimers, _: dict[str, str]) -> Downstream:
            self._streams[lost.name] = stream
            if not stream.elsewhere:
                self._leave(stream)  # until its client has come back
            inner = stream.reopen(timers)
            return RejoinedStream(inner, stream.log, timers, first, frames, _ignore, diverged)

        log_of = filled_log(self._options.bytes, budget, first, frames)
        stream.go_on(log_of, budget, json_loads(lost.run.head)["headers"])
        own.resume(log_of, first)
        is_known = await exchange.run(open_stream)
        if not is_known or log_of.end == end:
            self._shared.lose(own)

    # --- readers in other processes ----------------------------------------------------------------------------------

    def _read_elsewhere(self, stream: ResumableStream, mark: str) -> None:
        """Record which client of another process reads a stream; none if the mark is empty."""
        if stream.read_elsewhere(mark) and not stream.log.closed:
            self._leave(stream)

    def _leave(self, stream: ResumableStream) -> None:
        """End a stream that has no client, later if it can be resumed."""
        if stream.owner is None or self._stopping:
            if not self._pass_on(stream):
                stream.stop()
        else:
            later = asyncio.get_running_loop().call_later
            stream.leaving = later(self._options.seconds, self._give_up, stream)

    def _give_up(self, stream: ResumableStream) -> None:
        log.info("%s ends: its client did not come back within %g s", stream.request_id, self._options.seconds)
        if stream.owner is not None:
            self._streams.forget((stream.owner, stream.request_id))
        stream.stop()


def _ignore(_: bytes) -> None:
    """Drop an event that is stored."""


def _unknown(request_id: str) -> str:
    return f"there is no stream of {request_id[:100]!a} to resume: it ended some time ago, or was begun by another key"


def _not_kept(first: int, end: int, position: Position) -> str:
    kept = f"events {first} to {end - 1} are kept" if first < end else "no event is kept any longer"
    return f"the stream cannot be resumed at its event {position.number}: {kept}"

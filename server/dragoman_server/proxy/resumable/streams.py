"""The streams of a gateway that clients may resume (`[server.resume]`).

The exchange of such a request runs in a task of its own, with a log in place of the client's connection, and the
response follows the log. So the exchange has one receipt, one row of usage and one upstream request, however often the
client connects. Requests without the header do not pass through here.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from weakref import WeakValueDictionary

from aiohttp import web
from aiohttp.http import HttpVersion11
from aiohttp.typedefs import Handler

from dragoman import ClientRequestError, Dialect, DragomanError
from dragoman.aio import Downstream, LogBudget, StreamTimers, detached_request, numbered_ping_of
from dragoman.errors import FailureKind
from dragoman_server.proxy.auth import owner_of
from dragoman_server.proxy.error_response import CLIENT_GONE, client_failure, error_response
from dragoman_server.proxy.reply_headers import event_stream
from dragoman_server.proxy.request_handler import RequestHandler
from dragoman_server.proxy.request_keys import CLIENT_REQUEST
from dragoman_server.proxy.resumable.position import LAST_EVENT_ID, RESUME, Position, wanted_position
from dragoman_server.proxy.resumable.stream import ResumableStream, abort
from dragoman_server.receipt import Receipt
from dragoman_server.scope import RequestScope
from dragoman_server.services import Services
from dragoman_server.steps.admit import admit_request

log = logging.getLogger("dragoman")
_LOOK_EVERY = 1.0
"""Seconds between two checks for a client that has left before the response, on servers that do not cancel handlers."""
_SHARE = 4
"""The part of all bytes that one client's streams may keep: a fourth."""
_ROOM = 64 * 1024
"""Bytes that can be kept if a further stream is."""


class ResumableStreams:
    """The streams of one gateway that can be resumed, those that are open and those that have ended a while ago."""

    def __init__(self, services: Services, handler: RequestHandler) -> None:
        self._services = services
        self._handler = handler
        self._options = services.config.server.resume
        self._streams: dict[tuple[str, str], ResumableStream] = {}
        """By owner and request id, oldest first."""
        self._budget = LogBudget(self._options.total_bytes)
        self._shares: WeakValueDictionary[str, LogBudget] = WeakValueDictionary()
        """By owner."""
        self._tasks: set[asyncio.Task[web.StreamResponse]] = set()
        self._stopping = False

    def __len__(self) -> int:
        return len(self._streams)

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
        """End streams that have no client, and those whose client leaves from now on: no client may come back."""
        self._stopping = True
        for stream in list(self._streams.values()):
            if not stream.is_read:
                stream.stop()

    async def close(self) -> None:
        """Cancel what runs, and wait for its end."""
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
        except asyncio.CancelledError:
            self._release(request, stream)
            raise
        if stream.opened.done():
            return await self._send(request, stream, 0)
        if not task.done():
            self._release(request, stream)
            await asyncio.wait((task,))
        return web.Response(status=CLIENT_GONE) if task.cancelled() else task.result()

    def _open(
        self, stream: ResumableStream, receipt: Receipt, timers: StreamTimers, headers: dict[str, str]
    ) -> Downstream:
        """Keep a stream that begins, if there is room for it."""
        owner = owner_of(receipt.owner, receipt.key)
        budget = self._make_room(owner)
        if budget is not None:
            headers[RESUME] = stream.request_id
            stream.owner = owner
            self._streams[owner, stream.request_id] = stream
        return stream.open(timers, event_stream(headers).headers, budget)

    def _make_room(self, owner: str) -> LogBudget | None:
        """Return the budget of a further stream, or None if it cannot be kept. Those that ended first are forgotten."""
        budget = self._shares.get(owner)
        if budget is None:  # without keys, all clients have the same owner
            limit = self._budget.limit // _SHARE if owner else self._budget.limit
            budget = self._shares[owner] = LogBudget(limit, self._budget)
        if not budget.has_room(min(_ROOM, self._options.bytes)):
            return None
        ended = [key for key, stream in self._streams.items() if stream.log.closed and not stream.is_read]
        own = sum(key[0] == owner for key in self._streams)
        if own >= self._options.streams_per_client:
            ended = [key for key in ended if key[0] == owner]
        elif len(self._streams) < self._options.streams:
            return budget
        if not ended:
            return None
        self._forget(ended[0])
        return budget

    def _ended(self, stream: ResumableStream, task: asyncio.Task[web.StreamResponse]) -> None:
        stream.end()
        self._tasks.discard(task)
        if stream.owner is None:
            return
        key = stream.owner, stream.request_id
        if key in self._streams:
            # The key and not the stream: one that made room for another must not stay in memory until then.
            asyncio.get_running_loop().call_later(self._options.kept, self._forget, key)
        else:
            stream.log.clear()

    def _forget(self, key: tuple[str, str]) -> None:
        """Let a stream be resumed no longer. A client that reads it reads on."""
        stream = self._streams.pop(key, None)
        if stream is not None and stream.log.closed and not stream.is_read:
            stream.log.clear()

    # --- a client that connects again --------------------------------------------------------------------------------

    async def _resume(self, request: web.Request, client: Dialect, position: Position) -> web.StreamResponse:
        """Send the rest of a stream."""
        own_id = self._services.new_id()
        try:
            caller = await admit_request(self._services, request)
            await self._services.count(caller.key, client)
            await self._services.bodies.read(request)  # that of the first request, sent again, or nothing
            stream = self._streams.get((owner_of(caller.owner, caller.key), position.request_id))
            if stream is None or stream.client is not client:
                raise DragomanError(client_failure(FailureKind.NOT_FOUND, _unknown(position.request_id), 404))
            if not stream.log.has(position.number):
                raise DragomanError(client_failure(FailureKind.INVALID_REQUEST, _not_kept(stream, position), 400))
        except DragomanError as error:
            return error_response(client, error.failure, own_id)
        log.info("%s is resumed at its event %d", stream.request_id, position.number)
        stream.attach(request)
        return await self._send(request, stream, position.number)

    async def _send(self, request: web.Request, stream: ResumableStream, number: int) -> web.StreamResponse:
        """Send the events of a stream from this one on to the client that is attached."""
        response = web.StreamResponse(headers=stream.headers)
        if request.version < HttpVersion11:
            response.force_close()
        timeouts = self._services.config.server.timeouts
        ping = numbered_ping_of(stream.client)
        try:
            await response.prepare(request)
            async for data in stream.follow(request, number, timeouts.heartbeat):
                async with asyncio.timeout(timeouts.write):
                    await response.write(data or ping)
            await response.write_eof()
        except (TimeoutError, ConnectionError):
            abort(request)
        finally:
            self._release(request, stream)
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
        elif stream.owner is None or self._stopping:
            stream.stop()
        else:
            later = asyncio.get_running_loop().call_later
            stream.leaving = later(self._options.seconds, self._give_up, stream)

    def _give_up(self, stream: ResumableStream) -> None:
        log.info("%s ends: its client did not come back within %g s", stream.request_id, self._options.seconds)
        if stream.owner is not None:
            self._forget((stream.owner, stream.request_id))
        stream.stop()


def _unknown(request_id: str) -> str:
    return f"there is no stream of {request_id[:100]!a} to resume: it ended some time ago, or was begun by another key"


def _not_kept(stream: ResumableStream, position: Position) -> str:
    first, end = stream.log.first, stream.log.end
    kept = f"events {first} to {end - 1} are kept" if first < end else "no event is kept any longer"
    return f"the stream cannot be resumed at its event {position.number}: {kept}"

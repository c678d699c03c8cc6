"""Client connections that a streamed reply can take over from aiohttp, as Go's `http.Hijacker` does.

aiohttp parses the requests of a `HijackableConnection` and calls their handlers. But what it keeps until a reply has
ended is two fifths of an open stream's memory: its parser, the request with its headers, the response, two tasks. So a
reply that lasts hijacks the connection: for aiohttp the client has disconnected, while the reply is written to the same
transport. When the reply has ended, a new aiohttp handler gets the connection.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from functools import partial
from typing import Any, Generic, Protocol, TypeVar, cast

from aiohttp import web

from dragoman.aio.downstream.aiohttp_internals import handler_options, is_paused, is_trusted, release_transport
from dragoman.aio.downstream.connection_limits import ConnectionLimits, OpenConnections
from dragoman.aio.downstream.request_handler import RequestHandler
from dragoman.aio.few_per_turn import CANCELS, ENDS, READS, FewPerTurn
from dragoman.aio.trampoline import drive
from dragoman.aio.unsent import SLOW_WRITES, unsent

T = TypeVar("T")

HELD_MAX = 1 << 16
"""Bytes of further requests that are held during a hijacked reply. Above that, reading from the client is paused."""
_NO_LINGER = struct.pack("HH" if sys.platform == "win32" else "ii", 1, 0)


def reset(transport: asyncio.Transport) -> None:
    """Close a connection at once with an RST, which also frees what the kernel still has to send.

    `transport.abort()` frees only the transport's own buffer. The kernel keeps megabytes for a client that stays
    connected and does not read.
    """
    connection = transport.get_extra_info("socket")
    if connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError):  # it is closed already
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    transport.abort()


class Hijacker(Protocol):
    """The writer of a hijacked reply."""

    def connection_lost(self) -> None:
        """Handle the client's disconnection."""
        ...


class DetachableTask(Generic[T]):
    """Awaits a coroutine that can be detached and continued in a task of its own.

    Awaiting it is like awaiting the coroutine. Once detached, a cancellation of the awaiting handler does not cancel
    the coroutine: in the handler, `await` returns the early result.
    """

    __slots__ = ("_connection", "_coroutine", "_early_result", "detached")

    def __init__(self, coroutine: Coroutine[Any, Any, T], connection: HijackableConnection) -> None:
        self._coroutine = coroutine
        self._connection = connection
        self._early_result: T | None = None
        self.detached = False

    def __await__(self) -> Generator[Any, Any, T]:
        try:
            result: T = yield from drive(partial(self._coroutine.send, None), self._coroutine.send, self._throw)
            return result
        finally:
            if not self.detached:
                self._connection.task = None

    def _throw(self, error: BaseException) -> Any:
        if not self.detached:
            try:
                return self._coroutine.throw(error)
            finally:
                del error  # see `trampoline`
        if isinstance(error, asyncio.CancelledError):
            # An error would keep the handler's frames, with the request, until the garbage collector finds their cycle.
            result, self._early_result = self._early_result, None
            raise StopIteration(result)
        raise error

    def detach(self, early_result: T) -> None:
        """Return `early_result` to the awaiting handler when it is cancelled."""
        self.detached, self._early_result = True, early_result

    def resume(self) -> asyncio.Task[T]:
        """Continue the detached coroutine in a task. It must not wait for anything at this point."""
        return asyncio.get_running_loop().create_task(self._coroutine)


class HijackServer:
    """The protocol factory of a server whose connections can be hijacked; aiohttp's, if that is not to be trusted.

    `hijacked` are the hijacked connections; `open` counts all connections. `server` is aiohttp's, whose
    `handler_cancellation` must be on.
    """

    def __init__(self, server: web.Server, limits: ConnectionLimits | None = None) -> None:
        assert server.handler_cancellation, "hijacking ends the handler by cancelling it"
        self.server = server
        self.open = OpenConnections(limits or ConnectionLimits())
        self.hijacked: set[HijackableConnection] = set()
        self.closing = False
        self._none_hijacked = asyncio.Event()
        self.cancels = FewPerTurn(CANCELS)
        """The requests to cancel, as their clients have left."""
        self.ends = FewPerTurn(ENDS, self.cancels)
        """The ends of hijacked replies."""
        self.reads = FewPerTurn(READS)
        """The connections to begin, and the reads to parse."""

    def __call__(self) -> asyncio.Protocol:
        return HijackableConnection(self) if is_trusted() else self.server()

    def handler(self, *, reused: bool) -> RequestHandler:
        """Return aiohttp's handler for a connection. `reused`: the connection has served requests before."""
        server = self.server
        return RequestHandler(self.open, reused, server, loop=asyncio.get_running_loop(), **handler_options(server))

    def has_room(self) -> bool:
        """Return whether a connection may begin, or a request be parsed, in this turn of the event loop."""
        return self.open.count <= READS or self.reads.has_room()

    @property
    def connections(self) -> list[web.RequestHandler | HijackableConnection]:
        """All connections."""
        return [*self.server.connections, *self.hijacked]

    def close_kept(self) -> None:
        """Close the connections that are kept for a further request, of which nothing has arrived."""
        for connection in [*self.server.connections]:
            if isinstance(connection, RequestHandler) and connection.is_kept:
                connection.force_close()

    async def close(self, seconds: float) -> None:
        """Abort the hijacked connections and wait up to `seconds` until their replies have ended."""
        self.open.close()
        for connection in self.hijacked:
            connection.abort()
        if self.hijacked:
            self._none_hijacked.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._none_hijacked.wait()

    def reply_ended(self, connection: HijackableConnection) -> None:
        """Remove a connection from `hijacked`."""
        self.hijacked.discard(connection)
        if not self.hijacked:
            self._none_hijacked.set()


class HijackableConnection(asyncio.Protocol):
    """A client connection. `task` runs the current request, if its handler has called `run_detachable`.

    While it is hijacked, `writing_paused` is True if the client does not read; then wait for `drain`.
    """

    __slots__ = (
        "_drained",
        "_held",
        "_hijacker",
        "_http",
        "_keep_alive",
        "_rest",
        "_server",
        "_transport",
        "_waits",
        "_write_timer",
        "task",
        "writing_paused",
    )

    def __init__(self, server: HijackServer) -> None:
        self._server = server
        self._http: RequestHandler | None = None
        """aiohttp's handler; None before the connection begins, and while it is hijacked."""
        self._transport: asyncio.Transport | None = None
        self._hijacker: Hijacker | None = None
        self._drained: asyncio.Future[None] | None = None
        self._held = b""
        """Bytes received while the connection is hijacked, or waits for its turn."""
        self._waits = False
        """True while a new connection, or a read of it, waits for its turn. Meanwhile nothing more is read."""
        self._keep_alive = False
        self._rest: asyncio.Task[Any] | None = None
        """The end of a hijacked reply."""
        self._write_timer: asyncio.TimerHandle | None = None
        """Runs while the client does not read what aiohttp has written."""
        self.task: DetachableTask[Any] | None = None
        self.writing_paused = False

    def __repr__(self) -> str:
        state = "hijacked" if self._http is None else "aiohttp"
        state = "closed" if self._transport is None else "waiting" if self._waits else state
        requests = "" if self._http is None else f" requests={self._http.framing.complete}"
        paused = " writing paused" if self.writing_paused else ""
        return f"<HijackableConnection {state}{requests} held={len(self._held)}{paused}>"

    @staticmethod
    def of(request: web.BaseRequest) -> HijackableConnection | None:
        """Return the connection of a request, or None if it cannot be hijacked."""
        transport = request.transport
        protocol = transport.get_protocol() if transport is not None else None
        return protocol if type(protocol) is HijackableConnection else None

    # --- a hijacked reply --------------------------------------------------------------------------------------------

    def run_detachable(self, coroutine: Coroutine[Any, Any, T]) -> DetachableTask[T]:
        """Return an awaitable for the handler that runs `coroutine`, which may hijack the connection."""
        task = self.task = DetachableTask(coroutine, self)
        return task

    def hijack(self, hijacker: Hijacker, keep_alive: bool, early_result: object) -> Callable[[], None] | None:
        """Detach the current reply from its handler, to which `early_result` is returned. It is the response that the
        handler returns to aiohttp, which does not send it. `keep_alive`: further requests are served after the reply.

        Return a callback that continues the reply in its own task, or None if the connection cannot be hijacked: if
        aiohttp may have bytes of a further request, they would be lost with its parser. Call it when the reply's
        coroutine has nothing to wait for. What the coroutine waits for now is cancelled with the handler; it must not
        take that for its own cancellation.
        """
        http, task = self._http, self.task
        if http is None or task is None or self._server.closing:
            return None
        if http.framing.partial or http.framing.complete != http.handled:
            return None
        task.detach(early_result)
        self._http, self._hijacker, self._keep_alive = None, hijacker, keep_alive
        self._server.hijacked.add(self)
        release_transport(http)
        return self._resume

    def _resume(self) -> None:
        self._server.ends.call(self._resume_task)

    def _resume_task(self) -> None:
        assert self.task is not None
        self._rest = self.task.resume()
        self._rest.add_done_callback(self._reply_ended)

    def _reply_ended(self, rest: asyncio.Task[Any]) -> None:
        """Give the connection to a new handler of aiohttp, or close it."""
        self._server.reply_ended(self)
        self._rest = self.task = self._hijacker = None
        transport = self._transport
        if transport is None or transport.is_closing():
            return  # the client has disconnected
        if rest.cancelled() or rest.exception() is not None or not self._keep_alive or self._server.closing:
            transport.close()
            return
        http = self._http = self._server.handler(reused=True)
        http.connection_made(transport)
        if self.writing_paused:
            self.writing_paused = False
            http.pause_writing()
            self._start_write_timer()
        held, self._held = self._held, b""
        if len(held) > HELD_MAX:
            transport.resume_reading()  # first, as the handler may pause reading again when it gets what was held
        if held:
            self.data_received(held)

    async def drain(self) -> None:
        """Wait until the client of a hijacked connection reads. Raises ConnectionResetError if it disconnects."""
        while self.writing_paused:
            self._drained = asyncio.get_running_loop().create_future()
            try:
                await self._drained
            finally:
                self._drained = None

    def abort(self) -> None:
        """Close the connection at once, with a reset if the client does not read."""
        if self._transport is None:
            return
        if self.writing_paused:
            reset(self._transport)
        else:
            self._transport.abort()

    # --- callbacks of the event loop ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin a connection, or refuse it if there are too many."""
        self._transport = cast("asyncio.Transport", transport)
        error = self._server.open.add(self, transport)
        if error is not None:
            self._server.open.refuse(self, error, self._transport)
        elif self._server.has_room():
            self._begin()
        else:
            self._wait_for_turn(self._begin_waiting)

    def data_received(self, data: bytes) -> None:
        """Pass received bytes to aiohttp's handler; hold them until their turn, or until the hijacked reply has
        ended."""
        http = self._http
        if http is not None and not self._waits:
            # The rest of a request is cheap to read.
            if self.task is not None or http.framing.partial or self._server.has_room():
                http.data_received(data)
                return
            self._held += data
            self._wait_for_turn(self._read_held)
            return
        self._held += data
        if self._transport is not None and (self._waits or len(self._held) > HELD_MAX):
            self._transport.pause_reading()

    def _wait_for_turn(self, callback: Callable[[], None]) -> None:
        """Call `callback` in a turn with few others, and read nothing until then."""
        self._waits = True
        if self._transport is not None:
            self._transport.pause_reading()
        self._server.reads.call(callback)

    def _begin(self) -> None:
        """Pass the connection to a handler of aiohttp."""
        if self._transport is not None and not self._transport.is_closing():
            self._http = self._server.handler(reused=False)
            self._http.connection_made(self._transport)

    def _begin_waiting(self) -> None:
        if self._server.closing and self._transport is not None:
            self._transport.close()
        self._begin()
        self._read_held()

    def _read_held(self) -> None:
        """Read on, and pass what is held to aiohttp's handler, if it still has the connection."""
        self._waits = False
        transport, http = self._transport, self._http
        if transport is None or transport.is_closing():
            return  # the client has disconnected
        if http is None:
            if len(self._held) <= HELD_MAX:
                transport.resume_reading()
            return
        if not is_paused(http):
            transport.resume_reading()  # first, as the handler may pause reading again when it gets what was held
        held, self._held = self._held, b""
        if held:
            http.data_received(held)

    def eof_received(self) -> bool | None:
        """Close the connection when the client has closed its side, as aiohttp does."""
        return None

    def pause_writing(self) -> None:
        """Handle a full write buffer: the client does not read."""
        if self._http is not None:
            self._http.pause_writing()
            self._start_write_timer()
        else:
            self.writing_paused = True

    def resume_writing(self) -> None:
        """Handle a write buffer that has room again."""
        self._stop_write_timer()
        if self._http is not None:
            self._http.resume_writing()
            return
        self.writing_paused = False
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Handle the end of the connection."""
        self._transport = None
        self._stop_write_timer()
        self._server.open.remove(self)
        self._server.cancels.call(partial(self._lose_client, exc))

    def _lose_client(self, exc: BaseException | None) -> None:
        if self._http is not None:
            self._http.connection_lost(exc)
        elif self._drained is not None and not self._drained.done():
            self._drained.set_exception(ConnectionResetError("the client hung up"))
        elif self._hijacker is not None:
            self._hijacker.connection_lost()

    # --- the write timeout of aiohttp's responses --------------------------------------------------------------------

    def _start_write_timer(self, times: int = 1) -> None:
        """Give the client `ConnectionLimits.write` seconds, for the time of this number, to take some unsent bytes."""
        if self._transport is not None:
            loop, before = asyncio.get_running_loop(), unsent(self._transport)
            self._write_timer = loop.call_later(self._server.open.limits.write, self._check_write, before, times)

    def _check_write(self, before: int, times: int) -> None:
        """Reset the connection if the client has taken nothing since there were `before` bytes unsent."""
        if self._transport is None:
            return
        if unsent(self._transport) < before and times < SLOW_WRITES:
            self._start_write_timer(times + 1)
        else:
            reset(self._transport)

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

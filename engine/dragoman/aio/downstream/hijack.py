"""A client's connection that outlives aiohttp's part in it.

aiohttp reads the requests of a `Line` and calls their handlers, as ever. But what it keeps until a reply is over is two
fifths of an open stream's memory: its parser, the request with its headers, the response, two tasks. A reply that lasts
is therefore `take`n from it: for aiohttp the client has hung up, while the reply goes on to the same transport; and
when it is over, aiohttp gets the connection back as if it were new.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import sys
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from functools import partial
from typing import Any, Generic, Protocol, TypeVar, cast

from aiohttp import web
from aiohttp.log import server_logger

from dragoman.aio.downstream.connection_limits import ConnectionLimits, OpenConnections
from dragoman.aio.downstream.request_framing import RequestFraming
from dragoman.aio.downstream.request_handler import RequestHandler
from dragoman.aio.trampoline import drive

T = TypeVar("T")
Log = logging.Logger | logging.LoggerAdapter[logging.Logger]

HELD_MAX = 1 << 16
"""Bytes of further requests that are held while a taken reply goes on; then the client is not read."""
_NO_LINGER = struct.pack("HH" if sys.platform == "win32" else "ii", 1, 0)


def reset(transport: asyncio.Transport) -> None:
    """Close a connection at once with an RST, which frees what the kernel still has to send.

    `transport.abort()` alone frees only the transport's own buffer. The kernel keeps megabytes for a client that stays
    connected and does not read.
    """
    connection = transport.get_extra_info("socket")
    if connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError):  # it is closed already
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    transport.abort()


class Carrier(Protocol):
    """Who writes a taken reply."""

    def lost(self) -> None:
        """The client hung up."""
        ...


class DetachableTask(Generic[T]):
    """`await` it for what `await work` would be, unless it is `left`: then the cancellation of whoever awaits it is not
    the work's, which goes on in a task of its own from `resume`."""

    __slots__ = ("_line", "_work", "detached")

    def __init__(self, work: Coroutine[Any, Any, T], line: HijackableConnection) -> None:
        self._work = work
        self._line = line
        self.detached = False

    def __await__(self) -> Generator[Any, Any, T]:
        try:
            result: T = yield from drive(partial(self._work.send, None), self._work.send, self._thrown)
            return result
        finally:
            if not self.detached:
                self._line.reply = None

    def _thrown(self, error: BaseException) -> Any:
        if self.detached:
            raise error
        return self._work.throw(error)

    def resume(self) -> asyncio.Task[T]:
        """What is left of the work, which must have nothing to wait for at its place."""
        return asyncio.get_running_loop().create_task(self._work)


class HijackServer:
    """All lines of a server: what makes one for each connection. `taken` are those that a reply has for itself; all
    are counted in `open`.

    The server's `handler_cancellation` must be on.
    """

    def __init__(self, server: web.Server, bounds: ConnectionLimits | None = None) -> None:
        assert server.handler_cancellation, "a reply that is taken ends its handler by cancelling it"
        self.server = server
        self.open = OpenConnections(bounds or ConnectionLimits())
        self.hijacked: set[HijackableConnection] = set()
        self.closing = False
        self._free = asyncio.Event()

    def __call__(self) -> HijackableConnection:
        return HijackableConnection(self)

    def handler(self, *, kept: bool) -> RequestHandler:
        """aiohttp's part in a connection, which has served requests before if it is `kept`."""
        server = self.server
        return RequestHandler(self.open, kept, server, loop=asyncio.get_running_loop(), **server._kwargs)

    @property
    def connections(self) -> list[web.RequestHandler | HijackableConnection]:
        """All connections."""
        return [*self.server.connections, *self.hijacked]

    async def close(self, seconds: float) -> None:
        """Drop those that are still taken, and let the replies come to their end."""
        self.open.close()
        for line in self.hijacked:
            line.abort()
        if self.hijacked:
            self._free.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._free.wait()

    def free(self, line: HijackableConnection) -> None:
        """Its reply is over."""
        self.hijacked.discard(line)
        if not self.hijacked:
            self._free.set()


class HijackRunner(web.AppRunner):
    """An application's runner whose connections are lines. `log` is aiohttp's for what happens to them, `bounds` limits
    them.

    Stopping, it lets the application end its replies before its connections go deaf: a client that uses a kept one
    meanwhile is answered, if only with a refusal. aiohttp's own would not read from it, and close it in the end.
    """

    __slots__ = ("_bounds", "_shut", "connections")

    def __init__(
        self,
        app: web.Application,
        *,
        shutdown_timeout: float,
        log: Log = server_logger,
        bounds: ConnectionLimits | None = None,
    ) -> None:
        self._bounds = bounds or ConnectionLimits()
        super().__init__(
            app,
            # A client that hangs up cancels its handler, and with it the upstream, at once.
            handler_cancellation=True,
            access_log=None,
            shutdown_timeout=shutdown_timeout,
            logger=log,
            keepalive_timeout=self._bounds.keep_alive,
        )
        self.connections: HijackServer | None = None
        self._shut = False

    @property
    def server(self) -> web.Server | None:
        """What the sites listen with: to them it is a server's one method."""
        return cast("web.Server | None", self.connections)

    async def setup(self) -> None:
        """Make the server."""
        await super().setup()
        server = super().server
        assert server is not None
        self.connections = HijackServer(server, self._bounds)

    async def shutdown(self) -> None:
        """Have the application stop, once: `cleanup` does before aiohttp would."""
        if not self._shut:
            self._shut = True
            await super().shutdown()

    async def cleanup(self) -> None:
        """Stop. Replies that the application did not end by then are cut."""
        lines, self.connections = self.connections, None
        if lines is not None:
            for site in self.sites:
                await site.stop()
            await self.shutdown()
            lines.closing = True
        await super().cleanup()
        if lines is not None:
            await lines.close(1.0)


class HijackableConnection(asyncio.Protocol):
    """One connection. `reply` is what is attended on it now.

    `writing_paused` says of a taken line that its client does not read; wait for `drain` then.
    """

    __slots__ = (
        "_carrier",
        "_drained",
        "_framing",
        "_held",
        "_http",
        "_keep",
        "_lines",
        "_rest",
        "_stalled",
        "_transport",
        "reply",
        "writing_paused",
    )

    def __init__(self, lines: HijackServer) -> None:
        self._lines = lines
        self._http: RequestHandler | None = lines.handler(kept=False)
        self._transport: asyncio.Transport | None = None
        self._framing: RequestFraming | None = RequestFraming()
        """None while a reply is taken: aiohttp then gets no bytes."""
        self._carrier: Carrier | None = None
        self._drained: asyncio.Future[None] | None = None
        self._held = b""
        self._keep = False
        self._rest: asyncio.Task[Any] | None = None
        self._stalled: asyncio.TimerHandle | None = None
        """Runs while the client does not take what aiohttp has written."""
        self.reply: DetachableTask[Any] | None = None
        self.writing_paused = False

    @staticmethod
    def of(request: web.BaseRequest) -> HijackableConnection | None:
        """The line that a request came on, if it is one."""
        transport = request.transport
        protocol = transport.get_protocol() if transport is not None else None
        return protocol if type(protocol) is HijackableConnection else None

    # --- a reply -----------------------------------------------------------------------------------------------------

    def run_detachable(self, work: Coroutine[Any, Any, T]) -> DetachableTask[T]:
        """`work`, to be awaited by the handler, so that it may be taken from it."""
        reply = self.reply = DetachableTask(work, self)
        return reply

    def hijack(self, carrier: Carrier, keep: bool) -> Callable[[], None] | None:
        """Take the attended reply from its handler. `keep`: the connection serves further requests when it is over.

        Gives what to call when the work has nothing to wait for any more; None if it has to stay where it is. What it
        waits for now is cancelled with the handler, and it must not take that for its own end.

        It stays if aiohttp may have bytes of a further request: they would be lost with its parser.
        """
        http, reply, framing = self._http, self.reply, self._framing
        if http is None or framing is None or reply is None or self._lines.closing:
            return None
        if framing.partial or framing.whole != http.handled:
            return None
        reply.detached = True
        self._http, self._framing, self._carrier, self._keep = None, None, carrier, keep
        self._lines.hijacked.add(self)
        http.transport = None  # aiohttp would close it
        http.connection_lost(None)
        return self._resume

    def _resume(self) -> None:
        assert self.reply is not None
        self._rest = self.reply.resume()
        self._rest.add_done_callback(self._over)

    def _over(self, rest: asyncio.Task[Any]) -> None:
        """The reply is over: aiohttp's turn."""
        self._lines.free(self)
        self._rest = self.reply = self._carrier = None
        transport = self._transport
        if transport is None or transport.is_closing():
            return  # the client has hung up
        if rest.cancelled() or rest.exception() is not None or not self._keep or self._lines.closing:
            transport.close()
            return
        self._framing = RequestFraming()
        http = self._http = self._lines.handler(kept=True)
        http.connection_made(transport)
        if self.writing_paused:
            self.writing_paused = False
            http.pause_writing()
            self._time_write()
        held, self._held = self._held, b""
        if len(held) > HELD_MAX:
            transport.resume_reading()  # before aiohttp has what was held, as it may pause it for reasons of its own
        if held:
            self.data_received(held)

    async def drain(self) -> None:
        """Until the client of a taken line reads. Raises ConnectionResetError if it hangs up."""
        while self.writing_paused:
            self._drained = asyncio.get_running_loop().create_future()
            try:
                await self._drained
            finally:
                self._drained = None

    def abort(self) -> None:
        """Drop the client. If it does not read, the connection is reset."""
        if self._transport is None:
            return
        if self.writing_paused:
            reset(self._transport)
        else:
            self._transport.abort()

    # --- the transport's side ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client."""
        self._transport = cast("asyncio.Transport", transport)
        excess = self._lines.open.add(self, transport)
        if excess is not None:
            self._lines.open.refuse(self, excess, self._transport)
        elif self._http is not None:
            self._http.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """aiohttp's, or for later."""
        if self._http is not None and self._framing is not None:
            self._framing.feed(data)
            self._http.data_received(data)
            return
        self._held += data
        if len(self._held) > HELD_MAX and self._transport is not None:
            self._transport.pause_reading()

    def eof_received(self) -> bool | None:
        """The client will send nothing more: as aiohttp does, this ends the connection."""
        return None

    def pause_writing(self) -> None:
        """The client does not read."""
        if self._http is not None:
            self._http.pause_writing()
            self._time_write()
        else:
            self.writing_paused = True

    def _time_write(self) -> None:
        """Give the client `Bounds.write` seconds to take some of what waits to be sent."""
        if self._transport is not None:
            loop, unsent = asyncio.get_running_loop(), self._transport.get_write_buffer_size()
            self._stalled = loop.call_later(self._lines.open.bounds.write, self._check_write, unsent)

    def _check_write(self, unsent: int) -> None:
        """Reset the connection if the client has taken nothing since there were `unsent` bytes."""
        if self._transport is None:
            return
        if self._transport.get_write_buffer_size() < unsent:
            self._time_write()
        else:
            reset(self._transport)

    def _stop_write_timer(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def resume_writing(self) -> None:
        """It does again."""
        self._stop_write_timer()
        if self._http is not None:
            self._http.resume_writing()
            return
        self.writing_paused = False
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def connection_lost(self, exc: BaseException | None) -> None:
        """The client hung up, or was dropped."""
        self._transport = None
        self._stop_write_timer()
        self._lines.open.remove(self)
        if self._http is not None:
            self._http.connection_lost(exc)
            return
        if self._drained is not None and not self._drained.done():
            self._drained.set_exception(ConnectionResetError("the client hung up"))
        elif self._carrier is not None:
            self._carrier.lost()

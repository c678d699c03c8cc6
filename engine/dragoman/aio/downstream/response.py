"""The client's side of a streamed reply: its response, and the way of the body to its socket.

aiohttp's writer takes five calls and a join for each chunk. Where the response is a plain chunked one, a batch is
framed here and given to the transport in one call. Everything about the connection stays aiohttp's: keep-alive,
signals, middlewares, the access log's size. The first batch leaves with the headers, the last one with the body's end.
A stream that lasts, on a `Line`, lets go of all of aiohttp and goes on with the transport alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from typing import Any, Protocol

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import HttpVersion11, StreamWriter

from dragoman.aio.downstream.hijack import HijackableConnection, reset
from dragoman.aio.stream_timers import ClientGone, StreamTimers
from dragoman.aio.trampoline import InlineTask
from dragoman.stages.base import Stage


class EventStream(web.StreamResponse):
    """A response whose headers leave with the first batch of its body."""

    _send_headers_immediately = False

    def prepare(self, request: web.BaseRequest) -> Coroutine[Any, Any, AbstractStreamWriter | None]:
        """As ever. A client of HTTP/1.0 knows a stream's end by the connection's, which aiohttp would keep if asked."""
        if request.version < HttpVersion11:
            self.force_close()
        return super().prepare(request)


class _Flow(Protocol):
    """Says whether the client reads."""

    @property
    def writing_paused(self) -> bool: ...


class DownstreamResponse:
    """Who gets the stream: `open` it, then `carry` the body there. `beat`, `cut` and `settle` are for the watch.

    `ping` is a heartbeat's frame. `pump` is what steps `carry`, if something does.
    """

    __slots__ = (
        "_beating",
        "_begun",
        "_flow",
        "_line",
        "_ping",
        "_request",
        "_response",
        "_transport",
        "_watch",
        "_writer",
        "inline_task",
    )

    def __init__(self, request: web.Request, response: web.StreamResponse, watch: StreamTimers, ping: bytes) -> None:
        self._request: web.Request | None = request
        self._response: web.StreamResponse | None = response
        self._watch = watch
        self._ping = ping
        self._writer: StreamWriter | None = None
        self._transport: asyncio.Transport | None = None
        self._flow: _Flow | None = None
        self._line: HijackableConnection | None = None
        self._begun = False
        self._beating: asyncio.Task[None] | None = None
        self.inline_task: InlineTask[None] | None = None

    @property
    def opened(self) -> bool:
        """Are the headers made."""
        return self._response is None or self._response.prepared

    @property
    def direct(self) -> bool:
        """Does the body go straight to the transport: `carry` may then be pumped, as it waits for nothing but the
        batches and the client's reading."""
        return self._transport is not None

    @property
    def response(self) -> web.StreamResponse | None:
        """aiohttp's part in it, while there is one."""
        return self._response

    async def open(self) -> bool:
        """Prepare the headers. Gives `direct`."""
        request, response = self._request, self._response
        assert request is not None
        assert response is not None
        writer = await response.prepare(request)
        if (
            type(response) is EventStream
            and type(writer) is StreamWriter
            and writer.chunked
            and writer.length is None
            and not response.compression
            and "content-encoding" not in response.headers
        ):
            self._writer, self._transport, self._flow = writer, writer.transport, writer.protocol
        self._watch.attach_sink(self)
        # Cancels the timer for the time between two requests, more than half a kilobyte; aiohttp arms it anew then.
        request.protocol.keep_alive(True)
        return self.direct

    def flush(self) -> None:
        """Send the headers, if no batch has taken them along."""
        if self._request is None:
            return
        try:
            self._request.writer.send_headers()
        except ConnectionError:
            return  # the client is gone; whoever writes next finds out by itself

    async def send_body(self, batches: AsyncGenerator[bytes, None], last: Stage[object, object]) -> None:
        """The whole body, one write per batch; `last` is the stage that is done when there is no further one.

        Raises ConnectionError when the client is gone, and what `batches` raises.
        """
        watch, transport = self._watch, self._transport
        if transport is None:
            async for data in batches:
                watch.writing()
                await self.write(data)
                watch.written()
            watch.writing()
            await self.end(b"")
            return
        rest = b""
        size = 0
        try:
            async for data in batches:
                if last.done:
                    rest = data
                    break
                if not self._begun:
                    self._begun = True
                    await self.write(data)
                elif transport.is_closing():
                    raise ConnectionResetError("the client hung up")
                else:
                    framed = b"%x\r\n%b\r\n" % (len(data), data)
                    transport.write(framed)
                    size += len(framed)
                    del framed
                del data  # an open stream keeps none of its batches while it waits
                watch.client_active = True
                if transport.get_write_buffer_size() and self._flow is not None and self._flow.writing_paused:
                    watch.writing()
                    await self._drained()
                    watch.written()
        finally:
            if self._writer is not None:
                self._writer.output_size += size
        watch.writing()
        await self.end(rest)

    async def write(self, data: bytes) -> None:
        """A piece of the body. Raises ConnectionError when the client is gone."""
        if self._response is not None:
            await self._response.write(data)
        else:
            await self._send(_chunk(data))

    async def end(self, rest: bytes) -> None:
        """The last piece of the body. Raises ConnectionError when the client is gone."""
        if self._response is not None:
            await self._response.write_eof(rest)
        else:
            await self._send((_chunk(rest) if rest else b"") + b"0\r\n\r\n")

    async def _send(self, framed: bytes) -> None:
        """To the client of a stream that was taken from aiohttp."""
        transport = self._transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client hung up")
        transport.write(framed)
        await self._drained()

    async def _drained(self) -> None:
        if self._writer is not None:
            await self._writer.drain()
        elif self._line is not None:
            await self._line.drain()

    def send_heartbeat(self) -> None:
        """Send a heartbeat, unless the last bytes have not left yet: this client does not read."""
        transport = self._transport
        if transport is None or self._flow is None:
            if self._beating is None:
                self._beating = asyncio.get_running_loop().create_task(self._beat_once())
                self._beating.add_done_callback(self._beaten)
        elif not self._flow.writing_paused and not transport.is_closing():
            framed = _chunk(self._ping)
            transport.write(framed)
            if self._writer is not None:
                self._writer.output_size += len(framed)

    async def _beat_once(self) -> None:
        try:
            await self.write(self._ping)
        except (ConnectionError, RuntimeError):
            return  # the client is gone; the main loop finds out by itself

    def _beaten(self, _: asyncio.Task[None]) -> None:
        self._beating = None

    def detach(self) -> None:
        """Take the reply from aiohttp, if it is pumped and its connection a line."""
        pump, request, response = self.inline_task, self._request, self._response
        if pump is None or not pump.running or request is None or response is None or not self._begun:
            return
        flow, transport = self._flow, self._transport
        if transport is None or transport.is_closing() or flow is None or flow.writing_paused:
            return
        self.inline_task = None  # it is tried once: what keeps a line from it does not pass
        line = HijackableConnection.of(request)
        resume = line.hijack(self, bool(response.keep_alive)) if line is not None else None
        if resume is not None:
            pump.detach(resume)
            self._line = self._flow = line
            self._request = self._response = self._writer = None

    def lost(self) -> None:
        """The client hung up, and there is no handler that this would cancel."""
        self._watch.expire(ClientGone())

    def abort(self) -> None:
        """Drop the client, which does not read."""
        transport = self._transport if self._request is None else self._request.transport
        if transport is not None:
            reset(transport)

    def close(self) -> None:
        """No more heartbeats."""
        if self._beating is not None:
            self._beating.cancel()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)

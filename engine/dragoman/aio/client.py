"""The client's side of a streamed reply: its response, and the way of the body to its socket.

aiohttp's writer takes five calls and a join for each chunk. Where the response is a plain chunked one, a batch is
framed here and given to the transport in one call. Everything about the connection stays aiohttp's: keep-alive,
signals, middlewares, the access log's size. The first batch leaves with the headers, the last one with the body's end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from aiohttp import web
from aiohttp.http import StreamWriter

from ..stages import Stage
from .watch import Watch


class EventStream(web.StreamResponse):
    """A response whose headers leave with the first batch of its body.

    `forgetful`: it lets its headers go once they are written, 2 kB of each open stream. For servers of which it is
    known that nobody asks for them later, as a middleware or an access log may.
    """

    _send_headers_immediately = False
    forgetful = False


class Client:
    """Who gets the stream: `open` it, then `carry` the body there. `beat` and `cut` are for the watch.

    `ping` is a heartbeat's frame.
    """

    __slots__ = ("_beating", "_ping", "_request", "_response", "_transport", "_watch", "_writer")

    def __init__(self, request: web.Request, response: web.StreamResponse, watch: Watch, ping: bytes) -> None:
        self._request = request
        self._response = response
        self._watch = watch
        self._ping = ping
        self._writer: StreamWriter | None = None
        self._transport: asyncio.Transport | None = None
        self._beating: asyncio.Task[None] | None = None

    async def open(self) -> bool:
        """Prepare the headers. Gives whether the body goes straight to the transport: `carry` may then be pumped, as it
        waits for nothing but the batches and the client's reading."""
        response = self._response
        writer = await response.prepare(self._request)
        if (
            type(response) is EventStream
            and type(writer) is StreamWriter
            and writer.chunked
            and writer.length is None
            and not response.compression
            and "content-encoding" not in response.headers
        ):
            self._writer, self._transport = writer, writer.transport
            if response.forgetful:
                response.headers.clear()
        self._watch.serve(self)
        # Cancels the timer for the time between two requests, more than half a kilobyte; aiohttp arms it anew then.
        self._request.protocol.keep_alive(True)
        return self._transport is not None

    def flush(self) -> None:
        """Send the headers, if no batch has taken them along."""
        writer = self._request.writer
        try:
            writer.send_headers()
        except ConnectionError:
            return  # the client is gone; whoever writes next finds out by itself

    async def carry(self, batches: AsyncGenerator[bytes, None], last: Stage[object, object]) -> None:
        """The whole body, one write per batch; `last` is the stage that is done when there is no further one.

        Raises ConnectionError when the client is gone, and what `batches` raises.
        """
        response, watch = self._response, self._watch
        writer, transport = self._writer, self._transport
        if writer is None or transport is None:
            async for data in batches:
                watch.writing()
                await response.write(data)
                watch.written()
            watch.writing()
            await response.write_eof()
            return
        protocol = writer.protocol
        rest = b""
        first = True
        size = 0
        try:
            async for data in batches:
                if last.done:
                    rest = data
                    break
                if first:
                    first = False
                    await response.write(data)
                elif transport.is_closing():
                    raise ConnectionResetError("the client hung up")
                else:
                    framed = b"%x\r\n%b\r\n" % (len(data), data)
                    transport.write(framed)
                    size += len(framed)
                    del framed
                del data  # an open stream keeps none of its batches while it waits
                watch.told = True
                if transport.get_write_buffer_size() and protocol.writing_paused:
                    watch.writing()
                    await writer.drain()
                    watch.written()
        finally:
            writer.output_size += size
        watch.writing()
        await response.write_eof(rest)

    def beat(self) -> None:
        """Send a heartbeat, unless the last bytes have not left yet: this client does not read."""
        writer, transport = self._writer, self._transport
        if writer is None or transport is None:
            if self._beating is None:
                self._beating = asyncio.get_running_loop().create_task(self._beat_once())
                self._beating.add_done_callback(self._beaten)
        elif not writer.protocol.writing_paused and not transport.is_closing():
            framed = b"%x\r\n%b\r\n" % (len(self._ping), self._ping)
            transport.write(framed)
            writer.output_size += len(framed)

    async def _beat_once(self) -> None:
        try:
            await self._response.write(self._ping)
        except (ConnectionError, RuntimeError):
            return  # the client is gone; the main loop finds out by itself

    def _beaten(self, _: asyncio.Task[None]) -> None:
        self._beating = None

    def cut(self) -> None:
        """Drop the client."""
        transport = self._request.transport
        if transport is not None:
            transport.abort()

    def close(self) -> None:
        """No more heartbeats."""
        if self._beating is not None:
            self._beating.cancel()

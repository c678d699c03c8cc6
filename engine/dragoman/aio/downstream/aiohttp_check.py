"""Checks that the installed aiohttp works as `aiohttp_internals` assumes, by three requests on a connection in memory.

They are served twice: by aiohttp's public interface, and as the gateway does, with a reply that takes the connection
over. The bytes must be the same. It takes some milliseconds, once per process.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from typing import cast

import aiohttp
from aiohttp import web, web_protocol

from dragoman.aio.downstream import aiohttp_internals as internals
from dragoman.aio.downstream.connection_limits import ConnectionLimits
from dragoman.aio.downstream.hijack import HijackableConnection, HijackServer
from dragoman.aio.downstream.memory_transport import MemoryTransport
from dragoman.aio.downstream.response import EventStream
from dragoman.aio.downstream.sliced_response import SlicedResponse

_REQUESTS = tuple(
    f"POST /{name} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{{}}".encode()
    for name in ("whole", "stream", "whole")
)
_PIECES = (b"data: 1\n\n", b"data: 2\n\n")
_WHOLE = b'{"whole": true}'
_LAST = b"0\r\n\r\n"
_DATE = re.compile(rb"\r\nDate: [^\r]*")
_SECONDS = 5.0
"""Time within which all replies must have come. They only take computing."""
Log = logging.Logger | logging.LoggerAdapter[logging.Logger]


_checked = False


async def check_once(log: Log) -> None:
    """Check aiohttp, once per process. What does not work as assumed is logged, and `internals.distrust` is called."""
    global _checked
    if _checked:
        return
    _checked = True
    if (fault := await find_fault()) is not None:
        internals.distrust()
        log.warning(
            "aiohttp %s does not work as expected (%s): replies are sent by its public interface, which takes more"
            " processor time and memory; install a version that this release of Dragoman was tested with",
            aiohttp.__version__,
            fault,
        )


async def find_fault() -> str | None:
    """Return why aiohttp's private parts cannot be used, or None if they work as assumed."""
    if not hasattr(web_protocol, "_ErrInfo"):
        return "there is no web_protocol._ErrInfo"
    try:
        expected = await _replies(_PlainReplies())
        replies = await _replies(_DirectReplies())
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None if replies == expected else "replies have other bytes"


class _PlainReplies:
    """The replies by aiohttp's public interface."""

    def connections(self, server: web.Server) -> Callable[[], asyncio.BaseProtocol]:
        return server

    async def whole(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        return web.Response(body=_WHOLE, content_type="application/json")

    async def stream(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for piece in _PIECES:
            await response.write(piece)
        await response.write_eof()
        return response


class _DirectReplies:
    """The replies as the gateway sends them. It is the `Hijacker` of the stream."""

    def connections(self, server: web.Server) -> Callable[[], asyncio.BaseProtocol]:
        return HijackServer(server, ConnectionLimits())

    async def whole(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        return SlicedResponse(body=_WHOLE, content_type="application/json")

    async def stream(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        connection = HijackableConnection.of(request)
        if connection is None:
            raise RuntimeError("a connection cannot be taken over")
        return await connection.run_detachable(self._stream(request, connection))

    async def _stream(self, request: web.Request, connection: HijackableConnection) -> web.StreamResponse:
        response = EventStream(headers={"content-type": "text/event-stream"})
        writer = internals.plain_chunked_writer(response, await response.prepare(request))
        transport = request.transport
        if writer is None or transport is None:
            raise RuntimeError("a stream cannot be written past aiohttp")
        transport.write(internals.take_head(writer) + _chunk(_PIECES[0]))
        internals.add_sent_bytes(writer, len(_PIECES[0]))
        internals.cancel_keep_alive_timer(request)
        resume = connection.hijack(self, bool(response.keep_alive), response)
        if resume is None:
            raise RuntimeError("a stream cannot take its connection over")
        asyncio.get_running_loop().call_later(0, resume)
        await asyncio.sleep(0)  # until then: the handler is cancelled now
        transport.write(_chunk(_PIECES[1]) + _LAST)
        return response

    def connection_lost(self) -> None:
        """Return at once: the check ends the connection after the last reply."""


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def _replies(replies: _PlainReplies | _DirectReplies) -> list[bytes]:
    """Return the replies to the requests, one after the other, without their dates."""
    app = web.Application()
    app.router.add_post("/whole", replies.whole)
    app.router.add_post("/stream", replies.stream)
    # The options of `HijackRunner`.
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None, auto_decompress=False)
    await runner.setup()
    try:
        protocol = cast("asyncio.Protocol", replies.connections(cast("web.Server", runner.server))())
        transport = MemoryTransport(protocol, {}, lambda: None)
        protocol.connection_made(transport)
        found = []
        try:
            async with asyncio.timeout(_SECONDS):
                for request in _REQUESTS:
                    transport.deliver(request)
                    found.append(_DATE.sub(b"", await _reply(transport)))
        finally:
            transport.stop()
        return found
    finally:
        await runner.cleanup()


async def _reply(transport: MemoryTransport) -> bytes:
    """Return one reply of the server. Raises ConnectionError if the server closes the connection."""
    reply = b""
    while not reply.endswith((_WHOLE, _LAST)):
        piece = await transport.read()
        if not piece:
            raise ConnectionError("the server has closed the connection")
        reply += piece
    return reply

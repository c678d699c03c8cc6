"""Runs the requests of an ASGI server on the connections of a `HijackServer`, in memory.

Each request has a connection of its own, so that all that a client's connection does is the same: limits, timeouts,
flow control, streams that are detached from aiohttp, and the end when the client disconnects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from dragoman.aio.downstream.asgi_http import SERVER_HEADERS, BadScope, HttpExchange, Message, Receive, Scope, Send
from dragoman.aio.downstream.asgi_websocket import WebSocketExchange
from dragoman.aio.downstream.hijack import HijackServer
from dragoman.aio.downstream.memory_transport import MemoryTransport


class _Exchange(Protocol):
    """A request, or a WebSocket: see `HttpExchange`."""

    head: bytes
    ended: bool

    @property
    def answer(self) -> bytes: ...

    @property
    def started(self) -> bool: ...

    def receive(self, message: Message) -> bytes: ...

    def send(self, data: bytes) -> list[Message]: ...

    def finish(self) -> list[Message]: ...

    def close(self) -> None: ...


class AsgiServer:
    """An ASGI application of the scopes `http` and `websocket`, which is served by `connections`.

    The request returns when its handler has ended. If the response is not complete then, as after a write timeout, the
    ASGI server closes the client's connection.
    """

    def __init__(self, connections: HijackServer) -> None:
        self._connections = connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or WebSocket. Raises ValueError for a scope of another type."""
        if scope["type"] not in ("http", "websocket"):
            raise ValueError(f"the scope {scope['type']!r} is not supported")
        is_websocket = scope["type"] == "websocket"
        if is_websocket:
            await receive()  # websocket.connect
        exchange: _Exchange | None = None
        interruption = asyncio.timeout(None)
        try:
            exchange = WebSocketExchange(scope) if is_websocket else HttpExchange(scope)
            async with interruption:
                await self._serve(exchange, _info(scope), receive, send, lambda: interruption.reschedule(0))
        except BadScope as error:
            if exchange is None or not exchange.started:
                await self._refuse(scope, error, send)
        except TimeoutError:
            if not interruption.expired():
                raise

    async def _serve(
        self, exchange: _Exchange, info: dict[str, Any], receive: Receive, send: Send, interrupt: Callable[[], None]
    ) -> None:
        connection = self._connections()
        transport = MemoryTransport(connection, info, interrupt)
        # It runs before the request's handler begins, which so finds a body that has arrived already.
        receiving = asyncio.create_task(_receive(exchange, transport, receive))
        try:
            connection.connection_made(transport)
            transport.deliver(exchange.head)
            while piece := await transport.read():
                for message in exchange.send(piece):
                    await send(message)
                if exchange.answer:
                    transport.deliver(exchange.answer)
                if exchange.ended:
                    receiving.cancel()  # the server would report a disconnection now
                    if transport.get_protocol() is not connection:
                        return  # a rejected request lingers, for more bytes of the client
            if receiving.done() and not receiving.cancelled():
                receiving.result()  # raises the error of `receive`
            else:
                for message in exchange.finish():
                    await send(message)
        except OSError:
            return  # the client has disconnected
        finally:
            receiving.cancel()
            exchange.close()
            transport.stop()
            await asyncio.wait((receiving,))

    async def _refuse(self, scope: Scope, error: BadScope, send: Send) -> None:
        """Send the response to a request that is not served."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "the handshake cannot be read"})
            return
        start = f"{scope['method']} {scope['path']} HTTP/1.1".encode(errors="replace")
        plain = self._connections.open.limits.refuse(error, start)
        pairs = [(name.encode(), value.encode()) for name, value in plain.headers.items()]
        headers = [pair for pair in pairs if pair[0] not in SERVER_HEADERS]
        await send({"type": "http.response.start", "status": plain.status, "headers": headers})
        await send({"type": "http.response.body", "body": plain.body})


async def _receive(exchange: _Exchange, transport: MemoryTransport, receive: Receive) -> None:
    """Deliver what the client sends, until it disconnects."""
    try:
        while True:
            data = exchange.receive(await receive())
            if data:
                transport.deliver(data)
                await transport.readable()
    except ConnectionError as error:
        transport.lose(error)
    except Exception:
        transport.lose()
        raise


def _info(scope: Scope) -> dict[str, Any]:
    """Return the addresses of client and server, as a socket's transport has them, a mark of TLS, and `root_path`."""
    client, server = scope.get("client"), scope.get("server")
    info: dict[str, Any] = {"sslcontext": True if scope.get("scheme") in ("https", "wss") else None}
    info["root_path"] = scope.get("root_path", "")
    if client:
        info["peername"] = tuple(client)
    if server:
        info["sockname"] = server[0] if server[1] is None else tuple(server)
    return info

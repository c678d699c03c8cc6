"""ASGI applications in tests: under uvicorn on a port of its own, or called by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn

from support.waiting import until

Message = dict[str, Any]


@asynccontextmanager
async def asgi_server(app: Any, **options: Any) -> AsyncIterator[str]:
    """An ASGI application under uvicorn on a free port, its lifespan included: the URL."""
    options = {"ws": "websockets-sansio", "log_level": "warning", "timeout_graceful_shutdown": 1, **options}
    server = uvicorn.Server(uvicorn.Config(app, port=0, **options))
    serving = asyncio.create_task(server.serve())
    try:
        await until(lambda: server.started or serving.done())
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving


def http_scope(path: str = "/", method: str = "GET", **fields: Any) -> dict[str, Any]:
    """The scope of an HTTP request over HTTP/1.1."""
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"x")],
        "client": ("203.0.113.7", 50000),
        "server": ("127.0.0.1", 80),
        **fields,
    }


def websocket_scope(path: str = "/", **fields: Any) -> dict[str, Any]:
    """The scope of a WebSocket."""
    return {**http_scope(path), "type": "websocket", "scheme": "ws", "subprotocols": [], **fields}


class Call:
    """One call of an application: `sent` are the messages that it sent. A client that does not read clears `room`."""

    def __init__(self, app: Any, scope: dict[str, Any], messages: Iterable[Message] = ()) -> None:
        self.sent: list[Message] = []
        self.incoming: asyncio.Queue[Message] = asyncio.Queue()
        self.asked = 0
        """The number of times that the application has waited for a message."""
        self.room = asyncio.Event()
        self.room.set()
        for message in messages:
            self.incoming.put_nowait(message)
        self.task = asyncio.create_task(app(scope, self._receive, self._send))

    async def _receive(self) -> Message:
        self.asked += 1
        return await self.incoming.get()

    async def _send(self, message: Message) -> None:
        await self.room.wait()
        self.sent.append(message)

    def put(self, kind: str, **fields: Any) -> None:
        """Send a message of a client."""
        self.incoming.put_nowait({"type": kind, **fields})

    async def started(self) -> None:
        """Wait until the application has sent something."""
        await until(lambda: self.sent)

    async def done(self, seconds: float = 10.0) -> list[Message]:
        """Wait until the application has returned: what it sent."""
        await asyncio.wait_for(self.task, seconds)
        return self.sent

    @property
    def status(self) -> int:
        """The status of the response."""
        return int(self.sent[0]["status"])

    @property
    def body(self) -> bytes:
        """The body so far."""
        return b"".join(message.get("body", b"") for message in self.sent[1:])

    @property
    def headers(self) -> dict[bytes, bytes]:
        """The headers of the response."""
        return dict(self.sent[0]["headers"])


def body(data: bytes, *, more: bool = False) -> Message:
    """A part of a request's body."""
    return {"type": "http.request", "body": data, "more_body": more}

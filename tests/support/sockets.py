"""A scripted HTTP server on a raw socket: it answers each request with the bytes, pauses and faults of its script.

    async with ScriptedServer([Send(sse_head()), Send(b"data: 1\\n\\n"), Stall()]) as server:
        ...  # http://127.0.0.1:{server.port}

Requests are recorded as bytes. The n-th request gets the n-th script, further ones the last.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, cast


@dataclass(frozen=True, slots=True)
class Send:
    """Write these bytes at once."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Drip:
    """Write bytes in pieces of `size`, each one flushed, with a pause between."""

    data: bytes
    size: int = 1
    pause: float = 0.0


@dataclass(frozen=True, slots=True)
class Pause:
    """Be silent for a while (or until the client goes)."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Stall:
    """Be silent until the client goes (or the server is closed)."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Be silent until the test sets the event."""

    event: asyncio.Event


@dataclass(frozen=True, slots=True)
class Abort:
    """Cut the connection with an RST: what was not read yet is lost."""


@dataclass(frozen=True, slots=True)
class HalfClose:
    """Send FIN, go on reading."""


@dataclass(frozen=True, slots=True)
class Close:
    """Close cleanly."""


Step = Send | Drip | Pause | Stall | Wait | Abort | HalfClose | Close


def head(status: int = 200, headers: Iterable[tuple[str, str]] = (), *, reason: str = "X") -> bytes:
    """A status line and headers, exactly these."""
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"


def sse_head(*, chunked: bool = True, extra: Iterable[tuple[str, str]] = ()) -> bytes:
    """The head of an event stream: chunked, or ended by the connection."""
    framing = ("transfer-encoding", "chunked") if chunked else ("connection", "close")
    return head(200, [("content-type", "text/event-stream"), framing, *extra])


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"


def answer(
    status: int, body: bytes, *, content_type: str = "application/json", headers: Iterable[tuple[str, str]] = ()
) -> list[Step]:
    """The script of a whole reply with a content length."""
    fields = [("content-type", content_type), ("content-length", str(len(body))), *headers]
    return [Send(head(status, fields) + body)]


def stream(pieces: Iterable[bytes], *, pause: float = 0.0, end: bool = True) -> list[Step]:
    """The script of a chunked event stream, one chunk per piece; without `end` the last chunk is missing."""
    steps: list[Step] = [Send(sse_head())]
    for piece in pieces:
        if pause:
            steps.append(Pause(pause))
        if piece:
            steps.append(Send(chunk(piece)))
    return [*steps, Send(LAST_CHUNK)] if end else steps


@dataclass(slots=True)
class Received:
    """One request as it came."""

    head: bytes
    body: bytes
    connection: int

    @property
    def headers(self) -> dict[str, str]:
        """Headers by lower-case name."""
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        pairs = (line.partition(":") for line in lines if line)
        return {name.strip().lower(): value.strip() for name, _, value in pairs}

    @property
    def target(self) -> str:
        """The request target, as written."""
        return self.head.split(b" ", 2)[1].decode("latin-1")


@dataclass(slots=True)
class _Inbox:
    """The bytes of a connection that were not taken as a request yet."""

    data: bytearray = field(default_factory=bytearray)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)


class _Connection(asyncio.Protocol):
    def __init__(self, server: ScriptedServer) -> None:
        self.server = server
        self.inbox = _Inbox()
        self.writable = asyncio.Event()
        self.writable.set()
        self.number = 0
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self.number = self.server.connections
        self.server.connections += 1
        self.server.open.add(self)
        self.server.tasks.append(asyncio.get_running_loop().create_task(self.serve()))

    def data_received(self, data: bytes) -> None:
        self.inbox.data += data
        self.inbox.changed.set()

    def eof_received(self) -> bool:
        self.inbox.gone.set()
        self.inbox.changed.set()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.inbox.gone.set()
        self.inbox.changed.set()
        self.writable.set()
        self.server.open.discard(self)
        self.server.hangups += 1
        self.server.hung_up.set()

    def pause_writing(self) -> None:
        self.writable.clear()
        self.server.stopped_reading.set()

    def resume_writing(self) -> None:
        self.writable.set()

    async def serve(self) -> None:
        assert self.transport is not None
        while (received := await self.request()) is not None:
            self.server.requests.append(received)
            self.server.arrived.set()
            scripts = self.server.scripts
            script = scripts[min(len(self.server.requests), len(scripts)) - 1]
            for step in script:
                if self.inbox.gone.is_set() or self.transport.is_closing():
                    break
                await self.play(step)
        if not self.transport.is_closing():
            self.transport.close()

    async def request(self) -> Received | None:
        data = self.inbox.data
        while True:
            end = data.find(b"\r\n\r\n")
            if end >= 0:
                received = Received(bytes(data[: end + 2]), b"", self.number)
                headers = received.headers
                if "chunked" in headers.get("transfer-encoding", ""):
                    taken = _chunked_body(data, end + 4)
                else:
                    size = int(headers.get("content-length", "0"))
                    whole = len(data) >= end + 4 + size
                    taken = (bytes(data[end + 4 : end + 4 + size]), end + 4 + size) if whole else None
                if taken is not None:
                    received.body, used = taken
                    del data[:used]
                    return received
            if self.inbox.gone.is_set():
                return None
            self.inbox.changed.clear()
            await self.inbox.changed.wait()

    async def play(self, step: Step) -> None:
        assert self.transport is not None
        match step:
            case Send(data=data):
                await self.write(data)
            case Drip(data=data, size=size, pause=pause):
                for at in range(0, len(data), size):
                    if self.inbox.gone.is_set():
                        return
                    await self.write(data[at : at + size])
                    await asyncio.sleep(pause)
            case Pause(seconds=seconds):
                await _either(self.inbox.gone, seconds)
            case Stall():
                await self.inbox.gone.wait()
            case Wait(event=event):
                await event.wait()
            case Abort():
                raw = self.transport.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.transport.abort()
            case HalfClose():
                self.transport.write_eof()
            case Close():
                self.transport.close()

    async def write(self, data: bytes) -> None:
        assert self.transport is not None
        await self.writable.wait()
        if not self.transport.is_closing():
            self.transport.write(data)


async def _either(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return


def _chunked_body(data: bytearray, at: int) -> tuple[bytes, int] | None:
    """The decoded body and the offset behind it, or None if it is not whole yet. No trailers."""
    body = b""
    while True:
        end = data.find(b"\r\n", at)
        if end < 0:
            return None
        size = int(bytes(data[at:end]).partition(b";")[0], 16)
        at = end + 2
        if len(data) < at + size + 2:
            return None
        if size == 0:
            return body, at + 2
        body += data[at : at + size]
        at += size + 2


class ScriptedServer:
    """An async context manager. `requests` and `connections` count what came, `hangups` the connections that ended.

    `arrived`, `hung_up` and `stopped_reading` (the client no longer drains what is sent) are events to wait on.
    """

    def __init__(self, *scripts: Sequence[Step]) -> None:
        assert scripts
        self.scripts = scripts
        self.port = 0
        self.requests: list[Received] = []
        self.connections = 0
        self.hangups = 0
        self.arrived = asyncio.Event()
        self.hung_up = asyncio.Event()
        self.stopped_reading = asyncio.Event()
        self.open: set[_Connection] = set()
        self.tasks: list[asyncio.Task[None]] = []
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`"""
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for connection in list(self.open):
            if connection.transport is not None:
                connection.transport.abort()
        for task in self.tasks:
            task.cancel()
        failures = [x for x in await asyncio.gather(*self.tasks, return_exceptions=True) if isinstance(x, Exception)]
        await self._server.wait_closed()
        if failures and error is None:
            raise failures[0]

"""A transport as its tests use it: calls, whole bodies, and both ways in which a body is read.

The gateway's pump steps a reply from the transport's own callbacks (`on_arrival`); everybody else awaits batches. A
`Client` made with `stepped` reads bodies in the first way, so that every test of bodies is one of both.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from dragoman.aio.stream_timers import StreamTimers
from dragoman.aio.timeouts import PoolOptions, Timeouts
from dragoman.aio.trampoline import InlineTask
from dragoman.aio.upstream.aiohttp_transport import AiohttpTransport
from dragoman.aio.upstream.http11.transport import Http11Transport
from dragoman.aio.upstream.interface import PushedResponse, Transport, UpstreamRequest, UpstreamResponse

PLENTY = 64 * 1024 * 1024
"""A limit for bodies that is not in the way."""


def make(name: str, connections: PoolOptions | None = None, *, tls: ssl.SSLContext | None = None) -> Transport:
    """A transport by name: `aiohttp` or `raw`. Inside a running loop."""
    if name == "aiohttp":
        return AiohttpTransport(connections, tls=tls)
    return Http11Transport(connections, tls=tls)


@dataclass(slots=True)
class Asked:
    """One call whose answer has begun."""

    answer: UpstreamResponse
    watch: StreamTimers
    stepped: bool

    @property
    def status(self) -> int:
        """The status of the answer."""
        return self.answer.status

    async def pieces(self, into: list[bytes] | None = None) -> list[bytes]:
        """The batches of the body as they come; `into` has those before a failure."""
        pieces = [] if into is None else into

        async def read() -> None:
            async with aclosing(self.answer.batches()) as batches:
                async for batch in batches:
                    assert batch, "an empty batch says nothing"
                    pieces.append(batch)

        if not self.stepped:
            await read()
            return pieces
        forward = InlineTask(read(), cast("PushedResponse", self.answer).on_arrival)
        forward.start()
        await forward
        return pieces

    async def body(self) -> bytes:
        """The whole body, read batch by batch."""
        return b"".join(await self.pieces())


@dataclass(slots=True)
class Client:
    """A transport under test. `name` is for the few tests that are about one of them."""

    name: str
    upstream: Transport
    stepped: bool = False

    @asynccontextmanager
    async def ask(
        self,
        url: str,
        body: bytes = b"{}",
        *,
        stream: bool = True,
        headers: Mapping[str, str] | None = None,
        timeouts: Timeouts | None = None,
        method: str = "POST",
    ) -> AsyncIterator[Asked]:
        """A call and its answer, closed and no longer watched behind the block. Raises as `Upstream.open`."""
        timeouts = timeouts or Timeouts()
        call = UpstreamRequest(
            url, {"content-type": "application/json", **(headers or {})}, body, stream, timeouts, method
        )
        watch = StreamTimers(timeouts)
        try:
            answer = await self.upstream.open(call, watch)
            try:
                yield Asked(answer, watch, self.stepped)
            finally:
                await answer.close()
        finally:
            watch.stop()

    async def body(self, url: str, body: bytes = b"{}", **call: Any) -> bytes:
        """The body of a successful answer, read batch by batch."""
        async with self.ask(url, body, **call) as asked:
            assert asked.status == 200
            return await asked.body()

    async def read(self, url: str, body: bytes = b"{}", *, limit: int = PLENTY) -> bytes:
        """The body of a successful whole reply."""
        async with self.ask(url, body, stream=False) as asked:
            assert asked.status == 200
            return await asked.answer.read(limit)


def open_sockets() -> int:
    """Return how many sockets this process has."""
    count = 0
    for fd in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            count += os.readlink(fd).startswith("socket:")
    return count


def unread(port: int, peer: int) -> tuple[int, int]:
    """Bytes that the kernel keeps for the connection of this local port: not yet sent, and not yet read."""
    local, remote = f":{port:04X}", f":{peer:04X}"
    with Path("/proc/net/tcp").open() as connections:
        for line in connections:
            fields = line.split(maxsplit=5)
            if fields[1].endswith(local) and fields[2].endswith(remote):
                sending, reading = fields[4].split(":")
                return int(sending, 16), int(reading, 16)
    raise AssertionError(f"no connection from port {port} to {peer}")

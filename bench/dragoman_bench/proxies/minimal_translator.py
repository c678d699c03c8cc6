"""The floor: a minimal translator on raw sockets, as a lower bound of the cost of translating in Python.

HTTP by hand on keep-alive sockets, one write per read. It has no limits, timeouts, error replies, back-pressure or tool
calls; the difference to a real gateway is the cost of these.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, cast

import orjson

from dragoman_bench.proxies.minimal_translator_dialects import READERS, WRITERS, read_whole, rewrite_request
from dragoman_bench.proxies.serving import End, Place, serve

_BACKLOG = 4096
_PATHS = {"chat": b"/v1/chat/completions", "messages": b"/v1/messages", "responses": b"/v1/responses"}
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
_END = b"0\r\n\r\n"


class Floor:
    """Common state of all connections: the upstream, the dialects, and the idle upstream connections."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.read = READERS[place.dialect]
        self.writer = WRITERS[place.client]
        self.head = b"POST %b HTTP/1.1\r\nhost: %b:%d\r\ncontent-type: application/json\r\ncontent-length: " % (
            _PATHS[place.dialect],
            place.host.encode(),
            place.upstream_port,
        )
        self.idle: list[Outbound] = []


class Inbound(asyncio.Protocol):
    """A client's connection: one request at a time."""

    __slots__ = ("buffer", "dialling", "floor", "outbound", "transport")

    def __init__(self, floor: Floor) -> None:
        self.floor = floor
        self.buffer = b""
        self.outbound: Outbound | None = None
        self.transport = cast("asyncio.Transport", None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Collect the request; when it is complete, send its translation."""
        data = self.buffer = self.buffer + data
        end = data.find(b"\r\n\r\n")
        if end < 0:
            return
        length = _LENGTH.search(data, 0, end)
        body = data[end + 4 :]
        if length is None or len(body) < int(length[1]):
            return
        self.buffer = b""
        asked = orjson.loads(body)
        place = self.floor.place
        sent = rewrite_request(place.client, place.dialect, asked)
        request = self.floor.head + b"%d\r\n\r\n%b" % (len(sent), sent)
        if self.floor.idle:
            self.floor.idle.pop().begin(self, asked, request)
        else:
            self.dialling = asyncio.get_running_loop().create_task(self._dial(asked, request))

    async def _dial(self, asked: Any, request: bytes) -> None:
        place = self.floor.place
        _, outbound = await asyncio.get_running_loop().create_connection(
            lambda: Outbound(self.floor), place.host, place.upstream_port
        )
        outbound.begin(self, asked, request)

    def connection_lost(self, error: Exception | None) -> None:
        """Abort the upstream's reply, as the client has disconnected."""
        if self.outbound is not None:
            self.outbound.transport.close()


class Outbound(asyncio.Protocol):
    """A connection to the upstream: one reply at a time, translated as it is read."""

    __slots__ = ("asked", "chunked", "expected", "floor", "frame", "inbound", "rest", "started", "transport", "writer")

    def __init__(self, floor: Floor) -> None:
        self.floor = floor
        self.inbound: Inbound | None = None
        self.transport = cast("asyncio.Transport", None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self.transport = cast("asyncio.Transport", transport)

    def begin(self, inbound: Inbound, asked: Any, request: bytes) -> None:
        """Send a request for `inbound`."""
        self.inbound, inbound.outbound = inbound, self
        self.asked = asked
        self.writer = self.floor.writer()
        self.started = self.chunked = False
        self.expected = 0
        self.rest = self.frame = b""
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Decode the chunks, translate the complete frames, write once."""
        if self.rest:
            data = self.rest + data
        head = b""
        at = 0
        if not self.started:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                self.rest = data
                return
            at = end + 4
            self.started = True
            if length := _LENGTH.search(data, 0, end):
                self.expected = int(length[1])
            else:
                self.chunked = True
                head = _STREAM_HEAD
        if not self.chunked:
            self.rest = data[at:]
            if len(self.rest) >= self.expected:
                self._whole()
            else:
                self.started = False
                self.rest = data
            return
        parts, ended = [self.frame], False
        while (line := data.find(b"\r\n", at)) > 0:
            size = int(data[at:line], 16)
            end = line + 2 + size
            if len(data) < end + 2:
                break
            at = end + 2
            if size == 0:
                ended = True
                break
            parts.append(data[line + 2 : end])
        self.rest = data[at:]
        frames = b"".join(parts).split(b"\n\n")
        self.frame = frames.pop()
        out = self.writer.open(self.asked["model"]) if head else b""
        out += b"".join(self.floor.read(frames, self.writer))
        inbound = self.inbound
        if inbound is None:
            return
        if out:
            inbound.transport.write(b"%b%x\r\n%b\r\n%b" % (head, len(out), out, _END if ended else b""))
        elif ended:
            inbound.transport.write(_END)
        if ended:
            self._leave()

    def _whole(self) -> None:
        place = self.floor.place
        text, self.writer.used = read_whole(place.dialect, orjson.loads(self.rest))
        out = orjson.dumps(self.writer.whole(self.asked["model"], text))
        if self.inbound is not None:
            self.inbound.transport.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(out), out)
            )
        self._leave()

    def _leave(self) -> None:
        if self.inbound is not None:
            self.inbound.outbound = None
            self.inbound = None
        self.rest = self.frame = b""
        self.floor.idle.append(self)

    def connection_lost(self, error: Exception | None) -> None:
        """Close the client's connection if it waits for a reply."""
        if self in self.floor.idle:
            self.floor.idle.remove(self)
        if self.inbound is not None:
            self.inbound.transport.close()


async def begin(place: Place) -> End:
    """Serve until the context ends, then close idle upstream connections."""
    floor = Floor(place)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Inbound(floor), "127.0.0.1", place.port, backlog=_BACKLOG)

    async def end() -> None:
        server.close()
        for outbound in floor.idle:
            outbound.transport.close()

    return end


if __name__ == "__main__":
    serve(begin)

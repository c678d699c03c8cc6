"""Compressed bodies: nothing of a refused one is decompressed, and a turn of the loop decompresses a piece at most.

A client without a key could make a gateway decompress 1.1 GB in one turn, for a body of 1.1 MB and an answer of 401.
"""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
from aiohttp import compression_utils, web

from dragoman.aio import Decompressor
from dragoman_server.app import setup
from dragoman_server.config.provider import Secret
from dragoman_server.config.schema import Config
from dragoman_server.config.state_options import StateOptions
from dragoman_server.proxy.request_body import PIECE
from support.gateways import CHAT, Gate, config_for, gate, served, with_limits

BOMB = gzip.compress(bytes(64 << 20), 9)
"""64 MiB of zeros in 65 kB."""
LIMIT = 1 << 20
STEP = 1 << 18
"""Bytes that one step of decompression expands to at most."""
EMBEDDED = 3 * STEP
"""Most bytes that aiohttp's own parser decompresses in one turn: its buffer of two steps, and one more."""


@dataclass
class Meter:
    """Counts what is decompressed, by turn of the loop."""

    turns: Counter[int] = field(default_factory=Counter)
    turn: int = 0

    def count(self, size: int) -> None:
        self.turns[self.turn] += size

    @property
    def total(self) -> int:
        return self.turns.total()

    @property
    def most(self) -> int:
        return max(self.turns.values(), default=0)

    async def tick(self) -> None:
        while True:
            self.turn += 1
            await asyncio.sleep(0)


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> Meter:
    counted, inner = Meter(), compression_utils.ZLibDecompressor.decompress_sync

    def decompress(self: compression_utils.ZLibDecompressor, data: bytes, max_length: int = 0) -> bytes:
        result = inner(self, data, max_length)
        counted.count(len(result))
        return result

    monkeypatch.setattr(compression_utils.ZLibDecompressor, "decompress_sync", decompress)
    own = Decompressor.feed

    def feed(self: Decompressor, data: bytes) -> Iterator[bytes]:
        for piece in own(self, data):
            counted.count(len(piece))
            yield piece

    monkeypatch.setattr(Decompressor, "feed", feed)
    return counted


def configured() -> Config:
    config = with_limits(config_for("http://127.0.0.1:9", CHAT, keys=(Secret("k"),), ui=True), request_body=LIMIT)
    config = with_limits(config, upload=LIMIT, upload_held=LIMIT)
    return replace(config, state=StateOptions(kind="memory"))


@asynccontextmanager
async def measured(meter: Meter, *, embedded: bool) -> AsyncIterator[Gate]:
    async with gate(configured(), handler_cancellation=not embedded) as up:
        ticks = asyncio.create_task(meter.tick())
        try:
            yield up
        finally:
            ticks.cancel()


async def answered(port: int, request: str, *headers: str, chunked: bool = False, body: bytes = BOMB) -> bytes:
    """Send a compressed body, and a request behind it. Returns all that comes back until the connection ends."""
    framing = "transfer-encoding: chunked" if chunked else f"content-length: {len(body)}"
    head = "\r\n".join([f"{request} HTTP/1.1", "host: x", "content-encoding: gzip", framing, *headers, "\r\n"])
    sent = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if chunked else body
    received = b""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    async with asyncio.timeout(30):
        writer.write(head.encode() + sent + b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        try:
            received = await reader.readuntil(b"\r\n\r\n")
            while data := await reader.read(1 << 16):
                received += data
        except ConnectionResetError:
            pass
        finally:
            writer.close()
    return received


KEY = "x-api-key: k"
FORM = "content-type: multipart/form-data; boundary=x"
REFUSED = {
    "no key": ("POST /v1/messages", (), 401),
    "no key, chunked": ("POST /v1/messages", (), 401),
    "unknown path": ("POST /nowhere", (KEY,), 404),
    "method": ("PUT /v1/messages", (KEY,), 405),
    "stopping": ("POST /v1/messages", (KEY,), 529),
    "no key, forwarded": ("POST /v1/embeddings", (), 401),
    "no key, form": ("POST /v1/audio/transcriptions", (FORM,), 401),
    "a form where none is taken": ("POST /v1/embeddings", (KEY, FORM), 415),
    "no key, counts": ("POST /v1/messages/count_tokens", (), 401),
    "no key, explain": ("POST /v1/dragoman/explain", (), 401),
    "no key, conversations": ("POST /v1/conversations", (), 401),
    "no key, captures": ("POST /v1/dragoman/captures", (), 405),
    "no key, console": ("POST /ui/api/explain", (), 401),
    "a body that is not read": ("GET /health", (), 200),
    "expectation": ("POST /v1/messages", (KEY, "expect: the-unexpected"), 417),
}


@pytest.mark.parametrize("embedded", [False, True], ids=["serve", "embedded"])
@pytest.mark.parametrize("case", REFUSED)
async def test_nothing_of_a_refused_body_is_decompressed(case: str, embedded: bool, meter: Meter) -> None:
    request, headers, status = REFUSED[case]
    async with measured(meter, embedded=embedded) as up:
        up.gateway.services.open_requests.stopping = case == "stopping"
        received = await answered(up.port, request, *headers, chunked="chunked" in case)
    assert received.startswith(b"HTTP/1.1 %d " % status), received[:100]
    print(f"{case}: {meter.total} bytes decompressed, {meter.most} in one turn")
    assert meter.total <= (EMBEDDED if embedded else 0)
    if not embedded:
        assert received.count(b'{"status":"ok"') == 1 + (status == 200), "the connection goes on"


@pytest.mark.parametrize("path", ["v1/messages", "v1/embeddings", "nowhere"])
async def test_nothing_more_is_decompressed_for_a_gateway_below_a_prefix(path: str, meter: Meter) -> None:
    app = web.Application()
    setup(app, configured(), prefix="/llm")
    async with served(app, handler_cancellation=False) as (url, _):
        ticks = asyncio.create_task(meter.tick())
        received = await answered(int(url.rpartition(":")[2]), f"POST /llm/{path}")
        ticks.cancel()
    assert received.split()[1] in (b"401", b"404")
    assert meter.total <= EMBEDDED


TOO_LONG = {
    "messages": ("POST /v1/messages", ()),
    "messages, chunked": ("POST /v1/messages", ()),
    "responses": ("POST /v1/responses", ()),
    "embeddings": ("POST /v1/embeddings", ()),
    "form": ("POST /v1/audio/transcriptions", (FORM,)),
    "counts": ("POST /v1/messages/count_tokens", ()),
    "explain": ("POST /v1/dragoman/explain", ()),
    "conversations": ("POST /v1/conversations", ()),
}


@pytest.mark.parametrize("embedded", [False, True], ids=["serve", "embedded"])
@pytest.mark.parametrize("case", TOO_LONG)
async def test_a_body_that_expands_beyond_the_limit_is_refused_at_the_limit(
    case: str, embedded: bool, meter: Meter
) -> None:
    request, headers = TOO_LONG[case]
    step = EMBEDDED if embedded else STEP
    async with measured(meter, embedded=embedded) as up:
        await answered(up.port, request, KEY, *headers, body=b"no gzip")  # what the first error imports is not measured
        tracemalloc.start()
        try:
            received = await answered(up.port, request, KEY, *headers, chunked="chunked" in case)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert received.startswith((b"HTTP/1.1 413 ", b"HTTP/1.1 400 ")), received[:100]
    print(f"{case}: {meter.total} bytes decompressed, {meter.most} in one turn, peak {peak} bytes")
    assert meter.total <= LIMIT + 2 * step
    assert meter.most <= step
    assert peak <= LIMIT + 5 * step


@pytest.mark.parametrize("embedded", [False, True], ids=["serve", "embedded"])
async def test_an_allowed_body_is_decompressed_a_piece_at_a_time(embedded: bool, meter: Meter) -> None:
    body = gzip.compress(b'{"model": "' + bytes(LIMIT - 20).replace(b"\0", b"a") + b'"}')
    async with measured(meter, embedded=embedded) as up:
        received = await answered(up.port, "POST /v1/dragoman/explain", KEY, body=body)
    assert received.startswith(b"HTTP/1.1 400 "), received[:100]
    assert b"dialect" in received
    print(f"{meter.total} bytes decompressed, {meter.most} in one turn")
    assert meter.total == LIMIT - 20 + 13
    assert meter.most <= (EMBEDDED if embedded else STEP)


async def test_compressed_bytes_count_too(meter: Meter) -> None:
    """A body of empty blocks expands to nothing, however long it is."""
    block = zlib.compressobj(0, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    start = block.compress(b"")
    body = start + block.flush(zlib.Z_FULL_FLUSH) * (LIMIT // 5 + PIECE)
    async with measured(meter, embedded=False) as up:
        received = await answered(up.port, "POST /v1/messages", KEY, chunked=True, body=body)
    assert received.startswith(b"HTTP/1.1 413 "), received[:100]
    assert meter.total == 0

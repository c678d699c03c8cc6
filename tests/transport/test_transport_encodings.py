"""Compressed replies, asked for or not: decoded piece by piece, bounded, and checked for damage."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable

import pytest

from dragoman.errors import LimitExceeded, StreamTruncated, UpstreamError
from support.packing import flushed, packed_br, packed_zstd, without_extra
from support.sockets import LAST_CHUNK, chunk, head
from support.transports import PLENTY, Client
from support.wire_server import Peer, WireServer, replying

STEPPED = True
TEXT = b"".join(b'data: {"n": %d}\n\n' % number for number in range(100))


def raw_deflate(data: bytes) -> bytes:
    """`deflate` as many servers misread it: without the zlib wrapper."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def members(data: bytes) -> bytes:
    """gzip in three members, which are one body (RFC 1952 §2.2)."""
    third = len(data) // 3
    return b"".join(map(gzip.compress, (data[:third], data[third : 2 * third], data[2 * third :])))


PACKED: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "GZip": ("GZip", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "raw deflate": ("deflate", raw_deflate),
    "identity": ("identity", bytes),
    "br": ("br", packed_br),
    "zstd": ("zstd", packed_zstd),
    "two": ("gzip, zstd", lambda data: packed_zstd(gzip.compress(data))),
}
PACKINGS = pytest.mark.parametrize(("encoding", "pack"), PACKED.values(), ids=PACKED)


def packed_head(encoding: str, size: int | None = None) -> bytes:
    """The head of a compressed reply: with a length, or chunked."""
    framing = ("transfer-encoding", "chunked") if size is None else ("content-length", str(size))
    return head(200, [("content-type", "text/event-stream"), ("content-encoding", encoding), framing])


@PACKINGS
async def test_a_compressed_reply_is_decoded(client: Client, encoding: str, pack: Callable[[bytes], bytes]) -> None:
    """Whole (where it was asked for) and streamed (where it was not)."""
    data = pack(TEXT)
    async with WireServer(replying(packed_head(encoding, len(data)) + data)) as server:
        assert await client.read(server.url) == TEXT
        assert await client.body(server.url) == TEXT
        assert len(server.peers) == 1


@PACKINGS
@pytest.mark.parametrize("size", [1, 100])
async def test_a_compressed_stream_in_pieces_is_decoded(
    client: Client, encoding: str, pack: Callable[[bytes], bytes], size: int
) -> None:
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(packed_head(encoding))
        data = pack(TEXT)
        for at in range(0, len(data), size):
            await peer.send(chunk(data[at : at + size]))
        await peer.send(LAST_CHUNK)

    async with WireServer(handler) as server:
        assert await client.body(server.url) == TEXT


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd"])
async def test_what_the_server_flushed_is_given_at_once(client: Client, encoding: str) -> None:
    """A stream that is compressed all the same still arrives event by event."""
    read = 0

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(packed_head(encoding))
        for packed in flushed(encoding, [b"data: %d\n\n" % number for number in range(5)]):
            await peer.send(chunk(packed))
            await peer.exactly(0)
        await peer.send(LAST_CHUNK)

    async with WireServer(handler) as server, client.ask(server.url) as asked:
        for piece in await asked.pieces():
            assert piece == b"data: %d\n\n" % read
            read += 1
    assert read == 5


async def test_gzip_of_several_members_is_one_body(client: Client) -> None:
    data = members(TEXT)
    async with WireServer(replying(packed_head("gzip", len(data)) + data)) as server:
        assert await client.read(server.url) == TEXT
    async with WireServer(replying(packed_head("gzip"), *map(chunk, _split(data, 50)), LAST_CHUNK)) as server:
        assert await client.body(server.url) == TEXT


@PACKINGS
async def test_an_empty_body_may_be_called_compressed(
    client: Client, encoding: str, pack: Callable[[bytes], bytes]
) -> None:
    del pack
    for wire in (packed_head(encoding, 0), packed_head(encoding) + LAST_CHUNK):
        async with WireServer(replying(wire)) as server:
            assert await client.read(server.url) == b""


async def test_encodings_in_two_headers_are_one_list(client: Client) -> None:
    data = packed_zstd(gzip.compress(TEXT))
    lines = [("content-encoding", "gzip"), ("content-encoding", "zstd"), ("content-length", str(len(data)))]
    async with WireServer(replying(head(200, lines) + data)) as server:
        assert await client.read(server.url) == TEXT


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
@pytest.mark.parametrize("damage", ["at the start", "inside"])
async def test_corrupt_data_is_an_error(client: Client, encoding: str, damage: str) -> None:
    data = bytearray(PACKED[encoding][1](TEXT))
    if damage == "at the start":
        data[:12] = b"\xff" * 12
    else:
        data[20:60] = bytes(byte ^ 0x55 for byte in data[20:60])
    async with WireServer(replying(packed_head(encoding, len(data)) + data)) as server:
        for stream in (True, False):
            with pytest.raises(UpstreamError):
                async with client.ask(server.url, stream=stream) as asked:
                    await asked.body()
        with pytest.raises(UpstreamError):
            await client.read(server.url)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "raw deflate", "br", "zstd", "two"])
async def test_compressed_data_that_is_not_whole_is_an_error(client: Client, encoding: str) -> None:
    """The body is complete by its framing, but not by its compression."""
    token, pack = PACKED[encoding]
    data = pack(TEXT)[:-30]
    async with WireServer(replying(packed_head(token, len(data)) + data)) as server:
        with pytest.raises(UpstreamError):
            await client.body(server.url)
        with pytest.raises(UpstreamError):
            await client.read(server.url)


async def test_a_cut_inside_compressed_data_is_truncated(client: Client) -> None:
    data = gzip.compress(TEXT)
    async with WireServer(replying(packed_head("gzip", len(data)) + data[:-40], then=Peer.close)) as server:
        with pytest.raises(StreamTruncated):
            await client.body(server.url)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
async def test_a_bomb_stops_at_the_limit(client: Client, encoding: str) -> None:
    """20 MB in 20 kB: a whole reply is given up at the limit."""
    data = PACKED[encoding][1](bytes(20_000_000))
    async with WireServer(replying(packed_head(encoding, len(data)) + data)) as server:
        with pytest.raises(LimitExceeded, match="reply_body = 1000000"):
            await client.read(server.url, limit=1_000_000)


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd"])
async def test_a_bomb_in_a_stream_comes_in_bounded_batches(client: Client, encoding: str) -> None:
    """Each batch is for the SSE parser's limits to judge; none may be a hundred times what was read."""
    data = PACKED[encoding][1](bytes(20_000_000))
    total, largest = 0, 0
    async with WireServer(replying(packed_head(encoding, len(data)) + data)) as server:
        try:
            async with client.ask(server.url) as asked:
                async for batch in asked.answer.batches():
                    total += len(batch)
                    largest = max(largest, len(batch))
        except LimitExceeded:
            pass
        else:
            assert total == 20_000_000
    assert largest <= 2 * 1024 * 1024


@pytest.mark.parametrize("encoding", ["compress", "br-42", "gzip, compress"])
async def test_an_unknown_encoding_is_named(client: Client, encoding: str) -> None:
    async with WireServer(replying(packed_head(encoding, 5) + b"\x01\x02\x03\x04\x05")) as server:
        with pytest.raises(UpstreamError, match=encoding):
            await client.read(server.url, limit=PLENTY)


@pytest.mark.parametrize("encoding", ["br", "zstd"])
async def test_without_the_extra_the_error_has_the_cure(
    client: Client, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_extra(monkeypatch)
    data = PACKED[encoding][1](TEXT)
    async with WireServer(replying(packed_head(encoding, len(data)) + data)) as server:
        with pytest.raises(UpstreamError, match=r"compression off, or install Dragoman with the extra compression"):
            await client.read(server.url, limit=PLENTY)


async def test_a_window_above_the_limit_is_an_error(client: Client) -> None:
    data = packed_zstd(TEXT, window_log=27)
    async with WireServer(replying(packed_head("zstd", len(data)) + data)) as server:
        with pytest.raises(StreamTruncated, match="upstream's zstd body has a window above 8 MiB"):
            await client.read(server.url, limit=PLENTY)


def _split(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]

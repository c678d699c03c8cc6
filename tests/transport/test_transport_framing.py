"""Where a reply ends: by length, by chunks, by the connection; and what may stand before and between."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dragoman.errors import LimitExceeded
from support.sockets import LAST_CHUNK, chunk, head
from support.transports import PLENTY, Client
from support.wire_server import Peer, WireServer, replying

STEPPED = True
EVENT = b"data: {}\n\n"
CHUNKED = head(200, [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")])


async def test_a_reply_with_a_length(client: Client) -> None:
    async with WireServer(replying(head(200, [("content-length", "10")]) + b"0123456789")) as server:
        assert await client.body(server.url) == b"0123456789"
        assert await client.read(server.url) == b"0123456789"


async def test_a_status_and_its_headers(client: Client) -> None:
    fields = [("X-One", "1"), ("x-two", "a"), ("X-Two", "b"), ("x-latin", "caf\u00e9"), ("content-length", "0")]
    fields += [("x-padded", "  a b \t"), ("x-empty", "")]
    wire = head(429, fields, reason="Slow down, please")
    async with WireServer(replying(wire)) as server, client.ask(server.url) as asked:
        assert asked.status == 429
        headers = asked.answer.headers
        assert headers["x-one"] == headers["X-ONE"] == "1"
        assert headers.get("x-absent") is None
        assert [value for name, value in headers.items() if name.lower() == "x-two"] == ["a", "b"]
        assert headers["x-padded"] == "a b"
        assert headers["x-empty"] == ""
        assert headers["x-latin"].encode("utf-8", "surrogateescape") == b"caf\xe9"
        assert await asked.body() == b""


async def test_a_reply_without_a_reason(client: Client) -> None:
    async with WireServer(replying(b"HTTP/1.1 200\r\ncontent-length: 1\r\n\r\nx")) as server:
        assert await client.body(server.url) == b"x"


async def test_an_offer_to_upgrade_changes_nothing(client: Client) -> None:
    """Apache offers h2c with every reply."""
    offer = [("upgrade", "h2,h2c"), ("connection", "Upgrade, Keep-Alive"), ("content-length", "2")]
    async with WireServer(replying(head(200, offer) + b"ok")) as server:
        for _ in range(2):
            assert await client.body(server.url) == b"ok"
        assert len(server.peers) == 1


async def test_every_read_is_a_batch_and_no_batch_waits(client: Client) -> None:
    """A batch is what one read yielded: several chunks of one read are one, and each read goes on at once."""
    first, second = chunk(b"a") + chunk(b"b"), chunk(b"c")
    async with WireServer(replying(CHUNKED, first, second, LAST_CHUNK)) as server, client.ask(server.url) as asked:
        pieces = await asked.pieces()
    assert b"".join(pieces) == b"abc"
    assert pieces[0] == b"ab"


@pytest.mark.parametrize(
    "wire",
    [
        CHUNKED + chunk(b"hello ") + chunk(b"world") + LAST_CHUNK,
        CHUNKED + b"6;name=value\r\nhello \r\n5;a\r\nworld\r\n0;last=1\r\n\r\n",
        CHUNKED + chunk(b"hello world") + b"0\r\nx-checksum: 99\r\nx-more: 1\r\n\r\n",
        CHUNKED.replace(b"chunked", b"Chunked") + b"B\r\nhello world\r\n0\r\n\r\n",
        CHUNKED + b"00006\r\nhello \r\n005\r\nworld\r\n000\r\n\r\n",
        head(200, [("content-length", "11")]) + b"hello world",
    ],
    ids=["plain", "extensions", "trailers", "capitals", "leading zeros", "length"],
)
async def test_a_reply_split_at_every_byte_is_the_same(client: Client, wire: bytes) -> None:
    """All on one connection: a byte too few or too many would spoil the next."""

    async def handler(peer: Peer) -> None:
        for at in range(1, len(wire)):
            await peer.request()
            await peer.send(wire[:at])
            await peer.send(wire[at:])
        await peer.request()
        await peer.drip(wire)

    async with WireServer(handler) as server:
        for _ in range(len(wire)):
            assert await client.body(server.url) == b"hello world"
        assert len(server.peers) == 1


async def test_a_chunk_of_each_size(client: Client) -> None:
    sizes = [1, 9, 10, 15, 16, 17, 255, 256, 4095, 4096, 65_535, 65_536, 300_000]
    body = [bytes([size % 251]) * size for size in sizes]
    wire = b"".join(map(chunk, body)) + LAST_CHUNK
    async with WireServer(replying(CHUNKED, wire), replying(CHUNKED + wire)) as server:
        assert await client.body(server.url) == b"".join(body)


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
@pytest.mark.parametrize("header", [b"", b"connection: close\r\n"])
async def test_a_reply_that_ends_with_the_connection(client: Client, version: bytes, header: bytes) -> None:
    start = b"HTTP/" + version + b" 200 OK\r\ncontent-type: text/event-stream\r\n" + header + b"\r\n"
    async with WireServer(replying(start, EVENT, EVENT, then=Peer.close)) as server:
        assert await client.body(server.url) == EVENT * 2
        assert await client.body(server.url) == EVENT * 2
        assert len(server.peers) == 2


async def test_a_reply_that_ends_with_a_half_closed_connection(client: Client) -> None:
    """The server waits for the client to end its side too, which must not wait for anything."""

    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.send(head(200) + EVENT)
        peer.half_close()
        await peer.gone.wait()

    async with WireServer(handler) as server:
        assert await client.body(server.url) == EVENT
        await server.peers[0].gone.wait()


@pytest.mark.parametrize(
    "wire",
    [
        head(200, [("content-length", "0")]),
        CHUNKED + LAST_CHUNK,
        head(204),
        head(204, [("content-length", "0")]),
        head(304),
        head(304, [("content-length", "10")]),
    ],
    ids=["length 0", "no chunks", "204", "204 with a length", "304", "304 with a length"],
)
async def test_an_empty_body_ends_at_once_and_keeps_the_connection(client: Client, wire: bytes) -> None:
    async with WireServer(replying(wire)) as server:
        for _ in range(2):
            async with client.ask(server.url) as asked:
                assert await asked.body() == b""
        async with client.ask(server.url) as asked:
            assert await asked.answer.read(0) == b""
        assert len(server.peers) == 1


async def test_an_empty_body_until_the_connection_ends(client: Client) -> None:
    async with WireServer(replying(head(200), then=Peer.close)) as server:
        assert await client.body(server.url) == b""


INTERIM: list[Sequence[bytes]] = [
    [head(100, reason="Continue")],
    [head(103, [("link", "</style.css>; rel=preload")], reason="Early Hints")],
    [head(102), head(100), head(103)],
]


@pytest.mark.parametrize("interim", INTERIM, ids=["100", "103", "three"])
@pytest.mark.parametrize("together", [True, False])
async def test_interim_replies_are_passed_over(client: Client, interim: Sequence[bytes], together: bool) -> None:
    final = head(200, [("content-length", "2")]) + b"ok"
    pieces = [b"".join(interim) + final] if together else [*interim, final]
    async with WireServer(replying(*pieces)) as server:
        for _ in range(2):
            async with client.ask(server.url) as asked:
                assert asked.status == 200
                assert "link" not in asked.answer.headers
                assert await asked.body() == b"ok"
        assert len(server.peers) == 1


async def test_a_whole_reply_is_bounded(client: Client) -> None:
    """`read(limit)` takes a body of the limit's size, and not one byte more."""
    async with WireServer(replying(head(200, [("content-length", "1000")]) + b"x" * 1000)) as server:
        assert await client.read(server.url, limit=1000) == b"x" * 1000
        with pytest.raises(LimitExceeded, match="reply_body = 999"):
            await client.read(server.url, limit=999)
        assert await client.read(server.url, limit=PLENTY) == b"x" * 1000

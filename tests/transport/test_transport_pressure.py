"""A consumer that does not read: the server is held back, memory stays bounded, and nothing is lost or mixed up."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator

import pytest

from dragoman.aio.timeouts import PoolOptions
from dragoman.errors import UpstreamUnreachable
from support.sockets import LAST_CHUNK, chunk, head
from support.transports import Client, make, unread
from support.waiting import at_once, turns
from support.wire_server import Peer, WireServer, replying

STEPPED = True
CHUNKED = head(200, [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")])
BLOCK = bytes(range(256)) * 256
BLOCKS = 160
"""10 MB: more than the kernel's buffers of both ends take."""
_digest = hashlib.sha256()
for _ in range(BLOCKS):
    _digest.update(BLOCK)
WHOLE = _digest.hexdigest()


class Flood:
    """A handler that sends blocks as fast as they are taken. `sent` counts them."""

    def __init__(self) -> None:
        self.sent = 0

    async def __call__(self, peer: Peer) -> None:
        await peer.request()
        await peer.send(CHUNKED)
        for _ in range(BLOCKS):
            await peer.send(chunk(BLOCK))
            self.sent += 1
        await peer.send(LAST_CHUNK)
        await peer.gone.wait()

    async def stands(self) -> None:
        """Wait until the server has not got rid of anything for many turns of the loop."""
        before = -1
        while self.sent != before:
            before = self.sent
            await turns(200)


def kept(peer: Peer) -> int:
    """Return the bytes sent that the transport holds: those in no buffer of the server or the kernel."""
    client, server = peer.ports
    unsent, _ = unread(server, client)
    _, waiting = unread(client, server)
    return peer.sent - peer.transport.get_write_buffer_size() - unsent - waiting


@pytest.mark.parametrize("begun", [False, True], ids=["before the first read", "between two reads"])
async def test_an_unread_reply_stops_its_server(client: Client, begun: bool) -> None:
    flood = Flood()
    async with WireServer(flood) as server, client.ask(server.url) as asked:
        batches = asked.answer.batches()
        first = await anext(batches) if begun else b""
        await flood.stands()
        assert flood.sent < BLOCKS, "the server was never held back"
        assert kept(server.peers[0]) - len(first) <= 1_500_000
        digest = hashlib.sha256(first)
        async for batch in batches:
            digest.update(batch)
        assert digest.hexdigest() == WHOLE


async def test_a_consumer_that_is_slow_and_then_fast_gets_it_all(client: Client) -> None:
    flood = Flood()
    async with WireServer(flood) as server, client.ask(server.url) as asked:
        digest = hashlib.sha256()
        count = 0
        async for batch in asked.answer.batches():
            digest.update(batch)
            count += 1
            if count < 20:
                await turns(50)
        assert digest.hexdigest() == WHOLE


async def test_a_fast_consumer_gets_it_all(client: Client) -> None:
    flood = Flood()
    async with WireServer(flood) as server, client.ask(server.url) as asked:
        assert hashlib.sha256(await asked.body()).hexdigest() == WHOLE


async def test_an_unread_reply_can_be_left(client: Client) -> None:
    """The connection that is held back ends at once, whatever the server has still to send."""
    flood = Flood()
    async with WireServer(flood) as server:
        async with client.ask(server.url):
            await flood.stands()
        await at_once(server.peers[0].gone)
        assert flood.sent < BLOCKS


@pytest.fixture
async def single(client: Client) -> AsyncIterator[Client]:
    """The transport under test with a small store of what is unread."""
    upstream = make(client.name, PoolOptions(unread=16 * 1024))
    yield Client(client.name, upstream, client.stepped)
    await upstream.close()


async def test_the_store_of_what_is_unread_can_be_smaller(single: Client) -> None:
    flood = Flood()
    async with WireServer(flood) as server, single.ask(server.url) as asked:
        await flood.stands()
        assert kept(server.peers[0]) <= (600_000 if single.name == "raw" else 1_500_000)
        assert hashlib.sha256(await asked.body()).hexdigest() == WHOLE


async def test_two_streams_at_once_do_not_mix(client: Client) -> None:
    async def handler(peer: Peer) -> None:
        request = await peer.request()
        await peer.send(CHUNKED)
        for number in range(200):
            await peer.send(chunk(b"%b %d\n" % (request.body, number)))
        await peer.send(LAST_CHUNK)

    async with WireServer(handler) as server:
        names = [b"a", b"bb", b"ccc", b"dddd"]
        bodies = await asyncio.gather(*(client.body(server.url, name) for name in names))
        for name, body in zip(names, bodies, strict=True):
            assert body == b"".join(b"%b %d\n" % (name, number) for number in range(200))


# --- replies that come before the request is out -------------------------------------------------------------------

LARGE = b"x" * 30_000_000
REFUSED = (
    head(413, [("content-type", "application/json"), ("content-length", "9"), ("connection", "close")]) + b'{"e": 41}'
)


@pytest.mark.parametrize("close", [True, False], ids=["connection: close", "keep-alive"])
async def test_an_early_refusal_is_the_answer(client: Client, close: bool) -> None:
    """The server answers after the head of a large request and reads no more of it: its connection is no more use."""
    refusal = REFUSED if close else REFUSED.replace(b"connection: close\r\n", b"")
    answered = asyncio.Event()

    async def handler(peer: Peer) -> None:
        await peer.head()
        peer.transport.pause_reading()
        await peer.send(refusal)
        await answered.wait()
        peer.transport.resume_reading()
        await peer.gone.wait()

    async with WireServer(handler) as server:
        async with client.ask(server.url, LARGE, stream=False) as asked:
            assert asked.status == 413
            assert await asked.answer.read(100) == b'{"e": 41}'
        answered.set()
        await server.peers[0].gone.wait()
        assert len(server.peers[0].received) < len(LARGE), "the rest of the request was sent all the same"


@pytest.mark.parametrize("reset", [False, True], ids=["FIN", "RST"])
async def test_an_early_refusal_whose_server_leaves_is_the_answer(client: Client, reset: bool) -> None:
    """It leaves while the request is still being sent; an RST may take the answer away, but nothing is sent twice."""

    async def handler(peer: Peer) -> None:
        await peer.head()
        await peer.send(REFUSED)
        if reset:
            peer.reset()
        else:
            peer.half_close()
            await peer.gone.wait()

    async with WireServer(handler) as server:
        try:
            async with client.ask(server.url, LARGE, stream=False) as asked:
                assert asked.status == 413
                assert await asked.answer.read(100) == b'{"e": 41}'
        except UpstreamUnreachable:
            assert reset
        assert len(server.peers) == 1


async def test_a_refusal_before_anything_was_sent_is_the_answer(client: Client) -> None:
    """Servers with too many connections report that to each new one."""

    async def handler(peer: Peer) -> None:
        await peer.send(REFUSED)
        peer.half_close()
        await peer.gone.wait()

    async with WireServer(handler) as server:
        try:
            async with client.ask(server.url, stream=False) as asked:
                assert asked.status == 413
                assert await asked.answer.read(100) == b'{"e": 41}'
        except UpstreamUnreachable:
            assert client.name == "aiohttp"  # whose parser begins with the request
        assert not server.requests or len(server.peers) == 1


async def test_an_early_reply_is_read_while_the_request_goes_on(client: Client) -> None:
    """A server that answers at once and takes the whole request all the same keeps its connection."""

    async def handler(peer: Peer) -> None:
        await peer.head()
        await peer.send(head(200, [("content-length", "2")]) + b"o")
        await peer.exactly(len(LARGE))
        await peer.send(b"k")
        await replying(head(204))(peer)

    async with WireServer(handler) as server:
        assert await client.body(server.url, LARGE) == b"ok"
        async with client.ask(server.url) as asked:
            assert asked.status == 204

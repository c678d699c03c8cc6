"""TLS: trusted certificates, error messages, and bodies that end without a close_notify."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator

import pytest

from dragoman.aio.timeouts import Timeouts
from dragoman.errors import StreamTruncated, UpstreamTimeout, UpstreamUnreachable
from support.sockets import LAST_CHUNK, chunk, head
from support.tls import serving, trusting
from support.transports import Client, make
from support.waiting import at_once, turns, until
from support.wire_server import Peer, WireServer, replying, silent

STEPPED = True
EVENT = b"data: {}\n\n"
OK = head(200, [("content-length", "2")]) + b"ok"
CHUNKED = head(200, [("content-type", "text/event-stream"), ("transfer-encoding", "chunked")])


@pytest.fixture
async def secure(client: Client) -> AsyncIterator[Client]:
    """The transport under test, trusting the tests' own authority."""
    upstream = make(client.name, tls=trusting("good"))
    yield Client(client.name, upstream, client.stepped)
    await upstream.close()


async def test_a_trusted_certificate(secure: Client) -> None:
    async with WireServer(replying(OK), tls=serving("127.0.0.1")) as server:
        for _ in range(3):
            assert await secure.body(server.url) == b"ok"
        assert len(server.peers) == 1, "a connection over TLS is kept as any other"
        assert server.requests[0].headers["host"] == f"127.0.0.1:{server.port}"
        assert server.peers[0].transport.get_extra_info("ssl_object").selected_alpn_protocol() in (None, "http/1.1")


async def test_a_host_name_is_sent_and_verified(secure: Client) -> None:
    asked: list[str | None] = []
    tls = serving("localhost")

    def named(_: object, name: str | None, __: object) -> None:
        asked.append(name)

    tls.sni_callback = named
    async with WireServer(replying(OK), tls=tls) as server:
        assert await secure.body(f"https://localhost:{server.port}/v1/x") == b"ok"
    assert asked == ["localhost"]


@pytest.mark.parametrize(
    ("tls", "host", "reason"),
    [
        (lambda: serving("127.0.0.1", by="unknown"), "127.0.0.1", "certificate"),
        (lambda: serving("elsewhere.example"), "127.0.0.1", "(?i)127.0.0.1.*certificate|certificate.*127.0.0.1"),
        (lambda: serving("elsewhere.example"), "localhost", "(?i)localhost.*certificate|certificate.*localhost"),
        (lambda: serving("127.0.0.1"), "localhost", "(?i)localhost.*certificate|certificate.*localhost"),
    ],
    ids=["an unknown authority", "another address", "another name", "an address for a name"],
)
async def test_an_invalid_certificate_is_reported(secure: Client, tls: object, host: str, reason: str) -> None:
    """Nothing of the request leaves, and the message names the reason."""
    assert callable(tls)
    async with WireServer(replying(OK), tls=tls()) as server:
        with pytest.raises(UpstreamUnreachable, match=reason) as raised:
            await secure.body(f"https://{host}:{server.port}/", headers={"authorization": "sk-very-secret"})
        assert "secret" not in str(raised.value)
        assert not server.requests
        assert not any(peer.received for peer in server.peers)


async def test_by_default_no_private_authority_is_trusted(client: Client) -> None:
    async with WireServer(replying(OK), tls=serving("127.0.0.1")) as server:
        with pytest.raises(UpstreamUnreachable, match="certificate"):
            await client.body(server.url)
        assert not server.requests


async def test_a_server_without_tls(secure: Client) -> None:
    async def handler(peer: Peer) -> None:
        await peer.exactly(1)
        await peer.send(head(400, [("content-length", "0")]))

    async with WireServer(handler) as server:
        with pytest.raises(UpstreamUnreachable) as raised:
            await secure.body(server.url.replace("http:", "https:"))
        assert str(raised.value).startswith("cannot connect to the upstream: ")


async def test_a_client_without_tls(client: Client) -> None:
    async with WireServer(replying(OK), tls=serving("127.0.0.1")) as server:
        with pytest.raises(UpstreamUnreachable):
            await client.body(server.url.replace("https:", "http:"))


async def test_a_handshake_that_does_not_go_on_is_timed_out(secure: Client) -> None:
    async def handler(peer: Peer) -> None:
        await peer.gone.wait()

    async with WireServer(handler) as server:
        with pytest.raises(UpstreamTimeout):
            await secure.body(server.url.replace("http:", "https:"), timeouts=Timeouts(connect=0.1, first_byte=0.3))
        for peer in server.peers:
            await peer.gone.wait()


async def test_a_handshake_that_is_cancelled_leaves_nothing(secure: Client) -> None:
    async def handler(peer: Peer) -> None:
        await peer.gone.wait()

    async with WireServer(handler) as server:
        call = asyncio.create_task(secure.body(server.url.replace("http:", "https:")))
        await until(lambda: server.peers and server.peers[0].received)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await server.peers[0].gone.wait()


async def test_a_chunked_stream(secure: Client) -> None:
    events = [b"data: %d\n\n" % number for number in range(50)]
    pieces = [CHUNKED, *map(chunk, events), LAST_CHUNK]
    async with WireServer(replying(*pieces), tls=serving()) as server:
        for _ in range(2):
            assert await secure.body(server.url) == b"".join(events)
        assert len(server.peers) == 1


async def test_a_stream_byte_by_byte(secure: Client) -> None:
    async def handler(peer: Peer) -> None:
        await peer.request()
        await peer.drip(CHUNKED + chunk(EVENT) + chunk(EVENT) + LAST_CHUNK)

    async with WireServer(handler, tls=serving()) as server:
        assert await secure.body(server.url) == EVENT * 2


@pytest.mark.parametrize("size", [16_384, 16_385, 4_000_000])
async def test_bodies_larger_than_a_record(secure: Client, size: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    async with WireServer(replying(head(200, [("content-length", str(size))]) + body), tls=serving()) as server:
        assert await secure.body(server.url, body) == body
        assert server.requests[0].body == body


async def test_a_whole_reply_needs_no_close_notify(secure: Client) -> None:
    for wire in (OK, CHUNKED + chunk(b"ok") + LAST_CHUNK):
        async with WireServer(replying(wire, then=Peer.cut), tls=serving()) as server:
            assert await secure.body(server.url) == b"ok"
            await server.peers[0].lost.wait()
            await turns(5)
            assert await secure.body(server.url) == b"ok"


@pytest.mark.parametrize(
    "wire", [head(200, [("content-length", "3")]) + b"ok", CHUNKED + chunk(b"ok")], ids=["length", "chunked"]
)
@pytest.mark.parametrize("notify", [True, False])
async def test_a_body_cut_short_is_truncated_however_it_ended(secure: Client, wire: bytes, notify: bool) -> None:
    then = Peer.close if notify else Peer.cut
    async with WireServer(replying(wire, then=then), tls=serving()) as server:
        with pytest.raises(StreamTruncated):
            await secure.body(server.url)


async def test_an_until_close_body_ends_with_close_notify(secure: Client) -> None:
    async with WireServer(replying(head(200), EVENT, then=Peer.close), tls=serving()) as server:
        assert await secure.body(server.url) == EVENT


async def test_an_until_close_body_without_close_notify_is_truncated(secure: Client) -> None:
    """Any host on the way can end a TCP connection (RFC 9112 §9.8)."""
    async with WireServer(replying(head(200), EVENT, then=Peer.cut), tls=serving()) as server:
        with pytest.raises(StreamTruncated):
            await secure.body(server.url)


async def test_cancellation_reaches_the_server_at_once(secure: Client) -> None:
    async with WireServer(silent, tls=serving()) as server:
        call = asyncio.create_task(secure.body(server.url))
        await until(lambda: server.requests)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await at_once(server.peers[0].gone)


async def test_a_kept_connection_over_tls_that_ended_is_replaced(secure: Client) -> None:
    async with WireServer(replying(OK), tls=serving()) as server:
        assert await secure.body(server.url) == b"ok"
        server.peers[0].close()
        await server.peers[0].lost.wait()
        await turns(10)
        assert await secure.body(server.url) == b"ok"
        assert len(server.peers) == len(server.requests) == 2


def test_the_tests_contexts_verify() -> None:
    """A suite that trusted everybody would prove nothing."""
    context = trusting("good")
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname

"""Sent requests: exactly one, its framing, its host, and nothing smuggled in by a header value."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from dragoman.aio.stream_timers import StreamTimers
from dragoman.aio.timeouts import Timeouts
from dragoman.aio.upstream.interface import UpstreamRequest
from support.sockets import head
from support.transports import Client
from support.waiting import turns
from support.wire_server import Peer, WireServer, replying

OK = head(200, [("content-length", "2")]) + b"ok"
SECRET = "sk-very-secret-0123456789"


async def test_a_request_is_a_post_with_its_length_and_its_own_headers(client: Client) -> None:
    sent = {"authorization": f"Bearer {SECRET}", "x-empty": "", "X-Mixed-Case": "a b"}
    async with WireServer(replying(OK)) as server:
        url = f"http://127.0.0.1:{server.port}/v1/messages?beta=true&x=a%20b"
        async with client.ask(url, b'{"model":"m"}', headers=sent) as asked:
            assert await asked.body() == b"ok"
        (request,) = server.requests
        assert len(server.peers[0].received) == len(request.head) + len(request.body), "more than the request"
    assert request.lines[0] == "POST /v1/messages?beta=true&x=a%20b HTTP/1.1"
    assert request.body == b'{"model":"m"}'
    headers = request.headers
    assert headers["host"] == f"127.0.0.1:{server.port}"
    assert headers["content-length"] == "13"
    assert headers["content-type"] == "application/json"
    assert headers["authorization"] == f"Bearer {SECRET}"
    assert headers["x-empty"] == ""
    assert headers["x-mixed-case"] == "a b"
    assert "transfer-encoding" not in headers
    assert "expect" not in headers
    assert headers.get("connection", "keep-alive") == "keep-alive"


async def test_a_get_has_no_body_and_goes_where_posts_go(client: Client) -> None:
    async with WireServer(replying(OK)) as server:
        for method, body in (("POST", b"{}"), ("GET", b""), ("POST", b"{}")):
            async with client.ask(server.url, body, method=method, stream=False) as asked:
                assert await asked.answer.read(10) == b"ok"
        assert [request.lines[0].split(" ")[0] for request in server.requests] == ["POST", "GET", "POST"]
        assert [request.body for request in server.requests] == [b"{}", b"", b"{}"]
        assert server.requests[1].headers.get("content-length", "0") == "0"
        assert len(server.peers) == 1


@pytest.mark.parametrize("stream", [True, False])
async def test_a_stream_asks_for_no_compression(client: Client, stream: bool) -> None:
    async with WireServer(replying(OK)) as server:
        async with client.ask(server.url, stream=stream) as asked:
            assert await asked.answer.read(10) == b"ok"
        accepted = server.requests[0].headers["accept-encoding"]
    if stream:
        assert accepted == "identity"
    else:
        assert {"gzip", "deflate"} <= {token.strip() for token in accepted.split(",")}


async def test_a_url_without_a_path_asks_for_the_root(client: Client) -> None:
    async with WireServer(replying(OK)) as server:
        assert await client.body(f"http://127.0.0.1:{server.port}") == b"ok"
        assert server.requests[0].lines[0] == "POST / HTTP/1.1"


@pytest.mark.parametrize("size", [0, 1, 65_536, 3_000_000])
async def test_a_body_of_any_size_arrives_whole(client: Client, size: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    async with WireServer(replying(OK)) as server:
        assert await client.body(server.url, body) == b"ok"
        assert server.requests[0].headers["content-length"] == str(size)
        assert server.requests[0].body == body


async def test_a_server_that_reads_slowly_gets_it_all(client: Client) -> None:
    body = b"0123456789abcdef" * 200_000
    came = b""

    async def handler(peer: Peer) -> None:
        nonlocal came
        await peer.head()
        peer.transport.pause_reading()
        await peer.send(head(100, reason="Continue"))
        await turns(20)
        peer.transport.resume_reading()
        came = await peer.exactly(len(body))
        await peer.send(OK)

    async with WireServer(handler) as server:
        assert await client.body(server.url, body) == b"ok"
    assert came == body


@pytest.mark.parametrize("bad", ["a\r\nx-smuggled: 1", "a\nx-smuggled: 1", "a\rb", "a\0b"])
async def test_a_header_value_with_a_line_break_is_never_sent(client: Client, bad: str) -> None:
    """The configuration refuses such values; a transport that is given one all the same sends nothing of the call."""
    async with WireServer(replying(OK)) as server:
        call = UpstreamRequest(server.url, {"authorization": SECRET + bad}, b"{}", True, Timeouts())
        watch = StreamTimers(call.timeouts)
        try:
            with pytest.raises(ValueError) as raised:
                await client.upstream.open(call, watch)
        finally:
            watch.stop()
        assert SECRET not in str(raised.value)
        assert not any(peer.received for peer in server.peers)
        assert await client.body(server.url) == b"ok", "the transport is as good as before"
        assert b"smuggled" not in server.peers[-1].received


@pytest.mark.parametrize("name", ["x-a\r\nx-b", "x-a: 1\nx-b"])
async def test_a_header_name_with_a_line_break_is_never_sent(client: Client, name: str) -> None:
    async with WireServer(replying(OK)) as server:
        call = UpstreamRequest(server.url, {name: "v"}, b"{}", True, Timeouts())
        watch = StreamTimers(call.timeouts)
        try:
            with pytest.raises(ValueError):
                await client.upstream.open(call, watch)
        finally:
            watch.stop()
        assert not any(peer.received for peer in server.peers)


async def test_ipv6_hosts_are_bracketed(client: Client) -> None:
    async with WireServer(replying(OK), host="::1") as server:
        assert await client.body(server.url) == b"ok"
        assert server.requests[0].headers["host"] == f"[::1]:{server.port}"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_a_name_of_two_families_works_where_only_one_listens(
    client: Client, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`localhost`, of which the first address is the one without a listener."""
    order = ["::1", "127.0.0.1"] if host == "127.0.0.1" else ["127.0.0.1", "::1"]
    _resolve(monkeypatch, order)
    async with WireServer(replying(OK), host=host) as server:
        assert await client.body(f"http://localhost:{server.port}/v1/x") == b"ok"
        assert server.requests[0].headers["host"] == f"localhost:{server.port}"


def _resolve(monkeypatch: pytest.MonkeyPatch, addresses: list[str]) -> None:
    """Let `localhost` be these addresses in this order: for Python's resolver, and for uvloop, which has its own."""
    genuine = socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, *args: Any, **more: Any) -> list[Any]:
        if host not in ("localhost", b"localhost"):
            return list(genuine(host, port, *args, **more))
        number = int(port or 0)
        found: list[Any] = []
        for address in addresses:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            where = (address, number, 0, 0) if ":" in address else (address, number)
            found.append((family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", where))
        return found

    async def of_the_loop(_: object, host: Any, port: Any, **more: Any) -> list[Any]:
        return getaddrinfo(host, port, **more)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(type(asyncio.get_running_loop()), "getaddrinfo", of_the_loop)

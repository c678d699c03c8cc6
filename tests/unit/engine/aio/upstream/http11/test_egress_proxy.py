"""Tunnels through proxies: what is sent to them, refusals, and TLS inside."""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
import trustme

from dragoman.aio import Http11Transport, StreamTimers, Timeouts, UpstreamRequest
from dragoman.aio.upstream.http11.egress_proxy import EgressProxy
from dragoman.errors import UpstreamUnreachable
from support.sockets import ScriptedServer, answer

Handshake = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[int | None]]
"""Answers as a proxy, and returns the port to connect to; None for no tunnel."""


@asynccontextmanager
async def proxy(handshake: Handshake) -> AsyncIterator[int]:
    tasks: set[asyncio.Task[None]] = set()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            return
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            port = await handshake(reader, writer)
            if port is not None:
                up_reader, up_writer = await asyncio.open_connection("127.0.0.1", port)
                for pair in ((reader, up_writer), (up_reader, writer)):
                    task = asyncio.create_task(copy(*pair))
                    tasks.add(task)
                return
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # their transports close


async def get(url: str, proxy_url: str, tls: ssl.SSLContext | None = None) -> bytes:
    async with Http11Transport(proxy=proxy_url, tls=tls) as transport:
        request = UpstreamRequest(url, {}, b"", False, Timeouts(connect=5.0), "GET")
        with StreamTimers(request.timeouts) as timers:
            response = await transport.open(request, timers)
            try:
                return await response.read(1000)
            finally:
                await response.close()


def connecting(heads: list[bytes], reply: bytes, port: int | None) -> Handshake:
    async def handshake(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int | None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(reply)
        return port

    return handshake


OK = b"HTTP/1.1 200 Connection established\r\nvia: x\r\n\r\n"


@pytest.mark.parametrize("user", ["", "us%40er:p%3Aw@"])
async def test_connect(user: str) -> None:
    heads: list[bytes] = []
    async with (
        ScriptedServer(answer(200, b"through")) as server,
        proxy(connecting(heads, OK, server.port)) as port,
    ):
        assert await get("http://upstream.invalid:81/v1", f"http://{user}127.0.0.1:{port}") == b"through"
    (head,) = heads
    lines = head.decode().split("\r\n")
    assert lines[:2] == ["CONNECT upstream.invalid:81 HTTP/1.1", "host: upstream.invalid:81"]
    basic = f"proxy-authorization: Basic {b64encode(b'us@er:p:w').decode()}"
    assert (basic in lines) == bool(user)
    assert b"proxy-authorization" not in server.requests[0].head
    assert b"host: upstream.invalid:81" in server.requests[0].head


async def test_tls_is_with_the_upstream() -> None:
    authority = trustme.CA()
    served, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("upstream.invalid").configure_cert(served)
    authority.configure_trust(client)

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecret")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(reply, "127.0.0.1", 0, ssl=served)
    async with server, proxy(connecting([], OK, server.sockets[0].getsockname()[1])) as port:
        assert await get("https://upstream.invalid/", f"http://127.0.0.1:{port}", client) == b"secret"


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "answered the CONNECT with 407: it requires a user"),
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", "answered the CONNECT with 502"),
        (b"nonsense\r\n\r\n", "something that is not HTTP"),
        (b"HTTP/1.1 200 OK\r\n", "closed the connection"),
        (b"x" * 17_000, "a head that is too long"),
    ],
)
async def test_a_proxy_that_refuses(reply: bytes, message: str) -> None:
    async with proxy(connecting([], reply, None)) as port:
        with pytest.raises(UpstreamUnreachable, match=message) as caught:
            await get("http://upstream.invalid/", f"http://user:canary@127.0.0.1:{port}")
    assert "canary" not in str(caught.value)


async def test_a_proxy_that_is_away() -> None:
    async with proxy(connecting([], b"", None)) as port:
        pass
    with pytest.raises(UpstreamUnreachable, match="cannot connect to the upstream's proxy: Connection refused"):
        await get("http://upstream.invalid/", f"http://127.0.0.1:{port}")


def socks(received: list[bytes], *, method: int, port: int | None, status: int = 0, reply: int = 0) -> Handshake:
    async def handshake(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int | None:
        _, count = await reader.readexactly(2)
        received.append(await reader.readexactly(count))
        writer.write(bytes((5, method)))
        if method == 2:
            _, length = await reader.readexactly(2)
            user = await reader.readexactly(length)
            (length,) = await reader.readexactly(1)
            received.append(user + b"/" + await reader.readexactly(length))
            writer.write(bytes((1, status)))
        elif method == 255:
            return None
        head = await reader.readexactly(4)
        length = {1: 4, 4: 16}.get(head[3]) or (await reader.readexactly(1))[0]
        received.append(head + await reader.readexactly(length + 2))
        writer.write(bytes((5, reply, 0, 1, 127, 0, 0, 1, 0, 80)))
        return None if reply else port

    return handshake


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("upstream.invalid", b"\x05\x01\x00\x03upstream.invalid\x00\x51"),
        ("127.0.0.9", b"\x05\x01\x00\x01\x7f\x00\x00\x09\x00\x51"),
        ("[::2]", b"\x05\x01\x00\x04" + b"\x00" * 15 + b"\x02\x00\x51"),
    ],
)
async def test_socks(scheme: str, host: str, address: bytes) -> None:
    received: list[bytes] = []
    async with (
        ScriptedServer(answer(200, b"through")) as server,
        proxy(socks(received, method=0, port=server.port)) as port,
    ):
        assert await get(f"http://{host}:81/v1", f"{scheme}://127.0.0.1:{port}") == b"through"
    assert received == [b"\x00", address]


async def test_socks_with_a_password() -> None:
    received: list[bytes] = []
    async with (
        ScriptedServer(answer(200, b"through")) as server,
        proxy(socks(received, method=2, port=server.port)) as port,
    ):
        assert await get("http://127.0.0.9/", f"socks5://me:p%40w@127.0.0.1:{port}") == b"through"
    assert received[:2] == [b"\x02", b"me/p@w"]


@pytest.mark.parametrize(
    ("user", "method", "status", "reply", "message"),
    [
        ("", 255, 0, 0, r"accepts no authentication method of the gateway \(no user"),
        ("u:canary@", 0, 0, 0, "accepts no authentication method"),
        ("u:canary@", 2, 1, 0, "refused the user and the password"),
        ("", 0, 0, 5, "could not connect: connection refused"),
        ("", 0, 0, 99, "could not connect: reply 99"),
    ],
)
async def test_a_socks_proxy_that_refuses(user: str, method: int, status: int, reply: int, message: str) -> None:
    async with proxy(socks([], method=method, port=None, status=status, reply=reply)) as port:
        with pytest.raises(UpstreamUnreachable, match=message) as caught:
            await get("http://upstream.invalid/", f"socks5://{user}127.0.0.1:{port}")
    assert "canary" not in str(caught.value)


async def test_what_is_no_socks_proxy() -> None:
    async def handshake(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400\r\n\r\n")
        await writer.drain()

    async with proxy(handshake) as port:
        with pytest.raises(UpstreamUnreachable, match="not SOCKS version 5"):
            await get("http://upstream.invalid/", f"socks5://127.0.0.1:{port}")


@pytest.mark.parametrize("url", ["https://h:1", "http://h", "socks4://h:1", "h:1", ""])
def test_other_urls(url: str) -> None:
    with pytest.raises(ValueError, match="expected http://HOST:PORT"):
        EgressProxy(url)


def test_a_password_that_is_too_long() -> None:
    with pytest.raises(ValueError, match="255 bytes each"):
        EgressProxy(f"socks5://u:{'p' * 256}@h:1")


def test_the_repr_has_no_password() -> None:
    assert repr(EgressProxy("socks5://u:canary@h:1")) == "<EgressProxy socks5 h:1>"

"""The client's connection: kept alive between streams, plain HTTP for old clients, and still an aiohttp response."""

from __future__ import annotations

import asyncio
import gc
import zlib
from types import ModuleType
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.abc import AbstractAccessLogger

from dragoman.aio.downstream.hijack_runner import HijackRunner
from dragoman.dialects import Dialect
from dragoman_server.app import make_app
from support.gateways import ALL, CROSS, config_for, gate, raw_exchange, served
from support.samples import PATHS, TEXT, dump, judge, request, text_stream
from support.sockets import LAST_CHUNK, ScriptedServer, Send, Stall, Step, Wait, chunk, sse_head, stream
from support.waiting import until

BOTH_LOOPS = TAKEN = True
DIRECTIONS = pytest.mark.parametrize(("client", "upstream"), ALL)
CROSSING = pytest.mark.parametrize(("client", "upstream"), CROSS)


def _asked(client: Dialect, *, version: str = "1.1", connection: str = "") -> bytes:
    body = dump(request(client, stream=True))
    lines = [f"POST {PATHS[client]} HTTP/{version}", "host: x", f"content-length: {len(body)}"]
    return "\r\n".join([*lines, *([f"connection: {connection}"] if connection else []), "\r\n"]).encode() + body


def _unchunked(body: bytes) -> tuple[list[bytes], bytes]:
    """The chunks of a body, and what follows behind its end."""
    chunks: list[bytes] = []
    while True:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        assert body[length : length + 2] == b"\r\n"
        if not length:
            return chunks, body[2:]
        chunks.append(body[:length])
        body = body[length + 2 :]


@DIRECTIONS
async def test_two_streams_and_an_error_on_one_client_connection(client: Dialect, upstream: Dialect) -> None:
    frames = text_stream(upstream, counted=client is not upstream)
    async with ScriptedServer(stream(frames)) as server, gate(config_for(server.url, upstream)) as entrance:
        reader, writer = await asyncio.open_connection("127.0.0.1", entrance.port)
        async with asyncio.timeout(30):
            for _ in range(2):
                writer.write(_asked(client))
                head = await reader.readuntil(b"\r\n\r\n")
                assert b"transfer-encoding: chunked" in head.lower()
                assert b"connection: close" not in head.lower()
                chunks, rest = _unchunked(await reader.readuntil(b"0\r\n\r\n"))
                assert not rest
                assert judge(client, b"".join(chunks)).text == TEXT
            writer.write(f"POST {PATHS[client]} HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n[]".encode())
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 400")
        manager = entrance.runner.server
        assert manager is not None
        assert len(manager.connections) == 1
        writer.close()


@DIRECTIONS
async def test_a_client_that_wants_its_connection_closed(client: Dialect, upstream: Dialect) -> None:
    frames = text_stream(upstream, counted=client is not upstream)
    async with ScriptedServer(stream(frames)) as server, gate(config_for(server.url, upstream)) as entrance:
        head, _, body = (await raw_exchange(entrance.port, _asked(client, connection="close"))).partition(b"\r\n\r\n")
    assert b"connection: close" in head.lower()
    chunks, rest = _unchunked(body)
    assert not rest
    assert judge(client, b"".join(chunks)).text == TEXT


@DIRECTIONS
@pytest.mark.parametrize("connection", ["", "keep-alive"])
async def test_a_client_of_http_1_0_gets_the_stream_without_chunks_and_the_connections_end_behind_it(
    client: Dialect, upstream: Dialect, connection: str
) -> None:
    frames = text_stream(upstream, counted=client is not upstream)
    async with (
        ScriptedServer(stream(frames, pause=0.002)) as server,
        gate(config_for(server.url, upstream)) as entrance,
    ):
        answered = await raw_exchange(entrance.port, _asked(client, version="1.0", connection=connection))
    head, _, body = answered.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head.lower()
    assert b"keep-alive" not in head.lower()
    assert judge(client, body).text == TEXT


@pytest.mark.parametrize("cut", [0, 2, 5])
async def test_a_connection_ends_behind_a_body_that_cannot_be_read(cut: int) -> None:
    """No one finds the next request on it: a client that sent one would wait for ever."""
    head = f"POST {PATHS[Dialect.CHAT]} HTTP/1.1\r\nhost: x\r\ncontent-encoding: gzip\r\ncontent-length: 5\r\n\r\n"
    async with gate(config_for("http://127.0.0.1:9", Dialect.CHAT)) as entrance, asyncio.timeout(30):
        reader, writer = await asyncio.open_connection("127.0.0.1", entrance.port)
        rest = head.encode() + b"abcde"
        if cut < 5:
            writer.write(rest[: cut - 5])
            rest = rest[cut - 5 :]
            assert isinstance(entrance.runner, HijackRunner)
            assert entrance.runner.connections is not None
            manager = entrance.runner.connections.server
            await until(lambda: manager.requests_count == 1)
        if cut != 2:  # two bytes are enough to report; what came behind them would reset the closed socket
            writer.write(rest + _asked(Dialect.CHAT))
        answered = await reader.read()
        assert answered.startswith(b"HTTP/1.1 400")
        assert b"\r\nconnection: close\r\n" in answered.lower()
        assert answered.count(b"HTTP/1.1") == 1
        writer.close()


@CROSSING
async def test_each_read_of_the_upstream_is_one_chunk_of_the_client(client: Dialect, upstream: Dialect) -> None:
    """The frames of one read come in one chunk, whole; the headers do not wait for the second."""
    frames = text_stream(upstream)
    middle = asyncio.Event()
    script: list[Step] = [
        Send(sse_head() + chunk(frames[0])),
        Wait(middle),
        Send(b"".join(chunk(frame) for frame in frames[1:]) + LAST_CHUNK),
    ]
    async with ScriptedServer(script) as server, gate(config_for(server.url, upstream)) as entrance:
        reader, writer = await asyncio.open_connection("127.0.0.1", entrance.port)
        async with asyncio.timeout(30):
            writer.write(_asked(client))
            await reader.readuntil(b"\r\n\r\n")
            first = await reader.readuntil(b"\n\n\r\n")
            middle.set()
            chunks, _ = _unchunked(first + await reader.readuntil(b"0\r\n\r\n"))
        writer.close()
    assert len(chunks) == 2
    assert judge(client, b"".join(chunks)).text == TEXT


class Accesses(AbstractAccessLogger):
    """Keeps the size of each response, as an access log would report it."""

    sizes: list[int]

    def log(self, request: web.BaseRequest, response: web.StreamResponse, time: float) -> None:
        self.sizes.append(response.body_length)


@DIRECTIONS
async def test_the_access_log_reports_the_size(client: Dialect, upstream: Dialect) -> None:
    Accesses.sizes = []
    frames = text_stream(upstream, counted=client is not upstream)
    async with ScriptedServer(stream(frames, pause=0.001)) as server:
        runner = web.AppRunner(make_app(config_for(server.url, upstream)), access_log_class=Accesses)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            whole = await raw_exchange(runner.addresses[0][1], _asked(client, connection="close"))
        finally:
            await runner.cleanup()
    assert Accesses.sizes == [len(whole)]


@web.middleware
async def _marked(request: web.Request, handler: Any) -> web.StreamResponse:
    response: web.StreamResponse = await handler(request)
    return response


async def _signed(request: web.Request, response: web.StreamResponse) -> None:
    response.headers["x-signed"] = "yes"


async def _compressed(request: web.Request, response: web.StreamResponse) -> None:
    response.headers["content-encoding"] = "deflate"
    request.writer.enable_compression("deflate")


@DIRECTIONS
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
async def test_middlewares_and_signals_take_part(client: Dialect, upstream: Dialect, packed: bool) -> None:
    frames = text_stream(upstream, counted=client is not upstream)
    async with ScriptedServer(stream(frames, pause=0.001)) as server:
        app = make_app(config_for(server.url, upstream))
        app.middlewares.append(_marked)
        app.on_response_prepare.append(_signed)
        if packed:
            app.on_response_prepare.append(_compressed)
        async with (
            served(app) as (url, _),
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.post(url + PATHS[client], data=dump(request(client, stream=True))) as response,
        ):
            assert response.headers["x-signed"] == "yes"
            body = await response.read()
    assert judge(client, zlib.decompress(body) if packed else body).text == TEXT


@DIRECTIONS
async def test_an_open_stream_does_not_keep_its_request(client: Dialect, upstream: Dialect, taken: bool) -> None:
    word = "unforgettable" * 5000
    frames = text_stream(upstream, counted=client is not upstream)
    script: list[Step] = [Send(sse_head()), Send(chunk(b"".join(frames[:3]))), Stall()]
    async with (
        ScriptedServer(script) as server,
        gate(config_for(server.url, upstream)) as entrance,
        entrance.post(client, stream=True, messages=[{"role": "user", "content": word}]) as response,
    ):
        await response.content.readany()
        assert isinstance(entrance.runner, HijackRunner)
        assert entrance.runner.connections is not None
        await until(lambda: bool(_handlers()) is not taken)  # one that is left receives of it some turns later
        handlers = _handlers()
        assert len(entrance.runner.connections.hijacked) == taken
        roots = [entrance.gateway, entrance.runner.connections.hijacked, *handlers]
        kept = [size for size in _reachable(*roots) if size > len(word) // 2]
        assert word.encode() in server.requests[0].body
        assert not kept


def _handlers() -> list[object]:
    """Return what aiohttp runs for connections."""
    return [task.get_coro() for task in asyncio.all_tasks() if "RequestHandler" in str(task.get_coro())]


def _reachable(*roots: object) -> list[int]:
    """The sizes of all texts and bytes that some objects hold, near or far, but for the loop's."""
    seen: set[int] = set()
    sizes: list[int] = []
    waiting = list(roots)
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, type | ModuleType | asyncio.AbstractEventLoop):
            continue
        seen.add(id(thing))
        if isinstance(thing, str | bytes):
            sizes.append(len(thing))
        elif not (isinstance(thing, dict) and "__builtins__" in thing):
            waiting += gc.get_referents(thing)
    return sizes

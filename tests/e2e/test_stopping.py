"""A gateway that stops: new requests refused, open ones drained, then ended with an error (mapping §10.4)."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import ClientSession

from dragoman.dialects import Dialect
from dragoman_server.app import make_app
from dragoman_server.proxy.gateway import Gateway
from support.gateways import ALL, CHAT, MESSAGES, config_for, gate, served, until
from support.samples import PATHS, TEXT, dump, judge, read_error, reply, request, text_stream
from support.sockets import LAST_CHUNK, ScriptedServer, Send, Stall, Step, Wait, answer, chunk, sse_head, stream

BOTH_LOOPS = TAKEN = True
DIRECTIONS = pytest.mark.parametrize(("client", "upstream"), ALL)
BUSY = {CHAT: "service_unavailable_error", MESSAGES: "overloaded_error"}


def _paused(upstream: Dialect, resume: asyncio.Event, *, counted: bool) -> list[Step]:
    frames = [Send(chunk(frame)) for frame in text_stream(upstream, counted=counted)]
    return [Send(sse_head()), *frames[:4], Wait(resume), *frames[4:], Send(LAST_CHUNK)]


@DIRECTIONS
async def test_an_open_stream_may_finish(client: Dialect, upstream: Dialect) -> None:
    resume = asyncio.Event()
    script = _paused(upstream, resume, counted=client is not upstream)
    async with ScriptedServer(script) as server, ClientSession() as session:
        async with served(make_app(config_for(server.url, upstream), drain=30.0)) as (url, _):
            response = await session.post(url + PATHS[client], data=dump(request(client, stream=True)))
            whole = await response.content.readany()
            asyncio.get_running_loop().call_later(0.1, resume.set)
        assert resume.is_set()
        whole += await response.read()
    assert judge(client, whole).text == TEXT


@DIRECTIONS
async def test_a_stream_that_does_not_finish_ends_in_an_error(client: Dialect, upstream: Dialect) -> None:
    script = _paused(upstream, asyncio.Event(), counted=True)[:5]
    async with ScriptedServer([*script, Stall()]) as server:
        async with ClientSession() as session:
            async with served(make_app(config_for(server.url, upstream), drain=0.05)) as (url, _):
                response = await session.post(url + PATHS[client], data=dump(request(client, stream=True)))
                whole = await response.content.readany()
            whole += await response.read()
        await until(lambda: not server.open)
    result = judge(client, whole)
    assert result.error is not None
    assert result.error["type"] == BUSY[client]
    assert "shutting down" in result.error["message"]


@DIRECTIONS
@pytest.mark.parametrize("streamed", [True, False], ids=["stream", "whole"])
async def test_a_reply_that_has_not_begun_is_refused(client: Dialect, upstream: Dialect, streamed: bool) -> None:
    async with ScriptedServer([Stall()]) as server, ClientSession() as session:
        async with served(make_app(config_for(server.url, upstream), drain=0.05)) as (url, _):
            body = dump(request(client, stream=streamed))
            asked = asyncio.create_task(_post(session, url + PATHS[client], body))
            await asyncio.wait_for(server.arrived.wait(), 30)
        status, raw = await asked
        await until(lambda: not server.open)
    assert status == (503 if client is CHAT else 529)
    assert read_error(client, raw).type == BUSY[client]


async def _post(session: ClientSession, url: str, body: bytes) -> tuple[int, bytes]:
    async with session.post(url, data=body) as response:
        return response.status, await response.read()


@pytest.mark.parametrize("client", [CHAT, MESSAGES])
async def test_new_requests_are_refused_with_a_time_to_retry(client: Dialect) -> None:
    async with ScriptedServer([Stall()]) as server, gate(config_for(server.url, CHAT)) as entrance:
        await entrance.gateway.stop(0.0)
        status, noted, headers = await entrance.refusal(client)
        assert status == (503 if client is CHAT else 529)
        assert noted.type == BUSY[client]
        assert headers["retry-after"] == "1"
        assert not server.requests


def _asked(client: Dialect, *, streamed: bool = True) -> bytes:
    body = dump(request(client, stream=streamed))
    return f"POST {PATHS[client]} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


@DIRECTIONS
@pytest.mark.parametrize("streamed", [True, False], ids=["stream", "whole"])
async def test_a_reply_that_begins_while_stopping_is_the_last_of_its_connection_and_is_reported(
    client: Dialect, upstream: Dialect, streamed: bool
) -> None:
    """So a client that has sent more already, or is about to, knows that no one reads it (RFC 9112 §9.6)."""
    resume = asyncio.Event()
    replied = stream(text_stream(upstream)) if streamed else answer(200, dump(reply(upstream)))
    async with asyncio.timeout(30), ScriptedServer([Wait(resume), *replied]) as server:
        config = config_for(server.url, upstream)
        async with served(make_app(config, gateway=Gateway(config, lines=True), drain=30.0)) as (url, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            writer.write(_asked(client, streamed=streamed) * 2)
            await server.arrived.wait()
            asyncio.get_running_loop().call_later(0.05, resume.set)
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
    assert head.startswith(b"HTTP/1.1 200")
    assert b"\r\nconnection: close" in head.lower()
    assert b"HTTP/1.1" not in body
    assert body.endswith(b"\r\n0\r\n\r\n") if streamed else TEXT.encode() in body
    assert len(server.requests) == 1


async def test_a_reply_before_the_stop_does_not_close_its_connection() -> None:
    async with (
        ScriptedServer(answer(200, dump(reply(CHAT)))) as server,
        gate(config_for(server.url, CHAT)) as entrance,
        entrance.post(MESSAGES) as response,
    ):
        assert "connection" not in response.headers


@pytest.mark.parametrize("client", [CHAT, MESSAGES])
async def test_a_kept_connection_that_is_used_while_stopping_is_answered_at_once(client: Dialect) -> None:
    """aiohttp would let the request lie until open replies have ended, and then hang up."""
    resume = asyncio.Event()
    script = _paused(CHAT, resume, counted=client is not CHAT)
    async with asyncio.timeout(30), ScriptedServer(script) as server:
        config = config_for(server.url, CHAT)
        async with served(make_app(config, gateway=Gateway(config, lines=True), drain=30.0)) as (url, runner):
            port = int(url.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            kept_reader, kept = await asyncio.open_connection("127.0.0.1", port)
            kept.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
            await kept_reader.readuntil(b'"}')
            writer.write(_asked(client))
            await reader.readuntil(b"\n\n\r\n")
            stopping = asyncio.create_task(runner.cleanup())
            await until(lambda: not runner.sites)
            kept.write(_asked(client))
            refused = await kept_reader.read()
            assert not stopping.done()
            resume.set()
            await stopping
        assert (await reader.read()).endswith(b"\r\n0\r\n\r\n")
        writer.close()
        kept.close()
    head, _, body = refused.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503" if client is CHAT else b"HTTP/1.1 529")
    assert b"\r\nconnection: close" in head.lower()
    assert b"\r\nretry-after: 1" in head.lower()
    assert read_error(client, body).type == BUSY[client]

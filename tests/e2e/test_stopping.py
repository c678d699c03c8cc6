"""A gateway that stops: new requests refused, open ones drained, then ended with an error (design §7)."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import ClientSession

from dragoman.protocols import Dialect
from dragoman_server.app import make_app
from support.gateways import ALL, CHAT, MESSAGES, config_for, gate, served, until
from support.samples import PATHS, TEXT, dump, judge, read_error, request, text_stream
from support.sockets import LAST_CHUNK, ScriptedServer, Send, Stall, Step, Wait, chunk, sse_head

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
        async with served(make_app(config_for(server.url, upstream), drain=3.0)) as (url, _):
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
            await asyncio.wait_for(server.arrived.wait(), 2)
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
        status, told, headers = await entrance.refusal(client)
        assert status == (503 if client is CHAT else 529)
        assert told.type == BUSY[client]
        assert headers["retry-after"] == "1"
        assert not server.requests

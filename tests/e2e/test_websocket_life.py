"""The life of a WebSocket: idle, too old, short of memory, and a gateway that stops."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack

import aiohttp
import pytest

from dragoman.aio.timeouts import Timeouts
from dragoman.dialects import Dialect
from dragoman_server.app import make_app
from dragoman_server.config.websocket import WebSocketOptions
from support.gateways import config_for, gate, served, until
from support.samples import TEXT, read_error, text_stream
from support.sockets import ScriptedServer, Stall, stream
from support.websockets import HANDSHAKE, begun, paused, speaking, text_of

BOTH_LOOPS = True
CHAT, RESPONSES = Dialect.CHAT, Dialect.RESPONSES
GOING_AWAY = aiohttp.WSCloseCode.GOING_AWAY
NOWHERE = "http://127.0.0.1:9"


async def test_an_idle_connection_is_closed() -> None:
    async with (
        gate(config_for(NOWHERE, CHAT, timeouts=Timeouts(keep_alive=0.2))) as opened,
        speaking(opened.url) as client,
    ):
        assert await client.closed() == GOING_AWAY
        await until(lambda: not opened.gateway.services.websockets)


async def test_a_connection_with_a_turn_is_not_idle() -> None:
    resume = asyncio.Event()
    async with ScriptedServer(paused(CHAT, resume)) as server:
        config = config_for(server.url, CHAT, timeouts=Timeouts(keep_alive=0.2))
        async with gate(config) as opened, speaking(opened.url) as client:
            await client.create()
            await client.until("response.output_text.delta")
            asyncio.get_running_loop().call_later(0.6, resume.set)
            assert (await client.rest())[-1]["type"] == "response.completed"
            assert await client.closed() == GOING_AWAY


async def test_pings_keep_an_idle_connection_alive() -> None:
    async with (
        gate(config_for(NOWHERE, CHAT, timeouts=Timeouts(heartbeat=0.05))) as opened,
        speaking(opened.url, autoping=False) as client,
    ):
        for _ in range(3):
            message = await client.socket.receive(timeout=30)
            assert message.type is aiohttp.WSMsgType.PING
            await client.socket.pong(message.data)


async def test_pings_go_out_while_the_upstream_is_silent() -> None:
    async with ScriptedServer([*begun(CHAT), Stall()]) as server:
        config = config_for(server.url, CHAT, timeouts=Timeouts(heartbeat=0.1))
        async with gate(config) as opened, speaking(opened.url, autoping=False) as client:
            await client.create()
            pings = 0
            while pings < 3:
                message = await client.socket.receive(timeout=30)
                pings += message.type is aiohttp.WSMsgType.PING


async def test_a_connection_that_is_too_old_ends_in_an_error() -> None:
    """The code at which clients connect again."""
    config = config_for(NOWHERE, CHAT, websocket=WebSocketOptions(max_age=0.2))
    async with gate(config) as opened, speaking(opened.url) as client:
        error = await client.event()
        assert (error["status"], error["error"]["code"]) == (400, "websocket_connection_limit_reached")
        assert await client.closed() == GOING_AWAY


async def test_a_connection_that_is_too_old_begins_no_response_but_ends_those_that_run() -> None:
    resume = asyncio.Event()
    async with ScriptedServer(paused(CHAT, resume)) as server:
        config = config_for(server.url, CHAT, websocket=WebSocketOptions(max_age=0.3))
        async with gate(config) as opened, speaking(opened.url) as client:
            await client.create()
            await client.until("response.output_text.delta")
            await asyncio.sleep(0.4)
            await client.create(stream_id="late")
            (error,) = [event for event in await client.until("error") if event["type"] == "error"]
            assert error["error"]["code"] == "websocket_connection_limit_reached"
            resume.set()
            assert (await client.rest())[-1]["type"] == "response.completed"
            assert await client.closed() == GOING_AWAY
            assert len(server.requests) == 1


async def test_named_lanes_are_bounded() -> None:
    async with (
        ScriptedServer(stream(text_stream(CHAT))) as server,
        gate(config_for(server.url, CHAT)) as opened,
        speaking(opened.url) as client,
    ):
        for number in range(32):
            assert (await client.turn(stream_id=f"lane-{number}"))[-1]["type"] == "response.completed"
        (error,) = await client.turn(stream_id="another")
        assert (error["error"]["code"], error["stream_id"]) == ("websocket_stream_limit_reached", "another")
        assert text_of(await client.turn(stream_id="lane-0")) == text_of(await client.turn()) == TEXT


async def test_only_the_newest_responses_can_be_continued() -> None:
    async with ScriptedServer(stream(text_stream(CHAT))) as server:
        config = config_for(server.url, CHAT, websocket=WebSocketOptions(responses=1))
        async with gate(config) as opened, speaking(opened.url) as client:
            frames = [await client.turn(generate=False, input=f"turn {number}") for number in range(2)]
            old, new = (events[-1]["response"]["id"] for events in frames)
            (error,) = await client.turn(previous_response_id=old)
            assert error["error"]["code"] == "previous_response_not_found"
            assert text_of(await client.turn(previous_response_id=new)) == TEXT
            assert b"turn 1" in server.requests[0].body


async def test_connections_that_need_too_much_memory_are_closed() -> None:
    """That which was not used longest, when it has no turn: its client connects again."""
    options = WebSocketOptions(total_history=20_000)
    async with (
        gate(config_for(NOWHERE, CHAT, websocket=options)) as opened,
        speaking(opened.url) as one,
        speaking(opened.url) as two,
    ):
        for client in (one, two):
            await client.turn(generate=False, input="x" * 15_000)
        assert await one.closed() == GOING_AWAY
        await two.turn(generate=False)
        assert len(opened.gateway.services.websockets) == 1


# --- a gateway that stops ---------------------------------------------------------------------------------------------


async def test_open_responses_may_finish_and_no_further_ones_begin() -> None:
    resume = asyncio.Event()
    async with (
        ScriptedServer(paused(CHAT, resume)) as server,
        gate(config_for(server.url, CHAT)) as opened,
        speaking(opened.url) as busy,
        speaking(opened.url) as idle,
    ):
        await busy.create()
        await busy.until("response.output_text.delta")
        stopping = asyncio.create_task(opened.gateway.stop(10))
        assert await idle.closed() == GOING_AWAY
        await busy.create(stream_id="late")
        error = (await busy.until("error"))[-1]
        assert (error["status"], error["headers"]["retry-after"]) == (503, "1")
        resume.set()
        assert (await busy.rest())[-1]["type"] == "response.completed"
        assert await busy.closed() == GOING_AWAY
        await stopping
        assert not opened.gateway.services.websockets
        assert len(server.requests) == 1


@pytest.mark.parametrize("upstream", list(Dialect))
async def test_a_response_that_does_not_finish_ends_in_an_error(upstream: Dialect) -> None:
    async with (
        ScriptedServer([*begun(upstream), Stall()]) as server,
        gate(config_for(server.url, upstream)) as opened,
        speaking(opened.url) as client,
    ):
        await client.create()
        await client.until("response.output_text.delta")
        stopping = asyncio.create_task(opened.gateway.stop(0.05))
        events = await client.rest()
        assert events[-1]["type"] == "response.failed"
        assert "shutting down" in events[-1]["response"]["error"]["message"]
        assert await client.closed() == GOING_AWAY
        await stopping
        await until(lambda: not server.open)


async def test_a_server_that_stops_closes_its_connections() -> None:
    """As `dragoman serve` stops: the application's handlers before the server's."""
    async with ScriptedServer([*begun(CHAT), Stall()]) as server, AsyncExitStack() as clients:
        async with served(make_app(config_for(server.url, CHAT), drain=0.05)) as (url, _):
            client = await clients.enter_async_context(speaking(url))
            await client.create()
            await client.until("response.output_text.delta")
        assert (await client.rest())[-1]["type"] == "response.failed"
        assert await client.closed() == GOING_AWAY


async def test_a_gateway_that_stops_accepts_no_connection() -> None:
    async with gate(config_for(NOWHERE, CHAT)) as opened:
        await opened.gateway.stop(0)
        async with opened.session.get(f"{opened.url}/v1/responses", headers=HANDSHAKE) as response:
            assert response.status == 503
            assert "shutting down" in read_error(RESPONSES, await response.read()).message


async def test_a_gateway_that_leaves_still_accepts_connections() -> None:
    """For as long as a balancer still sends clients; each is closed after its turn."""
    async with ScriptedServer(stream(text_stream(CHAT))) as server, gate(config_for(server.url, CHAT)) as opened:
        async with speaking(opened.url) as before:
            opened.gateway.leave()
            assert await before.closed() == GOING_AWAY
        async with speaking(opened.url) as client:
            assert text_of(await client.turn()) == TEXT
            assert await client.closed() == GOING_AWAY


async def test_open_connections_are_counted() -> None:
    async with (
        gate(config_for(NOWHERE, CHAT)) as opened,
        speaking(opened.url),
        opened.session.get(f"{opened.url}/metrics") as response,
    ):
        assert "\ndragoman_open_websockets 1\n" in await response.text()


async def test_a_reload_applies_to_the_next_turn() -> None:
    async with (
        ScriptedServer(stream(text_stream(CHAT))) as server,
        gate(config_for(NOWHERE, CHAT)) as opened,
        speaking(opened.url) as client,
    ):
        (error,) = await client.turn()
        assert error["status"] == 502
        opened.gateway.reconfigure(config_for(server.url, CHAT))
        assert text_of(await client.turn()) == TEXT
        assert json.loads(server.requests[0].body)["model"] == "m"

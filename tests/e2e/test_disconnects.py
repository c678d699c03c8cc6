"""Clients that leave or do not read: the upstream is cancelled or paused, every connection accounted for."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from dragoman.aio.timeouts import Timeouts
from dragoman.dialects import Dialect
from dragoman_server.config.load import simulated_config
from dragoman_server.simulator import STREAMS
from oracles.simulator import strict_simulator
from support.gateways import ALL, CHAT, CROSS, MESSAGES, Gate, config_for, gate, served, until
from support.samples import PATHS, chat_frame, dump, messages_frame, request, text_stream
from support.sockets import ScriptedServer, Send, Stall, Step, chunk, sse_head

BOTH_LOOPS = TAKEN = True
DIRECTIONS = pytest.mark.parametrize(("client", "upstream"), ALL)
CROSSING = pytest.mark.parametrize(("client", "upstream"), CROSS)
FAST = Timeouts(heartbeat=1.0)
"""Looks at the client every quarter of a second; by default it is a second, to cost nothing."""
CANCELLING = pytest.mark.parametrize("cancelling", [True, False], ids=["cancelling", "not-cancelling"])


@asynccontextmanager
async def raw_client(
    entrance: Gate, client: Dialect, *, stream: bool = True, small: bool = False
) -> AsyncIterator[socket.socket]:
    """A client on a bare socket that has sent its request and decides itself when to read."""
    body = dump(request(client, stream=stream))
    head = f"POST {PATHS[client]} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    loop = asyncio.get_running_loop()
    with socket.socket() as connection:
        connection.setblocking(False)
        if small:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await loop.sock_connect(connection, ("127.0.0.1", entrance.port))
        await loop.sock_sendall(connection, head.encode() + f"content-length: {len(body)}\r\n\r\n".encode() + body)
        yield connection


async def read_some(connection: socket.socket) -> bytes:
    """Whatever comes next."""
    return await asyncio.wait_for(asyncio.get_running_loop().sock_recv(connection, 65536), 30)


def _silent(upstream: Dialect, begun: int) -> list[Step]:
    return [Send(sse_head()), *(Send(chunk(frame)) for frame in text_stream(upstream)[:begun]), Stall()]


@DIRECTIONS
@CANCELLING
async def test_T75_a_client_that_leaves_cancels_a_silent_upstream(
    client: Dialect, upstream: Dialect, cancelling: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "dragoman")
    async with (
        ScriptedServer(_silent(upstream, 4)) as server,
        gate(config_for(server.url, upstream, timeouts=FAST), handler_cancellation=cancelling) as entrance,
    ):
        async with raw_client(entrance, client) as connection:
            while b"Gr" not in await read_some(connection):
                pass
        await asyncio.wait_for(server.hung_up.wait(), 0.5 if cancelling else 2)
        await until(lambda: "abandoned" in caplog.text)
    assert not server.open
    assert "defect" not in caplog.text


EARLY: dict[str, list[Step]] = {"no head": [Stall()], "no body": [Send(sse_head()), Stall()]}


@DIRECTIONS
@CANCELLING
@pytest.mark.parametrize("streamed", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("silence", EARLY)
async def test_T75_the_same_before_the_reply_has_begun(
    client: Dialect, upstream: Dialect, cancelling: bool, streamed: bool, silence: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with (
        ScriptedServer(EARLY[silence]) as server,
        gate(config_for(server.url, upstream, timeouts=FAST), handler_cancellation=cancelling) as entrance,
    ):
        async with raw_client(entrance, client, stream=streamed):
            await asyncio.wait_for(server.arrived.wait(), 30)
        await asyncio.wait_for(server.hung_up.wait(), 0.5 if cancelling else 2)
    assert not server.open
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR], caplog.text


@pytest.mark.parametrize("client", [CHAT, MESSAGES])
@CANCELLING
async def test_a_client_that_leaves_while_it_sends_its_body_is_no_defect(
    client: Dialect, cancelling: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        ScriptedServer([Stall()]) as server,
        gate(config_for(server.url, CHAT), handler_cancellation=cancelling) as entrance,
    ):
        with socket.create_connection(("127.0.0.1", entrance.port)) as connection:
            head = f"POST {PATHS[client]} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{{"
            connection.sendall(head.encode())
            manager = entrance.runner.server
            assert manager is not None
            await until(lambda: manager.connections)
            await asyncio.sleep(0)
        await until(lambda: not manager.connections)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR], caplog.text
    assert not server.requests


@pytest.mark.turns
@CANCELLING
async def test_T74_many_abandoned_streams_leave_no_connection(cancelling: bool) -> None:
    simulator = strict_simulator(pace=0.005)
    async with served(simulator) as (url, _):
        config = simulated_config().with_simulator(url)
        async with gate(replace(config, simulated=False), handler_cancellation=cancelling) as entrance:

            async def abandon(number: int) -> None:
                client = (CHAT, MESSAGES)[number % 2]
                model = ("sim-long-2000", "chat/sim-long-2000", "messages/sim-long-2000")[number % 3]
                async with entrance.post(client, stream=True, model=model) as response:
                    assert response.status == 200
                    await response.content.readany()
                    response.close()

            await asyncio.gather(*(abandon(number) for number in range(60)))
            streams = simulator[STREAMS]
            await until(lambda: streams.open == 0 and streams.abandoned == 60)
            await until(lambda: not getattr(entrance.gateway.services.upstream._transport, "busy"))  # noqa: B009


# --- slow readers ----------------------------------------------------------------------------------------------------


def _flood(upstream: Dialect, megabytes: int) -> list[Step]:
    """Far more than the buffers between an upstream and a client that does not read can take."""
    word = "x" * 4096
    frames = text_stream(upstream, [])
    if upstream is CHAT:
        frames[1:1] = [chat_frame({"content": word})] * (megabytes * 256)
    else:
        delta = {"type": "text_delta", "text": word}
        frames[2:2] = [messages_frame("content_block_delta", index=0, delta=delta)] * (megabytes * 256)
    sent = {frame: Send(chunk(frame)) for frame in frames}  # equal frames are one object
    return [Send(sse_head()), *(sent[frame] for frame in frames), Send(b"0\r\n\r\n")]


@DIRECTIONS
async def test_a_client_that_does_not_read_pauses_the_upstream_and_is_dropped(
    client: Dialect, upstream: Dialect
) -> None:
    async with ScriptedServer(_flood(upstream, 64)) as server:
        timeouts = Timeouts(write=0.4, idle=5, heartbeat=0.05)
        async with gate(config_for(server.url, upstream, timeouts=timeouts)) as entrance:
            async with raw_client(entrance, client, small=True) as connection:
                await asyncio.wait_for(server.stopped_reading.wait(), 30)
                await asyncio.wait_for(server.hung_up.wait(), 30)
                received = 0
                try:
                    while data := await read_some(connection):
                        received += len(data)
                except ConnectionError:
                    pass
            # What was buffered anywhere between the two, not the 64 MiB of the reply.
            assert received < 16 * 2**20
        await until(lambda: not server.open)


@pytest.mark.turns
@CROSSING
async def test_a_slow_client_gets_everything(client: Dialect, upstream: Dialect) -> None:
    """Paused, but never past the write timeout: nothing is lost, and the waiting is not the upstream's silence."""
    async with ScriptedServer(_flood(upstream, 12)) as server:
        timeouts = Timeouts(write=30, idle=1.0, first_byte=30)
        async with (
            gate(config_for(server.url, upstream, timeouts=timeouts)) as entrance,
            raw_client(entrance, client, small=True) as connection,
        ):
            await asyncio.wait_for(server.stopped_reading.wait(), 30)
            await asyncio.sleep(1.5)  # longer than idle: the upstream is paused, not silent
            end = b"message_stop" if client is MESSAGES else b"[DONE]"
            size, tail = 0, b""
            while end not in tail:
                data = await read_some(connection)
                assert data, tail
                size += len(data)
                tail = (tail + data)[-4096:]
            assert b"error" not in tail
            assert size > 12 * 2**20

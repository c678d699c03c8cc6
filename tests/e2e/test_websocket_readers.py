"""Clients of the WebSocket that leave, or do not read: the upstream is cancelled or paused."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.aio.timeouts import Timeouts
from dragoman.dialects import Dialect
from support.gateways import Gate, config_for, gate, until
from support.samples import text_stream
from support.sockets import ScriptedServer, Stall, stream
from support.websockets import begun, speaking, text_of

BOTH_LOOPS = True
CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES
EACH = pytest.mark.parametrize("upstream", [CHAT, MESSAGES, RESPONSES])
CANCELLING = pytest.mark.parametrize("cancelling", [True, False], ids=["cancelling", "not-cancelling"])


@EACH
@CANCELLING
async def test_a_close_within_a_stream_cancels_the_upstream(upstream: Dialect, cancelling: bool) -> None:
    async with (
        ScriptedServer([*begun(upstream), Stall()]) as server,
        gate(config_for(server.url, upstream), handler_cancellation=cancelling) as opened,
    ):
        async with speaking(opened.url) as client:
            await client.create()
            await client.until("response.output_text.delta")
            await client.socket.close()
        await asyncio.wait_for(server.hung_up.wait(), 30)
        await until(lambda: not opened.gateway.services.websockets)
        assert "abandoned" in await metrics(opened)


async def metrics(opened: Gate) -> str:
    """The outcomes of requests."""
    async with opened.session.get(f"{opened.url}/metrics") as response:
        text = await response.text()
    return "\n".join(line for line in text.splitlines() if line.startswith("dragoman_requests_total"))


@CANCELLING
async def test_a_client_that_disconnects_cancels_the_upstream(cancelling: bool) -> None:
    async with (
        ScriptedServer([*begun(CHAT), Stall()]) as server,
        gate(config_for(server.url, CHAT), handler_cancellation=cancelling) as opened,
        speaking(opened.url) as client,
    ):
        await client.create()
        await client.until("response.output_text.delta")
        client.abort()
        await asyncio.wait_for(server.hung_up.wait(), 30)
        await until(lambda: not opened.gateway.services.websockets)


async def test_a_client_that_does_not_read_pauses_the_upstream_and_is_dropped() -> None:
    """The buffered bytes have a bound, and so has the time."""
    words = ["x" * 65536] * 400
    async with (
        ScriptedServer(stream(text_stream(CHAT, words))) as server,
        gate(config_for(server.url, CHAT, timeouts=Timeouts(write=1.0))) as opened,
        speaking(opened.url, max_msg_size=0) as client,
    ):
        await client.create()
        await client.until("response.output_text.delta")
        # aiohttp's client pauses the connection when it has 64 KiB that are not received.
        await asyncio.wait_for(server.stopped_reading.wait(), 30)
        await asyncio.wait_for(server.hung_up.wait(), 30)
        await until(lambda: not opened.gateway.services.websockets)


@pytest.mark.turns
@EACH
async def test_a_client_that_reads_slowly_gets_everything(upstream: Dialect) -> None:
    words = ["x" * 65536] * 64
    async with (
        ScriptedServer(stream(text_stream(upstream, words))) as server,
        gate(config_for(server.url, upstream, timeouts=Timeouts(idle=1.0))) as opened,
        speaking(opened.url, max_msg_size=0) as client,
    ):
        await client.create()
        await asyncio.sleep(1.5)  # longer than `idle`: the upstream is paused, not silent
        events = await client.rest()
        assert events[-1]["type"] == "response.completed"
        assert len(text_of(events)) == 64 * 65536

"""Group H: connections of streams that were left or failed, and what such a stream cost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anthropic
import openai
import pytest

from dragoman.aio.timeouts import PoolOptions, Timeouts
from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman_server.config.schema import Config
from regressions.dialect_bodies import begins, broken_off, writes
from regressions.live import CHAT, MESSAGES, PARTS, RESPONSES, WORDS, ask, every_direction, holds_all, whole_stream
from support.gateways import Gate, config_for, gate, until
from support.responses_samples import failed_event, numbered
from support.samples import error_frame
from support.sockets import Abort, ScriptedServer, Send, Stall, Step, answer, chunk, sse_head, stream

LEAVING = Timeouts(heartbeat=1.0)


def _one_connection(config: Config) -> Config:
    """A second connection would hide that the first one was never given back."""
    few = PoolOptions(limit=1)
    timeouts = replace(config.server.timeouts, connect=20.0)
    return replace(config, server=replace(config.server, connections=few, timeouts=timeouts))


def _open(frames: Sequence[bytes]) -> list[Step]:
    return [Send(sse_head()), *(Send(chunk(frame)) for frame in frames)]


def _failures(upstream: Dialect) -> dict[str, list[Step]]:
    begun = broken_off(upstream)
    noted = numbered(failed_event("too much")) if upstream is RESPONSES else [error_frame(upstream)]
    return {
        "error in the stream": stream([*begun, *noted]),
        "cut": [*_open(begun), Abort()],
        "ended too early": stream(begun),
        "nonsense": [*_open([*begins(upstream), b"data: {nonsense\n\n"]), Abort()],
        "refused": answer(500, b'{"error":{"message":"no"}}'),
        "refused without end": [Send(b"HTTP/1.1 503 X\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n"), Abort()],
        "no stream": answer(200, b"<html>", content_type="text/html"),
    }


@every_direction
@pytest.mark.parametrize("failure", _failures(CHAT))
async def test_T74_a_failed_stream_returns_its_connection(client: Dialect, upstream: Dialect, failure: str) -> None:
    """Failed streams never give their connection back, until none is left (BerriAI/litellm#21213,
    BerriAI/litellm#34496, onyx-dot-app/onyx#13743): there is one only, and the next request gets it."""
    frames = whole_stream(upstream, *PARTS)
    scripts = [_failures(upstream)[failure]] * 3
    async with (
        ScriptedServer(*scripts, stream(frames)) as server,
        gate(_one_connection(config_for(server.url, upstream))) as entrance,
        asyncio.timeout(30),
    ):
        for _ in scripts:
            async with ask(entrance, client) as response:
                await response.read()
        async with ask(entrance, client) as response:
            assert response.status == 200, await response.text()
            holds_all(client, upstream, await response.read(), frames)


@every_direction
@pytest.mark.parametrize("moment", ["before the reply", "in a silence", "in the middle"])
async def test_T74_an_abandoned_stream_returns_its_connection(client: Dialect, upstream: Dialect, moment: str) -> None:
    """A client that leaves before the end takes a connection along (openai/openai-python#763,
    mistralai/client-python#532)."""
    frames = whole_stream(upstream, *PARTS)
    begun: dict[str, list[Step]] = {
        "before the reply": [Stall()],
        "in a silence": [*_open(frames[:3]), Stall()],
        "in the middle": [*_open(frames[:3]), *_open(frames[3:4] * 50)[1:], Stall()],
    }
    async with (
        ScriptedServer(begun[moment], begun[moment], stream(frames)) as server,
        gate(_one_connection(config_for(server.url, upstream, timeouts=LEAVING))) as entrance,
        asyncio.timeout(30),
    ):
        for _ in range(2):
            server.arrived.clear()
            server.hung_up.clear()
            await _leave(entrance, server, client, after_bytes=moment != "before the reply")
            await server.hung_up.wait()
        async with ask(entrance, client) as response:
            assert response.status == 200, await response.text()
            holds_all(client, upstream, await response.read(), frames)
        assert server.connections == 3, "a connection in an unknown state is not used again"


async def _leave(entrance: Gate, server: ScriptedServer, client: Dialect, *, after_bytes: bool) -> None:
    asking = asyncio.ensure_future(ask(entrance, client).__aenter__())
    await server.arrived.wait()
    if not after_bytes:
        asking.cancel()
        await asyncio.wait([asking])
        return
    response = await asking
    await response.content.readany()
    response.close()


@pytest.mark.parametrize("upstream", list(Dialect))
async def test_T74_the_vendors_own_clients_may_leave_in_mid_stream(upstream: Dialect) -> None:
    """Likewise with the SDKs: a loop that breaks out of their streams (openai/openai-python#763)."""
    frames = whole_stream(upstream, ("text", WORDS))
    script: list[Step] = [*_open(frames[:4]), Stall()]
    async with (
        ScriptedServer(script) as server,
        gate(_one_connection(config_for(server.url, upstream, timeouts=LEAVING))) as entrance,
        openai.AsyncOpenAI(base_url=f"{entrance.url}/v1", api_key="x", max_retries=0) as theirs,
        anthropic.AsyncAnthropic(base_url=entrance.url, api_key="x", max_retries=0) as others,
        asyncio.timeout(30),
    ):
        chat = await theirs.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "Hi"}], stream=True
        )
        async for _ in chat:
            break
        await chat.close()
        await until(lambda: not server.open)
        async with theirs.responses.stream(model="m", input="Hi") as responses:
            async for _ in responses:
                break
        await until(lambda: not server.open)
        async with others.messages.stream(
            model="m", max_tokens=9, messages=[{"role": "user", "content": "Hi"}]
        ) as messages:
            async for _ in messages:
                break
        await until(lambda: not server.open)
    assert len(server.requests) == 3


@every_direction
async def test_T75_the_upstream_stops_when_the_client_has_left(client: Dialect, upstream: Dialect) -> None:
    """The client left, the upstream runs to its end and bills (QuantumNous/new-api#4184, vercel/ai#8325,
    Wei-Shaw/sub2api#4408): here it would go on for ever."""
    parts = [("text", WORDS)]
    frames = whole_stream(upstream, *parts)
    more = writes(upstream, 0, parts, "on and on ") * 50
    script: list[Step] = [*_open(frames[:4]), *(Send(chunk(frame)) for frame in more), Stall()]
    async with (
        ScriptedServer(script) as server,
        gate(config_for(server.url, upstream, timeouts=LEAVING)) as entrance,
        asyncio.timeout(30),
    ):
        response = await ask(entrance, client).__aenter__()
        await response.content.readany()
        own = response.headers["x-dragoman-request-id"]
        response.close()
        await server.hung_up.wait()
        assert not server.open
        kept = entrance.gateway.receipts.find(own, b"")
        assert kept is not None
        await until(lambda: kept.ended != "open")
        async with entrance.session.get(f"{entrance.url}/v1/dragoman/receipts/{own}") as noted:
            facts = await noted.json()
        assert (facts["ended"], facts["status"]) == ("abandoned", 200)
        async with entrance.session.get(f"{entrance.url}/metrics") as page:
            metrics = await page.text()
    assert any("abandoned" in line and line.endswith(" 1") for line in metrics.splitlines())


async def _left_in_the_middle(entrance: Gate, client: Dialect) -> tuple[Any, str]:
    """The receipt and the metrics behind a stream that its client left when it had the last word."""
    response = await ask(entrance, client).__aenter__()
    seen = b""
    while "👋".encode() not in seen and b"\\ud83d" not in seen:
        seen += await response.content.readany()
    own = response.headers["x-dragoman-request-id"]
    response.close()
    kept = entrance.gateway.receipts.find(own, b"")
    assert kept is not None
    await until(lambda: kept.ended != "open")
    async with entrance.session.get(f"{entrance.url}/v1/dragoman/receipts/{own}") as noted:
        facts = await noted.json()
    async with entrance.session.get(f"{entrance.url}/metrics") as page:
        return facts, await page.text()


@pytest.mark.parametrize("client", CLIENT_DIALECTS)
async def test_T75_leaving_early_does_not_make_the_answer_free(client: Dialect) -> None:
    """A client that leaves just before the counts was never booked (theopenco/llmgateway#3331): the counts that it has
    stated until then is in the receipt and in the metrics."""
    frames = whole_stream(MESSAGES, ("text", WORDS))
    async with (
        ScriptedServer([*_open(frames[:-1]), Stall()]) as server,
        gate(config_for(server.url, MESSAGES, timeouts=LEAVING)) as entrance,
        asyncio.timeout(30),
    ):
        facts, metrics = await _left_in_the_middle(entrance, client)
    usage = facts["usage"]
    assert usage["input_total"] == 9
    assert 'dragoman_tokens_total{provider="up",kind="input"} 9' in metrics
    output = -(-len(WORDS) // 4)  # the count at the start is not final
    assert (usage["output_total"], usage["estimated"]) == (output, ["output_total"])
    assert f'dragoman_tokens_total{{provider="up",kind="output_estimated"}} {output}' in metrics


@pytest.mark.parametrize("client", [MESSAGES, RESPONSES])
async def test_T75_an_upstream_that_counts_at_the_end_only_is_booked_by_an_estimate(client: Dialect) -> None:
    """A Chat upstream counts behind its last word: of what was left before there is the prompt's size and the text."""
    frames = whole_stream(CHAT, ("text", WORDS))
    async with (
        ScriptedServer([*_open(frames[:-3]), Stall()]) as server,
        gate(config_for(server.url, CHAT, timeouts=LEAVING)) as entrance,
        asyncio.timeout(30),
    ):
        facts, metrics = await _left_in_the_middle(entrance, client)
    usage = facts["usage"]
    assert (facts["ended"], usage["estimated"]) == ("abandoned", ["input_total", "output_total"])
    assert 0 < usage["input_total"] < 100
    assert usage["output_total"] == -(-len(WORDS) // 4)
    assert 'kind="output"}' not in metrics
    assert f'kind="input_estimated"}} {usage["input_total"]}' in metrics

"""`timeouts.early_reply`: a stream begins before its upstream has answered, and pings keep its connection alive."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import anthropic
import openai
import pytest

from dragoman.aio.proxy_stream import ping_of
from dragoman.aio.timeouts import Timeouts
from dragoman.dialects import CLIENT_DIALECTS, Dialect
from regressions.live import CHAT, MESSAGES, PARTS, RESPONSES, WORDS, ask, every_direction, holds_all, whole_stream
from support.directions import judge
from support.gateways import Gate, config_for, gate, until
from support.samples import TEXT, error_frame, reply
from support.sockets import LAST_CHUNK, Close, ScriptedServer, Send, Stall, Step, Wait, answer, chunk, sse_head, stream

TAKEN = True
EARLY = Timeouts(early_reply=0.02, heartbeat=0.05)
LATE = Timeouts(early_reply=60.0)
BUSY = json.dumps({"error": {"type": "rate_limit_error", "code": "rate_limit_exceeded", "message": "slow down"}})
REFUSED = answer(429, BUSY.encode(), headers=[("retry-after", "7")])


async def received(entrance: Gate, client: Dialect, then: asyncio.Event) -> tuple[bytes, dict[str, Any]]:
    """Return what the client got behind pings, of an upstream that goes on when it had two; and the receipt."""
    ping = ping_of(client)
    async with asyncio.timeout(30):
        async with ask(entrance, client) as response:
            assert (response.status, response.content_type) == (200, "text/event-stream")
            own = response.headers["x-dragoman-request-id"]
            assert response.headers["request-id" if client is MESSAGES else "x-request-id"] == own
            seen = b""
            while seen.count(ping) < 2:
                seen += await response.content.readany()
            then.set()
            seen += await response.read()
        async with entrance.session.get(f"{entrance.url}/v1/dragoman/receipts/{own}") as found:
            receipt = await found.json()
    assert receipt["status"] == 200
    while seen.startswith(ping):
        seen = seen[len(ping) :]
    return seen, receipt


Script = Callable[[Sequence[bytes], asyncio.Event], list[Step]]
SILENT: dict[str, Script] = {
    "no answer": lambda frames, then: [Wait(then), *stream(frames)],
    "no event": lambda frames, then: [Send(sse_head()), Wait(then), Send(chunk(b"".join(frames)) + LAST_CHUNK)],
}


@every_direction
@pytest.mark.parametrize("silent", SILENT)
async def test_T72_pings_fill_the_wait_for_the_first_event(client: Dialect, upstream: Dialect, silent: str) -> None:
    """Nothing is sent before the upstream's first event, and balancers cut at 60 s (maximhq/bifrost#5010)."""
    then, frames = asyncio.Event(), whole_stream(upstream, *PARTS)
    async with (
        ScriptedServer(SILENT[silent](frames, then)) as server,
        gate(config_for(server.url, upstream, timeouts=EARLY)) as entrance,
    ):
        seen, receipt = await received(entrance, client, then)
    holds_all(client, upstream, seen, frames)
    assert receipt["ended"] == "completed"


FAILING: dict[str, Callable[[Dialect], list[Step]]] = {
    "refused": lambda _: REFUSED,
    "cut": lambda _: [Close()],
    "an empty stream": lambda _: [Send(sse_head()), Send(LAST_CHUNK)],
    "an error for a stream": lambda upstream: stream([error_frame(upstream)]),
    "no stream at all": lambda _: answer(200, b"<html>", content_type="text/html"),
    "a reply that is none": lambda _: answer(200, b'{"surprise":1}'),
}


@every_direction
@pytest.mark.parametrize("failing", FAILING)
async def test_T72_what_fails_behind_pings_is_an_error_in_the_stream(
    client: Dialect, upstream: Dialect, failing: str
) -> None:
    then = asyncio.Event()
    async with (
        ScriptedServer([Wait(then), *FAILING[failing](upstream)]) as server,
        gate(config_for(server.url, upstream, timeouts=EARLY)) as entrance,
    ):
        seen, receipt = await received(entrance, client, then)
    if (client, failing) == (upstream, "an error for a stream"):
        assert b"too much" in seen  # the upstream's own event
    else:
        noted = judge(client, seen)
        assert noted.error is not None
        assert (noted.text, noted.finish) == ("", "failed" if client is RESPONSES else None)
    if failing == "refused":
        assert b"slow down" in seen
    assert receipt["ended"] == "failed"
    assert receipt["error"]["kind"]


@every_direction
async def test_a_whole_reply_behind_pings_is_replayed(client: Dialect, upstream: Dialect) -> None:
    then = asyncio.Event()
    async with (
        ScriptedServer([Wait(then), *answer(200, json.dumps(reply(upstream)).encode())]) as server,
        gate(config_for(server.url, upstream, timeouts=EARLY)) as entrance,
    ):
        seen, receipt = await received(entrance, client, then)
    noted = judge(client, seen)
    assert (noted.text, noted.error, receipt["ended"]) == (TEXT, None, "completed")


@every_direction
async def test_an_upstream_that_answers_in_time_keeps_its_status(client: Dialect, upstream: Dialect) -> None:
    frames = whole_stream(upstream, *PARTS)
    async with (
        ScriptedServer(REFUSED, stream(frames)) as server,
        gate(config_for(server.url, upstream, timeouts=LATE)) as entrance,
    ):
        async with ask(entrance, client) as response:
            assert (response.status, response.headers["retry-after"]) == (429, "7")
            assert b"slow down" in await response.read()
        async with ask(entrance, client) as response:
            holds_all(client, upstream, await response.read(), frames)


async def test_whole_replies_wait_for_their_upstream() -> None:
    then = asyncio.Event()
    asyncio.get_running_loop().call_later(0.1, then.set)
    async with (
        ScriptedServer([Wait(then), *REFUSED]) as server,
        gate(config_for(server.url, MESSAGES, timeouts=EARLY)) as entrance,
        entrance.post(CHAT) as response,
    ):
        assert response.status == 429


@pytest.mark.parametrize("client", CLIENT_DIALECTS)
async def test_an_upstream_that_stays_silent_is_given_up_in_the_stream(client: Dialect) -> None:
    timeouts = Timeouts(early_reply=0.02, heartbeat=0.05, first_byte=0.3)
    async with (
        ScriptedServer([Stall()]) as server,
        gate(config_for(server.url, MESSAGES, timeouts=timeouts)) as entrance,
    ):
        seen, receipt = await received(entrance, client, asyncio.Event())
        await until(lambda: not server.open)
    assert receipt["error"]["kind"] == "timeout"
    if client is not MESSAGES:
        assert judge(client, seen).error is not None


async def test_a_client_that_leaves_behind_pings_cancels_the_upstream() -> None:
    async with (
        ScriptedServer([Stall()]) as server,
        gate(config_for(server.url, CHAT, timeouts=EARLY)) as entrance,
    ):
        async with asyncio.timeout(30), ask(entrance, MESSAGES) as response:
            await response.content.readany()
            await until(lambda: bool(server.requests))
            response.close()
            await until(lambda: not server.open)
        await until(lambda: not entrance.gateway.services.open_requests)


async def test_a_stopping_gateway_ends_replies_that_have_pings_only() -> None:
    async with (
        ScriptedServer([Stall()]) as server,
        gate(config_for(server.url, CHAT, timeouts=EARLY)) as entrance,
        asyncio.timeout(30),
        ask(entrance, MESSAGES) as response,
    ):
        seen = await response.content.readany()
        await entrance.gateway.stop(0)
        noted = judge(MESSAGES, seen + await response.read())
    assert noted.error is not None
    assert noted.error["type"] == "overloaded_error"


@pytest.mark.parametrize("refused", [False, True])
async def test_the_official_sdks_read_a_reply_that_began_early(refused: bool) -> None:
    frames = whole_stream(CHAT, *PARTS)
    waits = [asyncio.Event() for _ in Dialect]
    after = REFUSED if refused else stream(frames)
    async with (
        ScriptedServer(*([Wait(then), *after] for then in waits)) as server,
        gate(config_for(server.url, CHAT, timeouts=EARLY)) as entrance,
        anthropic.AsyncAnthropic(base_url=entrance.url, api_key="k", max_retries=0) as claude,
        openai.AsyncOpenAI(base_url=entrance.url + "/v1", api_key="k", max_retries=0) as gpt,
        asyncio.timeout(30),
    ):
        for client, then in zip(Dialect, waits, strict=True):
            asyncio.get_running_loop().call_later(0.15, then.set)
            try:
                stated = await _text(client, claude, gpt)
            except (anthropic.APIError, openai.APIError) as error:
                stated = str(error)
            assert ("slow down" in stated) if refused else (stated == WORDS)


async def _text(client: Dialect, claude: anthropic.AsyncAnthropic, gpt: openai.AsyncOpenAI) -> str:
    if client is MESSAGES:
        async with claude.messages.stream(
            model="m", max_tokens=9, messages=[{"role": "user", "content": "Hi"}]
        ) as thread:
            return await thread.get_final_text()
    if client is RESPONSES:
        async with gpt.responses.stream(model="m", input="Hi") as noted:
            async for event in noted:
                if event.type == "response.failed":
                    assert event.response.error is not None
                    return event.response.error.message
            return (await noted.get_final_response()).output_text
    text = ""
    async for part in await gpt.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "Hi"}], stream=True
    ):
        text += (part.choices[0].delta.content or "") if part.choices else ""
    return text

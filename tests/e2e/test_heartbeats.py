"""Heartbeats that the client counts and survives, over HTTP and over a WebSocket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import aiohttp
import pytest
from openai._streaming import SSEDecoder

from dragoman.aio.timeouts import Timeouts
from dragoman.dialects import Dialect
from oracles.grammar import sse
from support.gateways import Gate, config_for, gate
from support.samples import TEXT, text_stream
from support.sockets import LAST_CHUNK, ScriptedServer, Send, Step, Wait, chunk, sse_head
from support.websockets import BEGUN, paused, speaking, text_of

BOTH_LOOPS = True
CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES
EACH = pytest.mark.parametrize("upstream", [CHAT, MESSAGES, RESPONSES])
CODEX = {"user-agent": "codex_exec/0.171.0"}
TIMEOUTS = Timeouts(heartbeat=0.05)


async def read_over(
    entrance: Gate, client: Dialect, mark: bytes, resume: asyncio.Event, headers: Mapping[str, str]
) -> bytes:
    """The bytes of a stream whose upstream goes on once `mark` has arrived."""
    out = b""
    async with asyncio.timeout(30), entrance.post(client, stream=True, headers=headers) as response:
        assert response.status == 200
        async for data in response.content.iter_any():
            out += data
            if mark in out:
                resume.set()
    return out


def payloads(data: bytes) -> list[dict[str, Any]]:
    found = [json.loads(item.data) for item in sse.written(data) if item.data not in (None, b"[DONE]")]
    assert all(type(payload) is dict for payload in found)
    return found


@EACH
async def test_T72_codex_gets_an_event_with_a_number(upstream: Dialect) -> None:
    resume = asyncio.Event()
    async with (
        ScriptedServer(paused(upstream, resume)) as server,
        gate(config_for(server.url, upstream, timeouts=TIMEOUTS)) as entrance,
    ):
        out = await read_over(entrance, RESPONSES, b"event: keepalive\n", resume, CODEX)
    events = payloads(out)
    assert b":" not in {line[:1] for line in out.split(b"\n")}, "Codex counts no comments"
    assert events[-1]["type"] == "response.completed"
    assert text_of(events) == TEXT
    numbers = [event["sequence_number"] for event in events]
    if upstream is RESPONSES:  # the upstream's events are forwarded with their own numbers
        assert numbers == sorted(numbers)
    else:
        assert numbers == list(range(len(events)))


@EACH
async def test_codex_gets_it_in_a_reply_that_is_started_early(upstream: Dialect) -> None:
    begin, resume = asyncio.Event(), asyncio.Event()
    resume.set()
    timeouts = Timeouts(heartbeat=0.05, early_reply=0.05)
    async with (
        ScriptedServer([Wait(begin), *paused(upstream, resume)]) as server,
        gate(config_for(server.url, upstream, timeouts=timeouts)) as entrance,
    ):
        out = await read_over(entrance, RESPONSES, b"event: keepalive\n", begin, CODEX)
    assert payloads(out)[0] == {"type": "keepalive", "sequence_number": 0}
    assert payloads(out)[-1]["type"] == "response.completed"
    assert b":" not in {line[:1] for line in out.split(b"\n")}


@EACH
async def test_other_clients_of_responses_get_a_comment(upstream: Dialect) -> None:
    resume = asyncio.Event()
    async with (
        ScriptedServer(paused(upstream, resume)) as server,
        gate(config_for(server.url, upstream, timeouts=TIMEOUTS)) as entrance,
    ):
        out = await read_over(entrance, RESPONSES, b": keep-alive\n\n", resume, {})
    assert "keepalive" not in {event["type"] for event in payloads(out)}
    assert payloads(out)[-1]["type"] == "response.completed"


@pytest.mark.parametrize("client", [CHAT, RESPONSES])
@pytest.mark.parametrize("behind", [True, False], ids=["id last", "id first"])
async def test_a_comment_after_ids_is_no_event_for_the_sdk(client: Dialect, behind: bool) -> None:
    """OpenAI's SDK keeps the last id, and takes each blank line without data after it for an event."""
    resume = asyncio.Event()
    frames = [
        frame[:-1] + b"id: %d\n\n" % number if behind else b"id: %d\n" % number + frame
        for number, frame in enumerate(text_stream(client))
    ]
    begun, rest = frames[: BEGUN[client]], frames[BEGUN[client] :]
    steps: list[Step] = [Send(sse_head()), *(Send(chunk(frame)) for frame in begun), Wait(resume)]
    steps += [*(Send(chunk(frame)) for frame in rest), Send(LAST_CHUNK)]
    async with (
        ScriptedServer(steps) as server,
        gate(config_for(server.url, client, timeouts=TIMEOUTS)) as entrance,
    ):
        out = await read_over(entrance, client, b": keep-alive\n", resume, {})
    assert b": keep-alive\n\n" not in out
    seen = [event.data for event in SSEDecoder().iter_bytes(iter([out]))]
    assert all(seen), "an event without data"
    assert len(seen) == len(frames)
    assert out.replace(b": keep-alive\n", b"") == b"".join(frames)


# --- WebSocket --------------------------------------------------------------------------------------------------------


@EACH
async def test_T72_codex_gets_text_frames_before_the_first_event_and_after_it(upstream: Dialect) -> None:
    begin, resume = asyncio.Event(), asyncio.Event()
    steps = paused(upstream, resume)
    async with (
        ScriptedServer([Wait(begin), *steps]) as server,
        gate(config_for(server.url, upstream, timeouts=TIMEOUTS)) as entrance,
        speaking(entrance.url, headers=CODEX) as client,
    ):
        await client.create(stream_id="a")
        assert await client.event() == {"type": "keepalive", "sequence_number": 0, "stream_id": "a"}
        begin.set()
        before = await client.until("response.output_text.delta")
        beat = (await client.until("keepalive"))[-1]
        assert (beat["stream_id"], beat["sequence_number"] > 0) == ("a", True)
        resume.set()
        events = [*before, *await client.rest()]
        assert events[-1]["type"] == "response.completed"


@EACH
async def test_other_clients_get_pings_before_the_first_event_and_after_it(upstream: Dialect) -> None:
    begin, resume = asyncio.Event(), asyncio.Event()
    async with (
        ScriptedServer([Wait(begin), *paused(upstream, resume)]) as server,
        gate(config_for(server.url, upstream, timeouts=TIMEOUTS)) as entrance,
        speaking(entrance.url, autoping=False) as client,
    ):
        await client.create()
        assert (await client.socket.receive(timeout=30)).type is aiohttp.WSMsgType.PING
        begin.set()
        begun = False
        while True:
            message = await client.socket.receive(timeout=30)
            if message.type is aiohttp.WSMsgType.PING:
                if begun:
                    break
                continue
            kind = json.loads(message.data)["type"]
            assert kind != "keepalive"
            begun = begun or kind == "response.output_text.delta"
        resume.set()


@pytest.mark.parametrize("nested", [True, False])
async def test_T22_an_error_of_an_upstream_of_responses_ends_the_turn(nested: bool) -> None:
    """Codex knows no `error` message without a status: it waits for `response.failed`."""
    error: dict[str, Any] = {"code": "server_is_overloaded", "message": "too much"}
    event = {"type": "error", "sequence_number": 6} | ({"error": error} if nested else error)
    frame = b"event: error\ndata: " + json.dumps(event).encode() + b"\n\n"
    begun = [Send(chunk(each)) for each in text_stream(RESPONSES)[: BEGUN[RESPONSES]]]
    async with (
        ScriptedServer([Send(sse_head()), *begun, Send(chunk(frame)), Send(LAST_CHUNK)]) as server,
        gate(config_for(server.url, RESPONSES)) as entrance,
        speaking(entrance.url, headers=CODEX) as client,
    ):
        await client.create()
        events = await client.until("response.failed")
        assert events[-2]["type"] == "error"
        assert events[-1]["sequence_number"] == events[-2]["sequence_number"] + 1
        assert events[-1]["response"]["error"] == {"code": "server_is_overloaded", "message": "too much"}

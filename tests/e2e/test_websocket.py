"""`GET /v1/responses` as a WebSocket: its turns, and what ends one. The conversations are in tests/conformance."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from dragoman.aio.timeouts import Timeouts
from dragoman.dialects import Dialect
from dragoman_server.config.websocket import WebSocketOptions
from support.gateways import config_for, gate, until
from support.samples import TEXT, dump, error_frame, reply, text_stream
from support.sockets import (
    LAST_CHUNK,
    Abort,
    ScriptedServer,
    Send,
    answer,
    chunk,
    stream,
)
from support.websockets import Speaking, begun, kinds, paused, speaking, text_of

BOTH_LOOPS = True
CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES
EACH = pytest.mark.parametrize("upstream", [CHAT, MESSAGES, RESPONSES])
TRANSLATED = pytest.mark.parametrize("upstream", [CHAT, MESSAGES])


# --- turns ------------------------------------------------------------------------------------------------------------


@EACH
async def test_a_response_as_a_post_would_have_it(upstream: Dialect, caplog: pytest.LogCaptureFixture) -> None:
    """The events are those of the stream over HTTP, and it has the same log line and receipt."""
    caplog.set_level(logging.INFO, "dragoman")
    async with (
        ScriptedServer(stream(text_stream(upstream))) as server,
        gate(config_for(server.url, upstream)) as opened,
    ):
        whole = await opened.stream(RESPONSES)
        async with speaking(opened.url) as client:
            events = await client.turn()
        assert text_of(events) == TEXT
        data = [part.partition(b"data: ")[2] for part in whole.split(b"\n\n") if part.startswith(b"event: ")]
        over_http = [json.loads(part) for part in data]
        for event in (*events, *over_http):
            if "response" in event:
                for own in ("id", "created_at", "completed_at"):
                    event["response"][own] = 0
        if upstream is RESPONSES:
            assert events == over_http
        else:
            assert kinds(events) == kinds(over_http)
        first, second = (json.loads(request.body) for request in server.requests)
        assert {**first, "input": 0} == {**second, "input": 0}
    lines = [line for record in caplog.records if "completed" in (line := record.getMessage())]
    assert len(lines) == 2


@TRANSLATED
async def test_the_headers_of_the_handshake_do_not_go_upstream(upstream: Dialect) -> None:
    async with (
        ScriptedServer(stream(text_stream(upstream))) as server,
        gate(config_for(server.url, upstream)) as opened,
    ):
        async with speaking(opened.url, headers={"openai-beta": "responses_websockets=2026-02-06"}) as client:
            await client.turn()
        names = set(server.requests[0].headers)
    assert not {name for name in names if name.startswith("sec-") or name in {"upgrade", "openai-beta", "origin"}}


@EACH
async def test_turns_of_one_lane_run_one_after_another(upstream: Dialect) -> None:
    resume = asyncio.Event()
    scripts = paused(upstream, resume), stream(text_stream(upstream))
    async with (
        ScriptedServer(*scripts) as server,
        gate(config_for(server.url, upstream)) as opened,
        speaking(opened.url) as client,
    ):
        await client.create(input="first")
        await client.until("response.output_text.delta")
        await client.create(input="second")
        await handled(client)
        assert len(server.requests) == 1
        resume.set()
        assert (await client.rest())[-1]["type"] == "response.completed"
        events = await client.rest()
        assert events[0]["type"] == "response.created"
        assert b"second" in server.requests[1].body


@EACH
async def test_lanes_run_at_the_same_time(upstream: Dialect) -> None:
    resume = asyncio.Event()
    scripts = paused(upstream, resume), stream(text_stream(upstream))
    async with (
        ScriptedServer(*scripts) as server,
        gate(config_for(server.url, upstream)) as opened,
        speaking(opened.url) as client,
    ):
        await client.create(stream_id="slow")
        await client.until("response.output_text.delta")
        events = await client.turn(stream_id="quick")
        assert (events[-1]["type"], events[-1]["stream_id"]) == ("response.completed", "quick")
        assert text_of([event for event in events if event["stream_id"] == "quick"]) == TEXT
        resume.set()
        events = await client.rest()
        assert {event["stream_id"] for event in events} == {"slow"}


async def handled(client: Speaking) -> None:
    """Wait until the gateway has handled all frames that were sent before."""
    await client.socket.send_str("no JSON")
    await client.until("error")


async def test_the_responses_in_progress_are_bounded() -> None:
    resume = asyncio.Event()
    async with ScriptedServer(paused(CHAT, resume)) as server:
        config = config_for(server.url, CHAT, websocket=WebSocketOptions(concurrent=2, queue=2))
        async with gate(config) as opened, speaking(opened.url) as client:
            for lane in "abc":
                await client.create(stream_id=lane)
            await until(lambda: len(server.requests) == 2)
            await client.create(stream_id="a")
            await client.create(stream_id="a")
            (error,) = [event for event in await client.until("error") if event["type"] == "error"]
            assert (error["status"], error["error"]["code"], error["stream_id"]) == (429, "websocket_queue_full", "a")
            assert len(server.requests) == 2
            resume.set()
            ended: list[str] = []
            while len(ended) < 4:
                ended.append((await client.rest())[-1]["stream_id"])
            assert sorted(ended) == ["a", "a", "b", "c"]


async def test_a_json_reply_becomes_events() -> None:
    async with (
        ScriptedServer(answer(200, dump(reply(CHAT)))) as server,
        gate(config_for(server.url, CHAT)) as opened,
        speaking(opened.url) as client,
    ):
        events = await client.turn()
        assert events[0]["type"] == "response.created"
        assert events[-1]["type"] == "response.completed"
        assert (await client.turn(previous_response_id=events[-1]["response"]["id"]))[-1]["type"] != "error"


async def test_an_early_reply_changes_nothing() -> None:
    """There are no headers that could be sent early."""
    async with ScriptedServer(stream(text_stream(CHAT))) as server:
        config = config_for(server.url, CHAT, timeouts=Timeouts(early_reply=0.01))
        async with gate(config) as opened, speaking(opened.url) as client:
            assert text_of(await client.turn()) == TEXT


# --- failures ---------------------------------------------------------------------------------------------------------


@EACH
async def test_an_error_before_the_first_event_is_an_error_frame(upstream: Dialect) -> None:
    """With its status and headers, after which the connection goes on."""
    body = {"error": {"type": "rate_limit_error", "message": "slow down", "param": None, "code": None}}
    if upstream is MESSAGES:
        body = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}  # type: ignore[dict-item]
    scripts = answer(429, dump(body), headers=[("retry-after", "7")]), stream(text_stream(upstream))
    async with (
        ScriptedServer(*scripts) as server,
        gate(config_for(server.url, upstream)) as opened,
        speaking(opened.url) as client,
    ):
        (error,) = await client.turn(stream_id="a")
        assert (error["type"], error["status"], error["stream_id"]) == ("error", 429, "a")
        assert "slow down" in error["error"]["message"]
        assert error["error"]["headers"]["retry-after"] == error["headers"]["retry-after"] == "7"
        assert text_of(await client.turn(stream_id="a")) == TEXT


@TRANSLATED
async def test_an_error_within_the_stream_ends_the_response(upstream: Dialect) -> None:
    scripts = [*begun(upstream), Send(chunk(error_frame(upstream))), Send(LAST_CHUNK)], stream(text_stream(upstream))
    async with (
        ScriptedServer(*scripts) as server,
        gate(config_for(server.url, upstream)) as opened,
        speaking(opened.url) as client,
    ):
        events = await client.turn()
        assert events[-1]["type"] == "response.failed"
        assert "too much" in events[-1]["response"]["error"]["message"]
        (error,) = await client.turn(previous_response_id=events[-1]["response"]["id"])
        assert error["error"]["code"] == "previous_response_not_found"
        assert text_of(await client.turn()) == TEXT


@EACH
async def test_a_cut_upstream_ends_the_response(upstream: Dialect) -> None:
    async with (
        ScriptedServer([*begun(upstream), Abort()]) as server,
        gate(config_for(server.url, upstream)) as opened,
        speaking(opened.url) as client,
    ):
        assert (await client.turn())[-1]["type"] == "response.failed"


async def test_no_upstream_is_an_error_frame() -> None:
    async with gate(config_for("http://127.0.0.1:9", CHAT)) as opened, speaking(opened.url) as client:
        (error,) = await client.turn()
        assert error["status"] == 502

"""Captured exchanges over real sockets: what the files have, and that a replay is what the client got."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dragoman.aio import Timeouts
from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman_server.accounts.usage.options import UsageOptions
from dragoman_server.config.capture_options import CaptureOptions
from dragoman_server.config.load import simulated_config
from dragoman_server.config.provider import Provider, Secret
from dragoman_server.config.route import Route
from dragoman_server.config.state_options import StateOptions
from dragoman_server.observability.captures.document import body_of
from dragoman_server.observability.captures.replay import (
    as_captured,
    captured_reply,
    captured_upstream_request,
    replay,
)
from dragoman_server.observability.captures.store import Capture
from dragoman_server.proxy.hooks import Hooks, Target
from oracles.simulator import strict_simulator
from support.gateways import Gate, config_for, gate, served, until
from support.samples import judge, reply, text_stream
from support.sockets import Close, Pause, ScriptedServer, Stall, answer, stream
from support.websockets import speaking

WAYS = [(client, upstream) for client in CLIENT_DIALECTS for upstream in Dialect]
CANARY = "canary-prompt-41c7"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": CANARY}, "days": {"type": "integer"}},
    "required": ["city"],
}
TOOLS: dict[Dialect, Any] = {
    Dialect.CHAT: [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}],
    Dialect.MESSAGES: [{"name": "get_weather", "description": CANARY, "input_schema": SCHEMA}],
    Dialect.RESPONSES: [{"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": False}],
}
STREAMED = (
    *("sim-text", "sim-tools", "sim-parallel", "sim-thinking", "sim-echo", "sim-length", "sim-split-characters"),
    *("sim-refusal", "sim-error-mid", "sim-error-mid-event", "sim-error-mid-tools", "sim-cut", "sim-cut-tools"),
    *("sim-cut-reset", "sim-missing", "sim-error-429", "sim-error-529"),
)
WHOLE = ("sim-text", "sim-tools", "sim-parallel", "sim-thinking", "sim-echo", "sim-refusal", "sim-error-400")


def request(client: Dialect, model: str, *, stream: bool) -> dict[str, Any]:
    stated = [{"role": "user", "content": f'{CANARY} "Grüße" 👋🏽\n'}]
    body: dict[str, Any] = {"model": model, "stream": stream, "tools": TOOLS[client]}
    if client is Dialect.RESPONSES:
        return {**body, "instructions": CANARY, "input": stated}
    if client is Dialect.MESSAGES:
        return {**body, "system": CANARY, "messages": stated, "max_tokens": 1000}
    return {**body, "messages": stated}


OFF = StateOptions(kind="off")
"""A stored response has an id of its own, which no replay knows."""


@asynccontextmanager
async def capturing(folder: Path, **options: Any) -> AsyncIterator[Gate]:
    """A gateway that captures, before the simulated upstream."""
    options = {"directory": str(folder / "captures"), **options}
    async with served(strict_simulator()) as (url, _):
        config = replace(simulated_config().with_simulator(url), simulated=False, capture=CaptureOptions(**options))
        config = replace(config, state=OFF)
        async with gate(config) as entrance:
            yield entrance


async def ask(entrance: Gate, client: Dialect, model: str, *, stream: bool, **more: Any) -> tuple[str, int, bytes]:
    """Send a request. Returns the id of its capture, and the reply."""
    async with asyncio.timeout(60), entrance.post(client, request(client, model, stream=stream), **more) as response:
        return response.headers["x-dragoman-request-id"], response.status, await response.read()


async def captured(entrance: Gate, capture_id: str) -> Capture:
    """The capture, once it was written."""
    assert entrance.gateway.services.instruments.captures is not None
    store = entrance.gateway.services.instruments.captures.store
    found: list[Capture] = []

    def written() -> bool:
        if (capture := store.get(capture_id)) is not None:
            found.append(capture)
        return bool(found)

    await until(written, 60)
    return found[0]


def cases() -> list[tuple[str, bool]]:
    return [*((model, True) for model in STREAMED), *((model, False) for model in WHOLE)]


@pytest.mark.few
@pytest.mark.parametrize(("client", "upstream"), WAYS, ids=lambda dialect: str(dialect))
async def test_a_replay_is_byte_for_byte_what_the_client_got(
    client: Dialect, upstream: Dialect, tmp_path: Path
) -> None:
    async with capturing(tmp_path, share=1.0, texts=True) as entrance:
        for model, stream in cases():
            capture_id, status, body = await ask(entrance, client, f"{upstream}/{model}", stream=stream)
            capture = await captured(entrance, capture_id)
            replayed = await replay(capture)
            case = f"{model} stream={stream}"
            assert captured_reply(capture) == body, case
            assert replayed.body == body, case
            assert replayed.status == status == capture.exchange["client"]["reply"]["status"], case
            assert replayed.upstream_body == captured_upstream_request(capture), case
            assert capture.summary["upstream"] == upstream
            assert not capture.summary["truncated"]


@pytest.mark.few
@pytest.mark.parametrize(("client", "upstream"), WAYS, ids=lambda dialect: str(dialect))
async def test_a_capture_without_texts_is_valid_and_replays(client: Dialect, upstream: Dialect, tmp_path: Path) -> None:
    async with capturing(tmp_path, share=1.0) as entrance:
        for model, stream in cases():
            capture_id, status, body = await ask(entrance, client, f"{upstream}/{model}", stream=stream)
            capture = await captured(entrance, capture_id)
            case = f"{model} stream={stream}"
            assert CANARY not in json.dumps([capture.summary, capture.exchange], ensure_ascii=False), case
            kept = captured_reply(capture)
            assert len(kept) == len(body), case
            replayed = await replay(capture)
            assert replayed.status == status, case
            assert as_captured(capture, replayed.body) == kept, case
            assert as_captured(capture, replayed.upstream_body) == captured_upstream_request(capture), case
            if status == 200 and stream and client is not upstream:
                judge(client, kept)
                judge(client, replayed.body)
            elif status == 200 and not stream:
                json.loads(kept)
                assert json.loads(replayed.body).keys() == json.loads(body).keys(), case
            for dialect in CLIENT_DIALECTS:
                other = await replay(capture, dialect)
                assert other.body, case


async def test_all_phases_have_headers_bodies_and_times(tmp_path: Path) -> None:
    async with capturing(tmp_path, share=1.0) as entrance:
        capture_id, _, body = await ask(entrance, Dialect.CHAT, "messages/sim-text", stream=True)
        exchange = (await captured(entrance, capture_id)).exchange
        sent, (attempt,) = exchange["client"]["request"], exchange["attempts"]
        assert (sent["method"], sent["path"]) == ("POST", "/v1/chat/completions")
        assert ["content-type", "application/json"] in sent["headers"]
        assert attempt["request"]["url"].endswith("/v1/messages")
        assert json.loads(body_of(attempt["request"]))["model"] == "sim-text"
        reads, writes = attempt["reply"]["reads"], exchange["client"]["reply"]["writes"]
        assert sum(length for _, length in reads) == len(body_of(attempt["reply"])) == attempt["reply"]["bytes"]
        assert sum(length for _, length in writes) == len(body)
        times = [time for time, _ in (*reads, *writes)]
        assert all(time >= attempt["began"] >= 0 for time in times)
        assert sorted(time for time, _ in reads) == [time for time, _ in reads]
        assert exchange["receipt"]["request_id"] == capture_id


async def test_counts_that_the_client_did_not_request_are_removed_in_a_replay(tmp_path: Path) -> None:
    async with capturing(tmp_path, share=1.0, texts=True) as entrance:
        config = entrance.gateway.config
        entrance.gateway.reconfigure(replace(config, usage=UsageOptions("jsonl", str(tmp_path / "u"))))
        capture_id, status, body = await ask(entrance, Dialect.CHAT, "chat/sim-text", stream=True)
        capture = await captured(entrance, capture_id)
    again = await replay(capture)
    assert (status, again.status) == (200, 200)
    assert b'"include_usage":true' in captured_upstream_request(capture) == again.upstream_body
    assert again.body == captured_reply(capture) == body
    assert b"usage" not in body


@asynccontextmanager
async def scripted(
    folder: Path, *scripts: Any, upstream: Dialect = Dialect.MESSAGES, **more: Any
) -> AsyncIterator[Gate]:
    """A gateway that captures with texts, before an upstream with these scripts and a route with three attempts."""
    timeouts = more.pop("timeouts", None)
    async with ScriptedServer(*scripts) as server:
        config = config_for(server.url, upstream, timeouts=timeouts)
        capture = CaptureOptions(str(folder / "captures"), share=1.0, texts=True, **more)
        retries = replace(config.retries, backoff=0.001, backoff_max=0.001)
        config = replace(config, capture=capture, routes=[Route("*", "up", attempts=3)], retries=retries, state=OFF)
        async with gate(config) as entrance:
            yield entrance


async def test_each_attempt_is_captured(tmp_path: Path) -> None:
    refused = answer(529, b'{"type":"error","error":{"type":"overloaded_error","message":"busy"}}')
    begun = text_stream(Dialect.MESSAGES)
    async with scripted(tmp_path, refused, [Close()], stream(begun)) as entrance:
        capture_id, status, body = await ask(entrance, Dialect.RESPONSES, "m", stream=True)
        capture = await captured(entrance, capture_id)
    assert status == 200
    first, second, third = capture.exchange["attempts"]
    assert (first["reply"]["status"], first["error"]) == (529, None)
    assert body_of(first["reply"]) == b""  # it was not read, as its status is all that matters
    assert second["reply"] is None
    assert second["error"]["reason"] == "unreachable"
    assert body_of(third["reply"]) == b"".join(begun)
    assert first["request"]["text"] == third["request"]["text"]
    assert capture.summary["attempts"] == 3
    assert (await replay(capture)).body == body


async def test_an_early_reply_and_its_heartbeats_are_captured(tmp_path: Path) -> None:
    timeouts = Timeouts(early_reply=0.05, heartbeat=0.05)
    upstream = [Pause(0.5), *stream(text_stream(Dialect.MESSAGES))]
    async with scripted(tmp_path, upstream, timeouts=timeouts) as entrance:
        capture_id, _, body = await ask(entrance, Dialect.CHAT, "m", stream=True)
        capture = await captured(entrance, capture_id)
    assert len(capture.exchange["client"]["reply"]["heartbeats"]) >= 2
    assert body.startswith(b":")
    own = b"".join(part + b"\n\n" for part in body.split(b"\n\n") if part and not part.startswith(b":"))
    assert captured_reply(capture) == own == (await replay(capture)).body


async def test_an_early_reply_that_fails_is_replayed(tmp_path: Path) -> None:
    timeouts = Timeouts(early_reply=0.02)
    upstream = [Pause(0.3), *answer(400, b'{"type":"error","error":{"type":"invalid_request_error","message":"bad"}}')]
    async with scripted(tmp_path, upstream, timeouts=timeouts) as entrance:
        capture_id, status, _ = await ask(entrance, Dialect.CHAT, "m", stream=True)
        capture = await captured(entrance, capture_id)
    assert status == 200
    assert b"bad" in captured_reply(capture)
    replayed = await replay(capture)
    assert (replayed.status, replayed.body) == (200, captured_reply(capture))


async def test_a_json_reply_to_a_stream_is_captured(tmp_path: Path) -> None:
    body = json.dumps(reply(Dialect.MESSAGES)).encode()
    async with scripted(tmp_path, answer(200, body)) as entrance:
        capture_id, _, received = await ask(entrance, Dialect.CHAT, "m", stream=True)
        capture = await captured(entrance, capture_id)
    assert captured_reply(capture) == received == (await replay(capture)).body


async def test_a_timeout_of_the_upstream_is_replayed(tmp_path: Path) -> None:
    begun = stream(text_stream(Dialect.MESSAGES)[:3], end=False)
    async with scripted(tmp_path, [*begun, Stall()], timeouts=Timeouts(idle=0.2)) as entrance:
        capture_id, _, received = await ask(entrance, Dialect.CHAT, "m", stream=True)
        capture = await captured(entrance, capture_id)
    assert capture.exchange["attempts"][0]["error"]["reason"] == "idle"
    assert captured_reply(capture) == received == (await replay(capture)).body


async def test_a_client_that_leaves_is_captured_up_to_there(tmp_path: Path) -> None:
    begun = stream(text_stream(Dialect.MESSAGES)[:3], end=False)
    async with scripted(tmp_path, [*begun, Stall()]) as entrance:
        async with entrance.post(Dialect.CHAT, request(Dialect.CHAT, "m", stream=True)) as response:
            capture_id = response.headers["x-dragoman-request-id"]
            received = await response.content.readany()
        capture = await captured(entrance, capture_id)
    assert capture.summary["ended"] == "abandoned"
    assert captured_reply(capture).startswith(received)
    assert (await replay(capture)).body.startswith(captured_reply(capture))


async def test_a_truncated_capture_is_marked_and_the_exchange_is_not_affected(tmp_path: Path) -> None:
    async with scripted(tmp_path, stream(text_stream(Dialect.MESSAGES)), exchange_bytes=1500) as entrance:
        capture_id, _, received = await ask(entrance, Dialect.CHAT, "m", stream=True)
        capture = await captured(entrance, capture_id)
    assert received.endswith(b"data: [DONE]\n\n")
    assert capture.summary["truncated"]
    assert capture.exchange["client"]["reply"]["bytes"] == len(received)


async def test_the_application_s_own_provider_has_its_key_masked(tmp_path: Path) -> None:
    key = "canary-own-provider-7f3a"

    async def choose(*_: Any) -> Target:
        return Target(Provider("own", Dialect.CHAT, server.url, api_key=Secret(key)), "m")

    noted = json.dumps(reply(Dialect.CHAT) | {"system_fingerprint": key}).encode()
    async with ScriptedServer(answer(200, noted)) as server:
        capture = CaptureOptions(str(tmp_path / "captures"), share=1.0, texts=True)
        config = replace(config_for(server.url, Dialect.CHAT), capture=capture)
        async with gate(config, hooks=Hooks(choose=choose)) as entrance:
            capture_id, _, received = await ask(entrance, Dialect.CHAT, "m", stream=False)
            found = await captured(entrance, capture_id)
    assert key.encode() in received
    assert key not in json.dumps([found.summary, found.exchange])


async def test_a_response_in_the_background_is_captured_to_its_end(tmp_path: Path) -> None:
    async with served(strict_simulator()) as (url, _):
        capture = CaptureOptions(str(tmp_path / "captures"), share=1.0, texts=True)
        config = replace(config_for(url, Dialect.CHAT), capture=capture, state=StateOptions(kind="memory"))
        async with gate(config) as entrance:
            body = {"model": "sim-text", "input": "Hi", "background": True}
            async with entrance.post(Dialect.RESPONSES, body) as response:
                assert response.status == 200
                capture_id = response.headers["x-dragoman-request-id"]
            found = await captured(entrance, capture_id)
            captures = entrance.gateway.services.instruments.captures
            assert captures is not None
            assert len(captures.store.list()) == 1
    assert (found.summary["ended"], found.summary["status"], found.summary["attempts"]) == ("completed", 200, 1)
    assert json.loads(body_of(found.exchange["client"]["request"])) == body
    assert b"response.completed" in captured_reply(found)


async def test_without_a_capture_nothing_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exchange is the usual one, on the gateway's own transport."""
    made: list[object] = []
    monkeypatch.setattr("dragoman_server.steps.capture.ObservedTransport", made.append)
    monkeypatch.setattr("dragoman_server.observability.captures.captures.Recording", made.append)
    async with capturing(tmp_path) as entrance:
        entrance.gateway.services.loaded.validation.share = 0.0  # a stream that is validated is recorded
        for headers in ({}, {"x-dragoman-capture": "0"}):
            _, status, _ = await ask(entrance, Dialect.CHAT, "messages/sim-text", stream=True, headers=headers)
            assert status == 200
        assert entrance.gateway.services.instruments.captures is not None
        assert entrance.gateway.services.instruments.captures.store.list() == []
    assert made == []


async def test_a_change_of_captures_takes_effect_after_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with capturing(tmp_path, share=1.0) as entrance:
        config = entrance.gateway.config
        entrance.gateway.reconfigure(replace(config, capture=CaptureOptions()))
        assert "capture: the change takes effect after a restart" in caplog.text
        capture_id, _, _ = await ask(entrance, Dialect.CHAT, "messages/sim-text", stream=True)
        assert (await captured(entrance, capture_id)).summary["reason"] == "share"


async def test_what_is_pending_is_written_when_the_gateway_closes(tmp_path: Path) -> None:
    async with capturing(tmp_path, share=1.0) as entrance:
        replies = [await ask(entrance, Dialect.CHAT, "messages/sim-text", stream=False) for _ in range(20)]
    ids = sorted(capture_id for capture_id, _, _ in replies)
    assert sorted(file.stem for file in (tmp_path / "captures").iterdir()) == ids


@pytest.mark.parametrize(("client", "upstream"), WAYS, ids=lambda dialect: str(dialect))
async def test_a_key_that_a_model_repeats_in_pieces_is_masked(
    client: Dialect, upstream: Dialect, tmp_path: Path
) -> None:
    key = "canary-client-7f3a"
    frames = text_stream(upstream, ("my key: ", key[:3], key[3:11], key[11:], " and more"))
    async with scripted(tmp_path, stream(frames), upstream=upstream) as entrance:
        capture_id, _, received = await ask(entrance, client, "m", stream=True, headers={"x-api-key": key})
        capture = await captured(entrance, capture_id)
    written = json.dumps([capture.summary, capture.exchange])
    assert not [part for part in (key, key[:9], key[3:11], key[11:]) if part in written]
    kept = captured_reply(capture)
    assert len(kept) == len(received)
    assert b"and more" in kept
    assert b"********" in kept
    replayed = await replay(capture)
    assert replayed.body == kept


@pytest.mark.parametrize("upstream", Dialect, ids=lambda dialect: str(dialect))
async def test_a_turn_of_a_websocket_is_captured_as_a_request(upstream: Dialect, tmp_path: Path) -> None:
    """Its replay is the stream over HTTP, whose events the client got."""
    async with capturing(tmp_path, share=1.0, texts=True) as entrance, speaking(entrance.url) as client:
        events = await client.turn(model=f"{upstream}/sim-text", input=CANARY, store=False)
        await until(lambda: sorted((tmp_path / "captures").rglob("req_*")), 60)
        name = next((tmp_path / "captures").rglob("req_*")).name.partition(".")[0]
        capture = await captured(entrance, name)
        sent = captured_reply(capture)
        assert [json.loads(line[6:]) for line in sent.split(b"\n") if line.startswith(b"data: {")] == events
        assert (await replay(capture)).body == sent

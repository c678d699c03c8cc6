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

from dragoman.dialects import Dialect
from dragoman_server.config.capture_options import CaptureOptions
from dragoman_server.config.load import simulated_config
from dragoman_server.observability.captures.document import body_of
from dragoman_server.observability.captures.replay import captured_reply, captured_upstream_request, replay
from dragoman_server.observability.captures.store import Capture
from oracles.simulator import strict_simulator
from support.gateways import Gate, gate, served, until
from support.samples import judge

DIALECTS = tuple(Dialect)
WAYS = [(client, upstream) for client in DIALECTS for upstream in DIALECTS]
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
    said = [{"role": "user", "content": f'{CANARY} "Grüße" 👋🏽\n'}]
    body: dict[str, Any] = {"model": model, "stream": stream, "tools": TOOLS[client]}
    if client is Dialect.RESPONSES:
        return {**body, "instructions": CANARY, "input": said}
    if client is Dialect.MESSAGES:
        return {**body, "system": CANARY, "messages": said, "max_tokens": 1000}
    return {**body, "messages": said}


@asynccontextmanager
async def capturing(folder: Path, **options: Any) -> AsyncIterator[Gate]:
    """A gateway that captures, before the simulated upstream."""
    options = {"directory": str(folder / "captures"), **options}
    async with served(strict_simulator()) as (url, _):
        config = replace(simulated_config().with_simulator(url), simulated=False, capture=CaptureOptions(**options))
        async with gate(config) as entrance:
            yield entrance


async def ask(entrance: Gate, client: Dialect, model: str, *, stream: bool, **more: Any) -> tuple[str, int, bytes]:
    """Send a request. Returns the id of its capture, and the reply."""
    async with asyncio.timeout(60), entrance.post(client, request(client, model, stream=stream), **more) as response:
        return response.headers["x-dragoman-request-id"], response.status, await response.read()


async def captured(entrance: Gate, capture_id: str) -> Capture:
    """The capture, once it was written."""
    assert entrance.gateway.captures is not None
    store = entrance.gateway.captures.store
    found: list[Capture] = []

    def written() -> bool:
        if (capture := store.get(capture_id)) is not None:
            found.append(capture)
        return bool(found)

    await until(written, 60)
    return found[0]


def cases() -> list[tuple[str, bool]]:
    return [*((model, True) for model in STREAMED), *((model, False) for model in WHOLE)]


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
            if status == 200 and stream and client is not upstream:
                judge(client, kept)
                judge(client, replayed.body)
            elif status == 200 and not stream:
                json.loads(kept)
                assert json.loads(replayed.body).keys() == json.loads(body).keys(), case
            for dialect in DIALECTS:
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

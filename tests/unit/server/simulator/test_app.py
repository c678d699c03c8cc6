"""The simulated upstream, read by the vendors' own SDKs over a real socket, and what it refuses."""

from __future__ import annotations

import ast
import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import anthropic
import openai
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from dragoman_server import simulator
from dragoman_server.simulator import REQUESTS, STREAMS
from dragoman_server.simulator import app as simulator_app
from oracles.simulator import strict_simulator
from support.simulated import USER, VERSION, lines, post

PATHS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"messages": USER}),
    ("/v1/messages", {"messages": USER, "max_tokens": 9}),
    ("/v1/responses", {"input": "Hi"}),
]


@pytest.mark.parametrize(("path", "body"), PATHS)
async def test_a_split_stream_is_the_same_bytes(raw: aiohttp.ClientSession, path: str, body: dict[str, Any]) -> None:
    """T-71: characters are cut at the edges of writes."""

    def texts(frames: list[Any]) -> str:
        return "".join(
            frame.get("choices", [{}])[0].get("delta", {}).get("content") or ""
            if "choices" in frame
            else frame["delta"].get("text", "")
            if isinstance(frame.get("delta"), dict)
            else frame.get("delta", "")
            for frame in frames
            if isinstance(frame, dict)
        )

    split = await lines(raw, path, {**body, "model": "sim-split"})
    whole = await lines(raw, path, {**body, "model": "sim-text"})
    assert texts(split) == texts(whole) != ""


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_a_stalled_stream_notices_that_its_client_left(server: TestServer, raw: aiohttp.ClientSession) -> None:
    """T-79: a client that leaves a silent stream frees it."""
    streams = server.app[STREAMS]
    response = await raw.post("/v1/chat/completions", json={"model": "sim-stall", "messages": USER, "stream": True})
    await response.content.readany()
    assert streams.open == 1
    response.close()
    await until(lambda: streams.open == 0)
    assert (streams.started, streams.abandoned, streams.ended) == (1, 1, 0)


async def test_a_paced_stream_notices_that_its_client_left() -> None:
    app = strict_simulator(pace=0.01)
    async with TestServer(app) as server, aiohttp.ClientSession(base_url=server.make_url("/")) as raw:
        body = {"model": "sim-long-100000", "messages": USER, "stream": True}
        response = await raw.post("/v1/chat/completions", json=body)
        await response.content.readany()
        response.close()
        await until(lambda: app[STREAMS].abandoned == 1)
        assert app[STREAMS].open == 0


async def test_a_slow_answer_comes(oai: AsyncOpenAI) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await oai.responses.create(model="sim-slow", input="Hi")
    assert loop.time() - begun >= 0.05


@pytest.mark.parametrize(("stream", "pauses"), [(True, 2), (False, 1)])
async def test_a_silent_agent_pauses_before_and_within_a_stream(
    raw: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch, stream: bool, pauses: int
) -> None:
    waited: list[float] = []

    async def wait(request: web.Request, seconds: float) -> bool:
        waited.append(seconds)
        return True

    monkeypatch.setattr(simulator_app, "_wait_for_client", wait)
    async with raw.post(PATHS[0][0], json={**PATHS[0][1], "model": "sim-agent-silent", "stream": stream}) as response:
        assert (await response.read()).endswith(b"[DONE]\n\n") is stream
    assert waited == [0.05] * pauses


async def test_probes_and_headers(raw: aiohttp.ClientSession) -> None:
    """T-62: `HEAD /` is a health probe."""
    async with raw.head("/") as response:
        assert response.status == 200
    async with raw.get("/health") as response:
        assert (await response.json())["status"] == "ok"
    async with raw.get("/v1/responses") as response:
        assert response.status == 426
    async with raw.post("/v1/chat/completions", json={"model": "m", "messages": USER}) as response:
        assert response.headers["x-request-id"].startswith("req_")
        assert response.headers["x-ratelimit-reset-tokens"] == "1m0s"
    body = {"model": "m", "max_tokens": 9, "messages": USER}
    async with raw.post("/v1/messages", json=body, headers=VERSION) as response:
        assert response.headers["request-id"].startswith("req_")
        assert response.headers["anthropic-ratelimit-tokens-reset"].endswith("Z")


async def test_requests_are_recorded(server: TestServer, oai: AsyncOpenAI) -> None:
    reply = await oai.chat.completions.create(model="gpt-sim-echo-1", messages=USER, metadata={"a": "b"})
    recorded = server.app[REQUESTS][-1]
    assert recorded.body == json.loads(reply.choices[0].message.content or "")
    assert recorded.body["metadata"] == {"a": "b"}
    assert (recorded.method, recorded.path, recorded.status) == ("POST", "/v1/chat/completions", 200)
    assert recorded.headers["authorization"] == "Bearer k"


async def test_a_key_is_asked_for_where_wanted() -> None:
    async with (
        TestServer(strict_simulator(require_key=True)) as server,
        aiohttp.ClientSession(base_url=server.make_url("/")) as raw,
    ):
        chat = {"model": "m", "messages": USER}
        messages = {**chat, "max_tokens": 9}
        assert (await post(raw, "/v1/chat/completions", chat))[0] == 401
        status, body = await post(raw, "/v1/messages", messages, VERSION)
        assert (status, body["error"]["type"]) == (401, "authentication_error")
        for key in ({"x-api-key": "k"}, {"Authorization": "Bearer k"}):
            assert (await post(raw, "/v1/messages", messages, VERSION | key))[0] == 200


async def test_foreign_signatures_are_refused_on_demand() -> None:
    """T-10, T-11: what another provider signed does not pass."""
    async with (
        TestServer(strict_simulator(verify=True)) as server,
        AsyncAnthropic(api_key="k", base_url=str(server.make_url("")), max_retries=0) as ant,
        AsyncOpenAI(api_key="k", base_url=str(server.make_url("/v1")), max_retries=0) as oai,
    ):
        reasoning = (await ant.messages.create(model="sim-thinking", max_tokens=9, messages=USER)).content[0]
        assert reasoning.type == "thinking"

        async def replay(**changed: str) -> None:
            block = {
                "type": "thinking",
                "thinking": reasoning.thinking,
                "signature": reasoning.signature,
            } | changed
            history: list[Any] = [*USER, {"role": "assistant", "content": [block]}, *USER]
            await ant.messages.create(model="sim-text", max_tokens=9, messages=history)

        await replay()
        await replay(thinking="")
        with pytest.raises(anthropic.BadRequestError, match="Invalid `signature`"):
            await replay(thinking="Something else")
        with pytest.raises(anthropic.BadRequestError, match="Invalid `signature`"):
            await replay(signature="c2lnbmVkIGVsc2V3aGVyZQ==")
        foreign: Any = {"type": "reasoning", "summary": [], "encrypted_content": "c2lnbmVk"}
        with pytest.raises(openai.BadRequestError) as refused:
            await oai.responses.create(model="sim-text", input=[foreign, {"role": "user", "content": "x"}])
        assert refused.value.code == "invalid_encrypted_content"


def test_the_simulator_does_not_import_the_engine() -> None:
    sources = sorted(Path(simulator.__file__).parent.glob("*.py"))
    assert len(sources) > 10
    for source in sources:
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Import):
                assert not any(alias.name.split(".")[0].startswith("dragoman") for alias in node.names), source
            elif isinstance(node, ast.ImportFrom):
                module = node.module or ""
                assert module.startswith("dragoman_server.simulator") or not module.startswith("dragoman"), source


async def test_it_serves_on_its_own() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "dragoman_server.simulator", "--port", "0", stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        line = (await asyncio.wait_for(process.stdout.readline(), 30)).decode()
        url = line.split()[-1]
        async with aiohttp.ClientSession() as session, session.get(f"{url}/health") as response:
            assert response.status == 200
    finally:
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 30) == 0

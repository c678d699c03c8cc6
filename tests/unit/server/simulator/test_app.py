"""The simulated upstream, read by the vendors' own SDKs over a real socket, and what it refuses."""

from __future__ import annotations

import ast
import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import aiohttp
import anthropic
import openai
import pytest
from aiohttp.test_utils import TestServer
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from dragoman_server import simulator
from dragoman_server.simulator import REQUESTS
from oracles.simulator import strict_simulator
from support.simulated import USER, VERSION, post


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

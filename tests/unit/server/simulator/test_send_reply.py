"""Streams of the simulated upstream that are split, stalled or paused, over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from openai import AsyncOpenAI

from dragoman_server.simulator import STREAMS, app, send_reply
from oracles.simulator import strict_simulator
from support.simulated import USER, lines

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
    simulated = strict_simulator(pace=0.01)
    async with TestServer(simulated) as server, aiohttp.ClientSession(base_url=server.make_url("/")) as raw:
        body = {"model": "sim-long-100000", "messages": USER, "stream": True}
        response = await raw.post("/v1/chat/completions", json=body)
        await response.content.readany()
        response.close()
        await until(lambda: simulated[STREAMS].abandoned == 1)
        assert simulated[STREAMS].open == 0


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

    for module in (app, send_reply):
        monkeypatch.setattr(module, "wait_for_client", wait)
    async with raw.post(PATHS[0][0], json={**PATHS[0][1], "model": "sim-agent-silent", "stream": stream}) as response:
        assert (await response.read()).endswith(b"[DONE]\n\n") is stream
    assert waited == [0.05] * pauses

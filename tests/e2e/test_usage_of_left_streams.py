"""A client that leaves a stream before its counts is booked with what it got, in each direction."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from dragoman import Dialect
from dragoman_server.accounts.usage.options import UsageOptions
from support.gateways import Gate, config_for, gate
from support.samples import chat_frame, text_stream
from support.sockets import ScriptedServer, Send, Stall, Step, chunk, sse_head
from support.websockets import speaking

TAKEN = True
CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES
WORDS = ["word " * 400] * 18
"""36,000 characters: about 9,000 tokens, in 18 deltas."""
EACH = pytest.mark.parametrize("upstream", [CHAT, MESSAGES, RESPONSES])


def held_back(upstream: Dialect) -> list[bytes]:
    """The frames of a stream up to the reason of its end, without counts."""
    frames = text_stream(upstream, WORDS)
    if upstream is CHAT:
        return [*frames[:-3], chat_frame({}, "stop")]
    return frames[:-2] if upstream is MESSAGES else frames[:-1]


def rows(file: Path) -> list[Any]:
    """Return the rows that were booked."""
    return [json.loads(line) for line in file.read_text().splitlines()]


@asynccontextmanager
async def left_before_the_counts(upstream: Dialect, file: Path, steps: list[Step] | None = None) -> AsyncIterator[Gate]:
    """A gateway before an upstream that does not send its counts. After it, the row of the exchange is in `file`."""
    steps = steps or [Send(sse_head()), *(Send(chunk(frame)) for frame in held_back(upstream)), Stall()]
    async with ScriptedServer(steps) as server:
        config = replace(config_for(server.url, upstream), usage=UsageOptions("jsonl", str(file)))
        async with gate(config) as entrance:
            yield entrance
            await asyncio.wait_for(server.hung_up.wait(), 30)
    (row,) = rows(file)
    assert row["ended"] == "abandoned"
    assert row["partial"]
    assert abs(row["output"] - 9000) <= 2
    assert row["input"] > 0
    assert "output" in row["estimated"]


@EACH
async def test_an_openai_client_that_leaves_at_the_finish_reason(
    upstream: Dialect, taken: bool, tmp_path: Path
) -> None:
    async with (
        left_before_the_counts(upstream, tmp_path / "usage") as entrance,
        openai.AsyncOpenAI(base_url=f"{entrance.url}/v1", api_key="k", max_retries=0) as client,
    ):
        messages: Any = [{"role": "user", "content": "Hi"}]
        async with await client.chat.completions.create(model="m", messages=messages, stream=True) as stream:
            size = 0
            async for part in stream:
                size += len(part.choices[0].delta.content or "")
                if part.choices[0].finish_reason or size == 36000:
                    break
            assert size == 36000


@EACH
async def test_an_anthropic_client_that_leaves_at_its_last_text(upstream: Dialect, taken: bool, tmp_path: Path) -> None:
    async with (
        left_before_the_counts(upstream, tmp_path / "usage") as entrance,
        anthropic.AsyncAnthropic(base_url=entrance.url, api_key="k", max_retries=0) as client,
        client.messages.stream(model="m", max_tokens=9999, messages=[{"role": "user", "content": "Hi"}]) as stream,
    ):
        size = 0
        async for text in stream.text_stream:
            size += len(text)
            if size == 36000:
                break


@EACH
async def test_a_responses_client_that_leaves_at_its_last_text(upstream: Dialect, taken: bool, tmp_path: Path) -> None:
    async with (
        left_before_the_counts(upstream, tmp_path / "usage") as entrance,
        openai.AsyncOpenAI(base_url=f"{entrance.url}/v1", api_key="k", max_retries=0) as client,
        await client.responses.create(model="m", input="Hi", stream=True) as stream,
    ):
        size = 0
        async for event in stream:
            size += len(event.delta) if event.type == "response.output_text.delta" else 0
            if size == 36000:
                break


@EACH
async def test_a_websocket_client_that_leaves_at_its_last_text(upstream: Dialect, taken: bool, tmp_path: Path) -> None:
    async with left_before_the_counts(upstream, tmp_path / "usage") as entrance, speaking(entrance.url) as client:
        await client.create()
        size = 0
        while size < 36000:
            event = await client.event()
            size += len(event["delta"]) if event["type"] == "response.output_text.delta" else 0


async def test_a_client_that_leaves_a_forwarded_stream(taken: bool, tmp_path: Path) -> None:
    texts = [b'data: {"choices":[{"index":0,"text":"%b"}]}\n\n' % word.encode() for word in WORDS]
    steps: list[Step] = [Send(sse_head()), *(Send(chunk(frame)) for frame in texts), Stall()]
    async with left_before_the_counts(CHAT, tmp_path / "usage", steps) as entrance:
        body = {"model": "m", "prompt": "Hi", "stream": True}
        async with entrance.session.post(f"{entrance.url}/v1/completions", json=body) as response:
            size = 0
            while size < 36000:
                size += len(await response.content.readany())

"""OpenAI's streaming helper and interleaved calls of strict tools, which it parses as soon as another call uses."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from openai import AsyncOpenAI

from conformance.judges import CHAT_TOOLS, HI
from conformance.served import model_at

STRICT: list[Any] = deepcopy(CHAT_TOOLS)
for _tool in STRICT:
    _tool["function"]["strict"] = True
    _tool["function"]["parameters"]["additionalProperties"] = False
UNKNOWN = {"X-Stainless-Helper-Method": "another"}
"""Headers that hide from the gateway that the helper reads the stream."""


async def done(client: AsyncOpenAI, upstream: str, tools: list[Any], headers: dict[str, str]) -> list[tuple[int, str]]:
    """The calls that the helper reports as done."""
    asked: dict[str, Any] = {"model": model_at(upstream, "sim-parallel"), "messages": HI, "tools": tools}
    async with client.chat.completions.stream(**asked, extra_headers=headers) as stream:
        events = [event async for event in stream]
        await stream.get_final_completion()
    return [(e.index, e.arguments) for e in events if e.type == "tool_calls.function.arguments.done"]


@pytest.mark.parametrize("upstream", ["messages", "responses"])
@pytest.mark.parametrize("tools", [STRICT, CHAT_TOOLS], ids=["strict", "not-strict"])
async def test_each_call_is_whole_when_the_helper_reports_it(gpt: AsyncOpenAI, upstream: str, tools: list[Any]) -> None:
    assert await done(gpt, upstream, tools, {}) == [(0, '{"city":"Oslo"}'), (1, '{"tz":"CET"}')]


@pytest.mark.parametrize("upstream", ["messages", "responses"])
async def test_without_its_profile_the_helper_raises(gpt: AsyncOpenAI, upstream: str) -> None:
    """The reason for the profile: should the SDK learn to wait, this fails, and the profile may go."""
    with pytest.raises(json.JSONDecodeError):
        await done(gpt, upstream, STRICT, UNKNOWN)
    noted = await done(gpt, upstream, CHAT_TOOLS, UNKNOWN)
    assert '{"city":"Oslo"}' not in [arguments for _, arguments in noted]


async def test_what_passes_through_is_the_upstreams_own_order(gpt: AsyncOpenAI) -> None:
    with pytest.raises(json.JSONDecodeError):
        await done(gpt, "chat", STRICT, {})

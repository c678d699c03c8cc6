"""Scripts of the simulated upstream that tests lean on: cut characters, counts, untold stops, named calls."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestServer

from dragoman_server.simulator.examples import PATCH
from oracles.simulator import strict_simulator

VERSION = {"anthropic-version": "2023-06-01"}
HI: list[Any] = [{"role": "user", "content": "Hi"}]
PATHS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": HI}),
    "messages": ("/v1/messages", {"messages": HI, "max_tokens": 64}),
    "responses": ("/v1/responses", {"input": HI}),
}
TEXTS_SENT = "You said: Hi. Grüße 👋🏽 aus 東京\u2028— done."
TOOLS: list[Any] = [
    {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}, "strict": False},
    {"type": "namespace", "name": "files", "tools": [{"type": "custom", "name": "patch"}]},
    {
        "type": "tool_search",
        "execution": "client",
        "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    },
]


@pytest.fixture
async def raw() -> AsyncIterator[aiohttp.ClientSession]:
    server = TestServer(strict_simulator())
    async with server, aiohttp.ClientSession(base_url=server.make_url("/"), headers=VERSION) as session:
        yield session


async def post(raw: aiohttp.ClientSession, dialect: str, **fields: Any) -> Any:
    path, body = PATHS[dialect]
    async with raw.post(path, json={**body, **fields}) as response:
        assert response.status == 200, await response.text()
        return await response.json()


def output(dialect: str, reply: Any) -> str:
    """The visible text of a whole reply."""
    match dialect:
        case "chat":
            return str(reply["choices"][0]["message"]["content"])
        case "messages":
            return "".join(block.get("text", "") for block in reply["content"])
        case _:
            texts = [item["content"][0]["text"] for item in reply["output"] if item["type"] == "message"]
            return "".join(texts)


@pytest.mark.parametrize("streamed", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("dialect", PATHS)
async def test_T71_reads_end_inside_characters(raw: aiohttp.ClientSession, dialect: str, streamed: bool) -> None:
    """Not only the writes: each half of a character is a read of its own."""
    path, body = PATHS[dialect]
    async with raw.post(path, json={**body, "model": "sim-split-characters", "stream": streamed}) as response:
        reads = [read async for read in response.content.iter_any()]
    whole = b"".join(reads).decode()
    assert all(character in whole for character in "ü👋🏽東京\u2028—")
    inside = [read for read in reads if read[-1:] >= b"\xc2"]
    characters = sum(character > "\x7f" for character in whole)
    assert len(inside) == characters >= 8, "every one of them, between its first byte and the next"
    if not streamed:
        assert output(dialect, json.loads(whole)) == TEXTS_SENT


@pytest.mark.parametrize("dialect", PATHS)
async def test_counts_of_what_was_read_from_a_cache_and_written_to_it(raw: aiohttp.ClientSession, dialect: str) -> None:
    """Messages counts both apart from the input, the OpenAI dialects within it."""
    usage = (await post(raw, dialect, model="sim-usage"))["usage"]
    if dialect == "messages":
        names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
        assert tuple(usage[name] for name in names) == (5, 4, 3, 5)
        assert usage["output_tokens_details"] == {"thinking_tokens": 2}
        return
    given, made = ("prompt", "completion") if dialect == "chat" else ("input", "output")
    assert (usage[f"{given}_tokens"], usage[f"{made}_tokens"], usage["total_tokens"]) == (12, 5, 17)
    details = usage[f"{given}_tokens_details"]
    assert (details["cached_tokens"], details["cache_write_tokens"]) == (4, 3)
    assert usage[f"{made}_tokens_details"]["reasoning_tokens"] == 2


@pytest.mark.parametrize("dialect", PATHS)
async def test_a_model_without_a_stop_sequence_goes_on_after_it(raw: aiohttp.ClientSession, dialect: str) -> None:
    assert output(dialect, await post(raw, dialect, model="sim-stop")) == "one, two, three### never shown"


async def test_a_call_by_name_is_of_the_tools_own_kind(raw: aiohttp.ClientSession) -> None:
    [item] = (await post(raw, "responses", model="sim-call-look", tools=TOOLS))["output"]
    assert (item["type"], item["name"], item["arguments"]) == ("function_call", "look", "{}")
    [item] = (await post(raw, "responses", model="sim-call-patch", tools=TOOLS))["output"]
    assert (item["type"], item["namespace"], item["input"]) == ("custom_tool_call", "files", PATCH)
    [item] = (await post(raw, "responses", model="sim-call-tool_search", tools=TOOLS))["output"]
    assert (item["type"], item["execution"]) == ("tool_search_call", "client")
    assert item["arguments"] == {"query": "weather in Oslo"}
    [item] = (await post(raw, "responses", model="sim-tools", tools=TOOLS[2:]))["output"][1:]
    assert item["name"] == "get_weather", "a search is called by its name only"


async def test_a_wrapped_free_text_tool_gets_a_text_that_must_be_escaped(raw: aiohttp.ClientSession) -> None:
    schema = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
    tools = [{"type": "function", "function": {"name": "patch", "parameters": schema}}]
    reply = await post(raw, "chat", model="sim-call-patch", tools=tools)
    [call] = reply["choices"][0]["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"input": PATCH}
    assert all(mark in PATCH for mark in ('"', "\\", "\n", "👋"))


@pytest.mark.parametrize("script", ["sim-error-mid", "sim-error-mid-event"])
async def test_a_whole_response_that_failed_has_the_reason(raw: aiohttp.ClientSession, script: str) -> None:
    reply = await post(raw, "responses", model=script)
    assert (reply["status"], reply["error"]["code"]) == ("failed", "server_is_overloaded")

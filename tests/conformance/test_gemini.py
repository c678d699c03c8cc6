"""A tool loop of three turns over a Gemini that rejects unsigned calls, with each vendor's SDK as the client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from conformance.judges import CHAT_TOOLS, MESSAGES_TOOLS
from conformance.served import anthropic_sdk, openai_sdk
from dragoman.dialects import Dialect
from dragoman.profiles.profile import Profile, builtin_profile
from dragoman_server.app import make_app
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.config.schema import Config
from dragoman_server.workers.serve import listening
from oracles.gemini import SKIP, Gemini

Json = dict[str, Any]
WEATHER, TIME = 'get_weather {"city": "Oslo"}', 'get_time {"tz": "UTC"}'
PLAN = f"Plan: [[call {WEATHER} + {TIME}]] [[call {WEATHER}]]"
"""Two calls, then one more, then an answer."""
RESULTS = ("-3 °C ☀", "09:30", "-4 °C")
TOOLS = [{"type": "function", **tool["function"]} for tool in CHAT_TOOLS]
Turns = Callable[[str, list[Any], bool], Awaitable[list[tuple[str, str]]]]
"""Adds a prompt and the reply to a conversation, which it changes; returns the calls: id and name."""


@asynccontextmanager
async def served(gemini: Gemini, profile: Profile | None = None) -> AsyncIterator[str]:
    """The URL of a gateway in front of a simulated Gemini."""
    profile = profile or builtin_profile("chat", "gemini")
    async with listening(gemini.application(), "127.0.0.1", 0, drain=0.5) as upstream:
        config = Config(
            {"gemini": Provider("gemini", Dialect.CHAT, upstream, profile=profile)},
            (Route("*", "gemini", upstream_model="sim-agent"),),
        )
        async with listening(make_app(config), "127.0.0.1", 0, drain=0.5) as url:
            yield url


async def claude(url: str, messages: list[Any], stream: bool) -> list[tuple[str, str]]:
    """One reply for Anthropic's SDK."""
    asked: Any = {"model": "m", "max_tokens": 99, "messages": messages, "tools": MESSAGES_TOOLS}
    async with anthropic_sdk(url) as sdk:
        if stream:
            async with sdk.messages.stream(**asked) as events:
                reply = await events.get_final_message()
        else:
            reply = await sdk.messages.create(**asked)
    messages.append({"role": "assistant", "content": [block.to_dict() for block in reply.content]})
    return [(block.id, block.name) for block in reply.content if block.type == "tool_use"]


async def chat(url: str, messages: list[Any], stream: bool) -> list[tuple[str, str]]:
    """One reply for OpenAI's SDK, over Chat."""
    asked: Any = {"model": "m", "messages": messages, "tools": CHAT_TOOLS}
    async with openai_sdk(url) as sdk:
        reply: Any = await sdk.chat.completions.create(**asked, stream=stream)
        if stream:
            message = accumulated([chunk.choices[0].delta.to_dict() async for chunk in reply if chunk.choices])
        else:
            message = reply.choices[0].message.to_dict()
    messages.append(message)
    return [(call["id"], call["function"]["name"]) for call in message.get("tool_calls") or ()]


def accumulated(deltas: list[Json]) -> Json:
    """The message of a stream. The SDK's own helper needs the index that Gemini's calls lack."""
    message: Json = {"role": "assistant", "content": ""}
    calls: list[Json] = []
    for delta in deltas:
        message["content"] += delta.get("content") or ""
        for fragment in delta.get("tool_calls") or ():
            if "id" in fragment:
                calls.append({"function": {"arguments": ""}})
            call = calls[fragment.get("index", -1)]
            call["function"]["arguments"] += fragment.get("function", {}).get("arguments", "")
            call["function"] |= {key: value for key, value in fragment.get("function", {}).items() if key == "name"}
            call |= {key: fragment[key] for key in ("id", "type", "extra_content") if key in fragment}
        message |= {key: delta[key] for key in ("extra_content",) if key in delta}
    return message | ({"tool_calls": calls} if calls else {})


async def responses(url: str, items: list[Any], stream: bool) -> list[tuple[str, str]]:
    """One reply for OpenAI's SDK, over Responses."""
    asked: Any = {"model": "m", "input": items, "tools": TOOLS, "store": False}
    async with openai_sdk(url) as sdk:
        if stream:
            async with sdk.responses.stream(**asked) as events:
                reply: Any = await events.get_final_response()
        else:
            reply = await sdk.responses.create(**asked)
    output = [item.to_dict() for item in reply.output]
    for item in output:
        item.pop("parsed_arguments", None)
        for part in item.get("content") or ():
            part.pop("parsed", None)
    items += output
    return [(item["call_id"], item["name"]) for item in output if item["type"] == "function_call"]


CLIENTS: dict[str, Turns] = {"messages": claude, "chat": chat, "responses": responses}


def answer(client: str, messages: list[Any], calls: list[tuple[str, str]], results: tuple[str, ...]) -> None:
    """Add the results of calls to a conversation."""
    pairs = list(zip((call_id for call_id, _ in calls), results, strict=True))
    if client == "messages":
        blocks = [{"type": "tool_result", "tool_use_id": call_id, "content": result} for call_id, result in pairs]
        messages.append({"role": "user", "content": blocks})
    elif client == "chat":
        messages += [{"role": "tool", "tool_call_id": call_id, "content": result} for call_id, result in pairs]
    else:
        messages += [
            {"type": "function_call_output", "call_id": call_id, "output": result} for call_id, result in pairs
        ]


async def loop(client: str, url: str, *, stream: bool) -> list[Any]:
    """A conversation: two turns with calls, an answer, and a second prompt with its own calls."""
    turn = CLIENTS[client]
    messages: list[Any] = [{"role": "user", "content": PLAN}]
    for _ in range(2):
        calls = await turn(url, messages, stream)
        assert [name for _, name in calls] == ["get_weather", "get_time"]
        answer(client, messages, calls, RESULTS[:2])
        calls = await turn(url, messages, stream)
        assert [name for _, name in calls] == ["get_weather"]
        answer(client, messages, calls, RESULTS[2:])
        assert await turn(url, messages, stream) == []
        messages.append({"role": "user", "content": PLAN})
    return messages[:-1]


@pytest.mark.turns
@pytest.mark.parametrize("profile", ["gemini", "compatible"])
@pytest.mark.parametrize("gemini", [Gemini(), Gemini("vertex"), Gemini(trailing=True)], ids=["g", "vertex", "trailing"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_session_keeps_the_signatures(client: str, stream: bool, gemini: Gemini, profile: str) -> None:
    """T-15: without them Gemini answers the next turn with 400."""
    gemini.requests.clear()
    async with served(gemini, builtin_profile("chat", profile)) as url:
        await loop(client, url, stream=stream)
    assert [received.status for received in gemini.requests] == [200] * 6
    sent = [message for message in gemini.requests[-1].body["messages"] if message["role"] == "assistant"]
    calls = [message["tool_calls"] for message in sent if message.get("tool_calls")]
    assert len(calls) == 4
    assert all(gemini.vendor in first["extra_content"] for first, *_ in calls), "no made-up signature"
    assert not any("extra_content" in call for _, *others in calls for call in others)
    [text] = [message for message in sent if not message.get("tool_calls")]
    assert gemini.vendor in text["extra_content"]


@pytest.mark.parametrize("rewrite", [False, True])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_chat_client_of_a_rewritten_route_keeps_them(stream: bool, rewrite: bool) -> None:
    gemini = Gemini()
    async with served(gemini, builtin_profile("chat", "gemini").replace({"rewrite": rewrite})) as url:
        await loop("chat", url, stream=stream)
    assert [received.status for received in gemini.requests] == [200] * 6
    assert SKIP not in json.dumps([received.body for received in gemini.requests])
    signed = [message for message in gemini.requests[-1].body["messages"] if "extra_content" in json.dumps(message)]
    assert len(signed) == 5


def unsigned(client: str, messages: list[Any]) -> list[Any]:
    """The conversation as it would come from another model: without its reasoning and `extra_content`."""
    plain = json.loads(json.dumps(messages))
    for message in plain:
        message.pop("extra_content", None)
        for call in message.get("tool_calls") or ():
            call.pop("extra_content", None)
        if client == "messages" and isinstance(message["content"], list):
            message["content"] = [block for block in message["content"] if block["type"] != "thinking"]
    return [message for message in plain if message.get("type") != "reasoning"]


@pytest.mark.parametrize("rewrite", [False, True])
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_history_of_another_model_is_accepted(client: str, rewrite: bool) -> None:
    """T-15: its calls have no signatures of Gemini."""
    gemini = Gemini()
    async with served(gemini, builtin_profile("chat", "gemini").replace({"rewrite": rewrite})) as url:
        messages = await loop(client, url, stream=False)
        await CLIENTS[client](url, unsigned(client, messages[:-1]), True)
        assert gemini.requests[-1].status == 200
    firsts = [message["tool_calls"] for message in gemini.requests[-1].body["messages"] if message.get("tool_calls")]
    assert [first["extra_content"] for first, *_ in firsts] == [{"google": {"thought_signature": SKIP}}] * 4
    assert not any("extra_content" in call for _, *others in firsts for call in others)

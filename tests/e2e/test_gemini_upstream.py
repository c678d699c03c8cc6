"""Official SDKs through a gateway to a simulated Gemini, which checks requests and signatures as Google documents them.

Each has a session of two turns with a tool call: the call's signature comes back in its own part, or as the value that
Google documents for clients without a place for it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import anthropic
import openai
import pytest
from aiohttp import web

from conformance.served import anthropic_sdk
from dragoman import builtin_profile
from dragoman.dialects import Dialect
from dragoman_server.config.provider import Provider, Secret
from dragoman_server.simulator import REQUESTS
from dragoman_server.simulator.render_generate import call_signature
from oracles.requests.generate import SKIP
from oracles.simulator import strict_simulator
from support.gateways import config_for, gate, served
from support.simulated import CHAT_TOOLS, MESSAGES_TOOLS, USER, WEATHER_ARGS, WEATHER_SCHEMA

Json = dict[str, Any]
GENERATE = Dialect("generate")
MODEL = "sim-thinking"
ANSWER = "The tool says: 7 degrees."
STREAMED = pytest.mark.parametrize("streamed", [True, False])


@dataclass
class Entrance:
    """A gateway before a simulated Gemini."""

    url: str
    simulator: web.Application

    def sent(self) -> Json:
        """The last request that the upstream got."""
        body: Json = self.simulator[REQUESTS][-1].body
        return body

    def signature(self) -> str | None:
        """The signature of the only call in it."""
        parts = [part for content in self.sent()["contents"] for part in content["parts"]]
        [call] = [part for part in parts if "functionCall" in part]
        signature: str | None = call.get("thoughtSignature")
        return signature


@pytest.fixture
async def entrance() -> AsyncIterator[Entrance]:
    simulator = strict_simulator(require_key=True, verify=True)
    async with served(simulator) as (url, _):
        up = Provider("up", GENERATE, url, Secret("google-key"), profile=builtin_profile("generate"))
        async with gate(replace(config_for(url, GENERATE), providers={"up": up})) as found:
            yield Entrance(found.url, simulator)


@STREAMED
async def test_chat(entrance: Entrance, streamed: bool) -> None:
    async with openai.AsyncOpenAI(base_url=f"{entrance.url}/v1", api_key="k", max_retries=0) as sdk:

        async def ask(messages: list[Any]) -> Any:
            options: Json = {"model": MODEL, "messages": messages, "tools": CHAT_TOOLS, "reasoning_effort": "high"}
            if not streamed:
                return (await sdk.chat.completions.create(**options)).choices[0]
            async with sdk.chat.completions.stream(**options) as stream:
                return (await stream.get_final_completion()).choices[0]

        first = await ask(USER)
        [call] = first.message.tool_calls
        assert (first.finish_reason, call.function.name) == ("tool_calls", "get_weather")
        assert json.loads(call.function.arguments) == WEATHER_ARGS
        asked = {"role": "assistant", "content": first.message.content, "tool_calls": [call.model_dump(include=_CALL)]}
        second = await ask([*USER, asked, {"role": "tool", "tool_call_id": call.id, "content": "7 degrees"}])
    assert (second.finish_reason, second.message.content) == ("stop", ANSWER)
    assert entrance.signature() == SKIP


_CALL: Any = {"id": True, "type": True, "function": {"name", "arguments"}}


@STREAMED
async def test_messages(entrance: Entrance, streamed: bool) -> None:
    async with anthropic.AsyncAnthropic(base_url=entrance.url, api_key="k", max_retries=0) as sdk:

        async def ask(messages: list[Any]) -> Any:
            options: Json = {
                "model": MODEL,
                "max_tokens": 9000,
                "messages": messages,
                "tools": MESSAGES_TOOLS,
                "thinking": {"type": "adaptive", "display": "summarized"},
            }
            if not streamed:
                return await sdk.messages.create(**options)
            async with sdk.messages.stream(**options) as stream:
                return await stream.get_final_message()

        first = await ask(USER)
        assert first.stop_reason == "tool_use"
        assert first.content[0].type == "thinking"
        assert first.content[0].thinking.startswith("The user needs a look-up")
        [call] = [block for block in first.content if block.type == "tool_use"]
        assert (call.name, call.input) == ("get_weather", WEATHER_ARGS)
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "7 degrees"}
        history = [*USER, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
        second = await ask(history)
    assert second.stop_reason == "end_turn"
    assert "".join(block.text for block in second.content if block.type == "text") == ANSWER
    assert entrance.signature() == call_signature("get_weather", WEATHER_ARGS)


@STREAMED
async def test_responses(entrance: Entrance, streamed: bool) -> None:
    tools = [{"type": "function", "name": "get_weather", "parameters": WEATHER_SCHEMA, "strict": False}]
    async with openai.AsyncOpenAI(base_url=f"{entrance.url}/v1", api_key="k", max_retries=0) as sdk:

        async def ask(items: list[Any]) -> Any:
            options: Json = {
                "model": MODEL,
                "input": items,
                "tools": tools,
                "store": False,
                "reasoning": {"effort": "high", "summary": "auto"},
                "include": ["reasoning.encrypted_content"],
            }
            if not streamed:
                return await sdk.responses.create(**options)
            async with sdk.responses.stream(**options) as stream:
                return await stream.get_final_response()

        first = await ask(USER)
        assert first.status == "completed"
        [call] = [item for item in first.output if item.type == "function_call"]
        assert (call.name, json.loads(call.arguments)) == ("get_weather", WEATHER_ARGS)
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "7 degrees"}
        second = await ask([*USER, *(item.to_dict() for item in first.output), output])
    assert (second.status, second.output_text) == ("completed", ANSWER)
    assert entrance.signature() == call_signature("get_weather", WEATHER_ARGS)


async def test_models_tokens_and_keys(entrance: Entrance) -> None:
    """The list is Google's, without its folders; tokens are counted by the upstream, with its key."""
    async with anthropic.AsyncAnthropic(base_url=entrance.url, api_key="k", max_retries=0) as sdk:
        names = {model.id async for model in sdk.models.list()}
        counted = await sdk.messages.count_tokens(model=MODEL, messages=USER, tools=MESSAGES_TOOLS)
    assert {"sim-text", "sim-tools"} <= {name.rpartition("/")[2] for name in names}
    assert not any("models/" in name for name in names)
    request = entrance.simulator[REQUESTS][-1]
    assert request.path == f"/v1beta/models/{MODEL}:countTokens"
    assert request.headers["x-goog-api-key"] == "google-key"
    assert "authorization" not in request.headers
    assert counted.input_tokens > 20


async def test_vertex_is_asked_in_its_own_form() -> None:
    """Its path names the publisher, and its question is flat (google-genai's `_CountTokensParameters_to_vertex`)."""
    arrived: list[tuple[str, Json]] = []

    async def count(request: web.Request) -> web.Response:
        arrived.append((request.path, await request.json()))
        return web.json_response({"totalTokens": 31, "totalBillableCharacters": 9})

    app = web.Application()
    app.router.add_post("/{path:.+}:countTokens", count)
    place = "/v1/projects/p/locations/global/publishers/google"
    async with served(app) as (url, _):
        up = Provider("up", GENERATE, url + place, Secret("key"), profile=builtin_profile("generate"))
        config = replace(config_for(url, GENERATE), providers={"up": up})
        async with gate(config) as found, anthropic_sdk(found.url) as sdk:
            counted = await sdk.messages.count_tokens(model="gemini-3-pro", messages=USER, system="Be short.")
    assert counted.input_tokens == 31
    [(path, question)] = arrived
    assert path == f"{place}/models/gemini-3-pro:countTokens"
    assert question | {"generationConfig": {}} == {
        "generationConfig": {},
        "systemInstruction": {"parts": [{"text": "Be short."}]},
        "contents": [{"role": "user", "parts": [{"text": "Hi ✨"}]}],
    }


@pytest.mark.parametrize("status", [400, 404, 429, 503])
async def test_errors_are_those_of_the_client(entrance: Entrance, status: int) -> None:
    async with openai.AsyncOpenAI(base_url=f"{entrance.url}/v1", api_key="k", max_retries=0) as sdk:
        with pytest.raises(openai.APIStatusError) as caught:
            await sdk.chat.completions.create(model=f"sim-error-{status}", messages=USER)
    assert caught.value.status_code == status
    assert caught.value.response.headers.get("retry-after") == ("1" if status in (429, 503) else None)

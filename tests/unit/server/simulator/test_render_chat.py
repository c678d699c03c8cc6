"""The simulator's Chat replies, read by the official SDK."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
from openai import AsyncOpenAI

from support.simulated import CHAT_TOOLS, USER, WEATHER_ARGS, lines


async def test_chat_streams_text_with_usage_last(oai: AsyncOpenAI) -> None:
    async with oai.chat.completions.stream(
        model="sim-text", messages=USER, stream_options={"include_usage": True}
    ) as stream:
        chunks = [event.chunk async for event in stream if event.type == "chunk"]
        final = await stream.get_final_completion()
    assert final.choices[0].message.content == "You said: Hi ✨. Grüße 👋🏽 aus 東京\u2028— done."
    assert final.choices[0].finish_reason == "stop"
    assert final.service_tier == "default"
    assert final.system_fingerprint
    assert chunks[-1].choices == []
    assert all(chunk.usage is None and "usage" in chunk.model_fields_set for chunk in chunks[:-1])
    usage = final.usage
    assert usage is not None
    assert usage.prompt_tokens_details is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (12, 7, 19)
    assert usage.prompt_tokens_details.cached_tokens == 4


async def test_chat_frames_are_padded_by_default(raw: aiohttp.ClientSession) -> None:
    body = {"model": "sim-text", "messages": USER}
    padded = await lines(raw, "/v1/chat/completions", body)
    assert padded[-1] == "[DONE]"
    assert all(chunk["obfuscation"] for chunk in padded[:-1])
    assert all("usage" not in chunk for chunk in padded[:-1])
    assert padded[0]["choices"][0]["delta"]["role"] == "assistant"
    bare = await lines(raw, "/v1/chat/completions", {**body, "stream_options": {"include_obfuscation": False}})
    assert all("obfuscation" not in chunk for chunk in bare[:-1])


async def test_chat_calls_a_tool_and_quotes_its_result(oai: AsyncOpenAI) -> None:
    async with oai.chat.completions.stream(model="sim-tools", messages=USER, tools=CHAT_TOOLS) as stream:
        message = (await stream.get_final_completion()).choices[0].message
    calls = message.tool_calls
    assert calls is not None
    assert calls[0].function.name == "get_weather"
    assert json.loads(calls[0].function.arguments) == WEATHER_ARGS
    history = [
        *USER,
        {"role": "assistant", "content": message.content, "tool_calls": [calls[0].model_dump(include=_CALL)]},
        {"role": "tool", "tool_call_id": calls[0].id, "content": "7 degrees"},
    ]
    answer = await oai.chat.completions.create(model="sim-tools", messages=history, tools=CHAT_TOOLS)
    assert answer.choices[0].message.content == "The tool says: 7 degrees."


_CALL: Any = {"id": True, "type": True, "function": {"name", "arguments"}}


async def test_chat_interleaves_parallel_calls(oai: AsyncOpenAI, raw: aiohttp.ClientSession) -> None:
    async with oai.chat.completions.stream(model="sim-parallel", messages=USER) as stream:
        calls = (await stream.get_final_completion()).choices[0].message.tool_calls
    assert calls is not None
    assert [(c.function.name, json.loads(c.function.arguments)) for c in calls] == [
        ("get_weather", {"city": "Oslo"}),
        ("get_time", {"tz": "CET"}),
    ]
    frames = await lines(raw, "/v1/chat/completions", {"model": "sim-parallel", "messages": USER})
    deltas = [frame["choices"][0]["delta"] for frame in frames[:-1]]
    order = [delta["tool_calls"][0]["index"] for delta in deltas if "tool_calls" in delta]
    assert order[:6] == [0, 1] * 3


async def test_chat_thinks_aloud(oai: AsyncOpenAI) -> None:
    whole = await oai.chat.completions.create(model="sim-thinking", messages=USER, tools=CHAT_TOOLS)
    async with oai.chat.completions.stream(
        model="sim-thinking", messages=USER, tools=CHAT_TOOLS, stream_options={"include_usage": True}
    ) as stream:
        final = await stream.get_final_completion()
    for reply in (whole, final):
        message = reply.choices[0].message
        assert (message.model_extra or {})["reasoning_content"].startswith("The user needs a look-up")
        assert message.tool_calls
        assert reply.usage is not None
        assert reply.usage.completion_tokens_details is not None
        assert reply.usage.completion_tokens_details.reasoning_tokens == 3


async def test_chat_ends_in_every_scripted_way(oai: AsyncOpenAI) -> None:
    async def ask(model: str, **options: Any) -> Any:
        reply = await oai.chat.completions.create(model=model, messages=USER, **options)
        return reply.choices[0]

    refused = await ask("sim-refusal")
    assert (refused.finish_reason, refused.message.refusal) == ("stop", "I can't help with that.")
    assert refused.message.content is None
    assert (await ask("sim-late-refusal")).finish_reason == "content_filter"
    assert (await ask("sim-length-text")).finish_reason == "length"
    cut = await ask("sim-length", tools=CHAT_TOOLS)
    assert cut.finish_reason == "length"
    assert cut.message.tool_calls[0].function.arguments == '{"path":"notes'
    stopped = await ask("sim-stop", stop=["END"])
    assert (stopped.finish_reason, stopped.message.content) == ("stop", "one, two, three")
    empty = await ask("sim-empty")
    assert (empty.finish_reason, empty.message.content) == ("stop", "")
    assert (await ask("sim-long-50")).message.content.count("token") == 50


async def test_chat_answers_in_the_asked_schema(oai: AsyncOpenAI) -> None:
    schema = {
        "type": "object",
        "properties": {"point": {"$ref": "#/$defs/Point"}, "tags": {"type": "array", "items": {"enum": ["a", "b"]}}},
        "required": ["point", "tags"],
        "additionalProperties": False,
        "$defs": {
            "Point": {
                "type": "object",
                "properties": {"x": {"type": "number", "minimum": 3}, "y": {"type": ["null", "boolean"]}},
                "required": ["x", "y"],
                "additionalProperties": False,
            }
        },
    }
    form: Any = {"type": "json_schema", "json_schema": {"name": "shape", "schema": schema, "strict": True}}
    reply = await oai.chat.completions.create(model="sim-json", messages=USER, response_format=form)
    assert json.loads(reply.choices[0].message.content or "") == {"point": {"x": 3, "y": True}, "tags": ["a"]}

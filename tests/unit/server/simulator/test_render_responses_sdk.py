"""The simulator's Responses, read by the official SDK."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
from openai import AsyncOpenAI

from support.simulated import WEATHER_ARGS, WEATHER_SCHEMA, lines

RESPONSES_TOOLS: list[Any] = [
    {"type": "function", "name": "get_weather", "parameters": WEATHER_SCHEMA, "strict": False},
    {"type": "function", "name": "get_time", "parameters": {"type": "object", "properties": {}}, "strict": False},
]


async def test_responses_streams_text(oai: AsyncOpenAI) -> None:
    async with oai.responses.stream(model="sim-text", input="Hi ✨") as stream:
        events = [event async for event in stream]
        final = await stream.get_final_response()
    assert final.output_text == "You said: Hi ✨. Grüße 👋🏽 aus 東京\u2028— done."
    assert final.status == "completed"
    usage = final.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (12, 7, 19)
    assert usage.input_tokens_details.cache_write_tokens == 0
    assert [getattr(event, "sequence_number", None) for event in events] == list(range(len(events)))


async def test_responses_reasons_and_calls(oai: AsyncOpenAI) -> None:
    async with oai.responses.stream(model="sim-thinking", input="Hi", tools=RESPONSES_TOOLS) as stream:
        async for _ in stream:
            pass
        final = await stream.get_final_response()
    reasoning, message, call = final.output
    assert reasoning.type == "reasoning"
    assert reasoning.encrypted_content
    assert reasoning.summary[0].text.startswith("The user needs a look-up")
    assert message.type == "message"
    assert call.type == "function_call"
    assert json.loads(call.arguments) == WEATHER_ARGS
    assert call.call_id.startswith("call_")
    assert (call.id or "").startswith("fc_")
    output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "7 degrees"}
    chained = await oai.responses.create(model="sim-tools", input=[output], previous_response_id=final.id)
    assert chained.output_text == "The tool says: 7 degrees."
    # The API accepts its own output.
    history: list[Any] = [{"role": "user", "content": "Hi"}, reasoning, message, call, output]
    items = [
        i if isinstance(i, dict) else i.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for i in history
    ]
    for part in items[2]["content"]:
        part.pop("parsed", None)
    replayed: Any = items
    again = await oai.responses.create(model="sim-tools", input=replayed, store=False)
    assert again.output_text == "The tool says: 7 degrees."


async def test_responses_interleaves_parallel_calls(oai: AsyncOpenAI) -> None:
    async with oai.responses.stream(model="sim-parallel", input="Hi") as stream:
        order = [event.output_index async for event in stream if event.type == "response.function_call_arguments.delta"]
        final = await stream.get_final_response()
    assert order[:6] == [1, 2] * 3
    assert [item.type for item in final.output] == ["message", "function_call", "function_call"]


async def test_responses_plays_namespaced_and_custom_tools(oai: AsyncOpenAI) -> None:
    """T-50: free-form tools keep their kind."""
    custom: Any = {"type": "custom", "name": "apply_patch"}
    reply = await oai.responses.create(model="sim-tools", input="Hi", tools=[custom])
    call = reply.output[-1]
    assert call.type == "custom_tool_call"
    assert call.input.startswith("*** Begin Patch")
    space: Any = {"type": "namespace", "name": "multi", "description": "x", "tools": [RESPONSES_TOOLS[1]]}
    reply = await oai.responses.create(model="sim-tools", input="Hi", tools=[space])
    call = reply.output[-1]
    assert call.type == "function_call"
    assert (call.namespace, call.name) == ("multi", "get_time")


async def test_responses_ends_in_every_scripted_way(oai: AsyncOpenAI, raw: aiohttp.ClientSession) -> None:
    async def last(model: str) -> Any:
        whole = await oai.responses.create(model=model, input="Hi")
        event = (await lines(raw, "/v1/responses", {"model": model, "input": "Hi"}))[-1]
        assert event["type"] == f"response.{whole.status}"
        assert len(event["response"]["output"]) == len(whole.output)
        return event["response"]

    refused = await last("sim-refusal")
    assert refused["status"] == "completed"
    assert refused["output"][0]["content"] == [{"type": "refusal", "refusal": "I can't help with that."}]
    late = await last("sim-late-refusal")
    assert late["incomplete_details"] == {"reason": "content_filter"}
    cut = await last("sim-length")
    assert cut["incomplete_details"] == {"reason": "max_output_tokens"}
    assert cut["output"][1]["status"] == "incomplete"
    assert (await last("sim-empty"))["output"] == []
    failed = await last("sim-error-mid")
    assert failed["error"]["code"] == "server_is_overloaded"
    assert failed["output"][0]["status"] == "incomplete"


async def test_responses_never_closes_the_arguments_of_a_cut_call(raw: aiohttp.ClientSession) -> None:
    events = await lines(raw, "/v1/responses", {"model": "sim-length", "input": "Hi"})
    assert "response.function_call_arguments.done" not in [event["type"] for event in events]


async def test_responses_answers_in_the_asked_schema(oai: AsyncOpenAI) -> None:
    text: Any = {"format": {"type": "json_schema", "name": "w", "schema": WEATHER_SCHEMA, "strict": False}}
    reply = await oai.responses.create(model="sim-json", input="Hi", text=text)
    assert json.loads(reply.output_text) == WEATHER_ARGS

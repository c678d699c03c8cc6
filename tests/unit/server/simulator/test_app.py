"""The simulated upstream, read by the vendors' own SDKs over a real socket, and what it refuses."""

from __future__ import annotations

import ast
import asyncio
import copy
import json
import random
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import anthropic
import openai
import pytest
from aiohttp.test_utils import TestServer
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from conformance.served import serving
from dragoman_server import simulator
from dragoman_server.simulator import REQUESTS, SCRIPTS, STREAMS, make_simulator
from oracles.simulator import strict_simulator

FIXTURES = Path(__file__).parents[1] / "fixtures"
WEATHER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "unit": {"enum": ["celsius", "kelvin"]}, "days": {"type": "integer"}},
    "required": ["city", "unit"],
}
CHAT_TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "get_weather", "parameters": WEATHER_SCHEMA}},
    {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object", "properties": {}}}},
]
MESSAGES_TOOLS: list[Any] = [
    {"name": "get_weather", "input_schema": WEATHER_SCHEMA},
    {"name": "get_time", "input_schema": {"type": "object", "properties": {}}},
]
RESPONSES_TOOLS: list[Any] = [
    {"type": "function", "name": "get_weather", "parameters": WEATHER_SCHEMA, "strict": False},
    {"type": "function", "name": "get_time", "parameters": {"type": "object", "properties": {}}, "strict": False},
]
WEATHER_ARGS = {"city": "Oslo", "unit": "celsius"}
USER: list[Any] = [{"role": "user", "content": "Hi ✨"}]


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    server = TestServer(strict_simulator(slow=0.05, stall=5.0))
    async with server:
        yield server


@pytest.fixture
async def oai(server: TestServer) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(api_key="k", base_url=str(server.make_url("/v1")), max_retries=0) as client:
        yield client


@pytest.fixture
async def ant(server: TestServer) -> AsyncIterator[AsyncAnthropic]:
    async with AsyncAnthropic(api_key="k", base_url=str(server.make_url("")), max_retries=0) as client:
        yield client


@pytest.fixture
async def raw(server: TestServer) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(base_url=server.make_url("/")) as session:
        yield session


VERSION = {"anthropic-version": "2023-06-01"}


async def post(
    raw: aiohttp.ClientSession, path: str, body: Any, headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    async with raw.post(path, json=body, headers=headers) as response:
        return response.status, await response.json()


async def lines(raw: aiohttp.ClientSession, path: str, body: Any) -> list[Any]:
    """The data of each frame of a stream, parsed where it is JSON."""
    async with raw.post(path, json={**body, "stream": True}, headers=VERSION) as response:
        assert response.status == 200
        assert response.content_type == "text/event-stream"
        text = await response.text()
    datas = [part.partition("data: ")[2] for part in text.split("\n\n") if part]
    return [json.loads(data) if data.startswith("{") else data for data in datas]


# Chat Completions


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


# Messages


async def test_messages_streams_text(ant: AsyncAnthropic) -> None:
    async with ant.messages.stream(model="sim-text", max_tokens=100, messages=USER) as stream:
        text = "".join([text async for text in stream.text_stream])
        final = await stream.get_final_message()
    assert text == "You said: Hi ✨. Grüße 👋🏽 aus 東京\u2028— done."
    assert final.stop_reason == "end_turn"
    assert (final.usage.input_tokens, final.usage.cache_read_input_tokens, final.usage.output_tokens) == (8, 4, 7)


async def test_messages_stream_spells_every_event(raw: aiohttp.ClientSession) -> None:
    events = await lines(raw, "/v1/messages", {"model": "sim-text", "max_tokens": 9, "messages": USER})
    kinds = [event["type"] for event in events]
    assert kinds[:3] == ["message_start", "content_block_start", "ping"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert events[0]["message"]["usage"]["input_tokens"] == 8  # T-30: never 0
    assert events[-2]["usage"]["output_tokens"] == 7
    assert events[-2]["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}


async def test_messages_thinks_with_a_signature_and_calls(ant: AsyncAnthropic) -> None:
    async with ant.messages.stream(
        model="sim-thinking", max_tokens=4000, messages=USER, tools=MESSAGES_TOOLS
    ) as stream:
        final = await stream.get_final_message()
    thinking, text, call = final.content
    assert thinking.type == "thinking"
    assert thinking.signature
    assert text.type == "text"
    assert call.type == "tool_use"
    assert call.input == WEATHER_ARGS
    assert final.stop_reason == "tool_use"
    assert final.usage.output_tokens_details is not None
    assert final.usage.output_tokens_details.thinking_tokens == 3
    history: list[Any] = [
        *USER,
        {"role": "assistant", "content": [block.model_dump(include=_BLOCK) for block in final.content]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "7 degrees"}]},
    ]
    answer = await ant.messages.create(model="sim-tools", max_tokens=9, messages=history, tools=MESSAGES_TOOLS)
    assert answer.content[0].type == "text"
    assert answer.content[0].text == "The tool says: 7 degrees."


_BLOCK: Any = {"type", "text", "thinking", "signature", "id", "name", "input"}


async def test_messages_omits_thinking_text_when_asked(ant: AsyncAnthropic) -> None:
    thinking: Any = {"type": "adaptive", "display": "omitted"}
    async with ant.messages.stream(model="sim-thinking", max_tokens=9, messages=USER, thinking=thinking) as stream:
        block = (await stream.get_final_message()).content[0]
    assert block.type == "thinking"
    assert block.thinking == ""
    assert block.signature


async def test_messages_interleaves_parallel_calls(ant: AsyncAnthropic, raw: aiohttp.ClientSession) -> None:
    async with ant.messages.stream(model="sim-parallel", max_tokens=9, messages=USER) as stream:
        final = await stream.get_final_message()
    assert [block.input for block in final.content if block.type == "tool_use"] == [{"city": "Oslo"}, {"tz": "CET"}]
    events = await lines(raw, "/v1/messages", {"model": "sim-parallel", "max_tokens": 9, "messages": USER})
    order = [event["index"] for event in events if event.get("delta", {}).get("partial_json")]
    assert order[:6] == [1, 2] * 3


async def test_messages_ends_in_every_scripted_way(ant: AsyncAnthropic) -> None:
    async def ask(model: str, **options: Any) -> Any:
        whole = await ant.messages.create(model=model, max_tokens=99, messages=USER, **options)
        async with ant.messages.stream(model=model, max_tokens=99, messages=USER, **options) as stream:
            streamed = await stream.get_final_message()
        assert streamed.stop_reason == whole.stop_reason
        assert streamed.stop_details == whole.stop_details
        assert streamed.usage.output_tokens == whole.usage.output_tokens
        return whole

    refused = await ask("sim-refusal")
    assert (refused.stop_reason, refused.content, refused.usage.output_tokens) == ("refusal", [], 0)
    assert refused.stop_details.explanation == "I can't help with that."
    late = await ask("sim-late-refusal")
    assert (late.stop_reason, late.content[0].text) == ("refusal", "Step one is to")
    assert (await ask("sim-length-text")).stop_reason == "max_tokens"
    cut = await ask("sim-length")
    assert (cut.stop_reason, cut.content[1].type) == ("max_tokens", "tool_use")
    stopped = await ask("sim-stop")
    assert (stopped.stop_reason, stopped.stop_sequence) == ("end_turn", None)
    stopped = await ask("sim-stop", stop_sequences=["END"])
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", "END")
    assert (await ask("sim-empty")).content == []


async def test_messages_answers_in_the_asked_schema(ant: AsyncAnthropic) -> None:
    form: Any = {"format": {"type": "json_schema", "schema": WEATHER_SCHEMA}}
    reply = await ant.messages.create(model="sim-json", max_tokens=9, messages=USER, output_config=form)
    assert reply.content[0].type == "text"
    assert json.loads(reply.content[0].text) == WEATHER_ARGS


async def test_messages_counts_tokens_and_never_zero(ant: AsyncAnthropic) -> None:
    """T-60: 0 is worse than no answer."""
    small = await ant.messages.count_tokens(model="sim-text", messages=USER)
    large = await ant.messages.count_tokens(model="sim-text", messages=USER, tools=MESSAGES_TOOLS)
    assert 0 < small.input_tokens < large.input_tokens


# Responses


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


# Failures


@pytest.mark.parametrize(
    ("status", "of_openai", "of_anthropic"),
    [
        (400, openai.BadRequestError, anthropic.BadRequestError),
        (401, openai.AuthenticationError, anthropic.AuthenticationError),
        (402, openai.APIStatusError, anthropic.PaymentRequiredError),
        (403, openai.PermissionDeniedError, anthropic.PermissionDeniedError),
        (404, openai.NotFoundError, anthropic.NotFoundError),
        (413, openai.APIStatusError, anthropic.ContentTooLargeError),
        (429, openai.RateLimitError, anthropic.RateLimitError),
        (500, openai.InternalServerError, anthropic.InternalServerError),
        (503, openai.InternalServerError, anthropic.ServiceUnavailableError),
        (529, openai.InternalServerError, anthropic.OverloadedError),
    ],
)
async def test_errors_raise_the_sdks_own_classes(
    oai: AsyncOpenAI,
    ant: AsyncAnthropic,
    status: int,
    of_openai: type[openai.APIStatusError],
    of_anthropic: type[anthropic.APIStatusError],
) -> None:
    model = f"sim-error-{status}"
    with pytest.raises(of_openai) as chat:
        await oai.chat.completions.create(model=model, messages=USER, stream=True)
    assert chat.value.status_code == status
    assert chat.value.type
    assert chat.value.request_id
    with pytest.raises(of_openai):
        await oai.responses.create(model=model, input="Hi")
    with pytest.raises(of_anthropic) as messages:
        await ant.messages.create(model=model, max_tokens=9, messages=USER)
    body = messages.value.body
    assert isinstance(body, dict)
    assert body["request_id"] == messages.value.request_id
    if status in (429, 529):
        assert chat.value.response.headers["retry-after-ms"] == "1000"
        assert messages.value.response.headers["retry-after"] == "1"


async def test_error_variants_have_the_texts_that_clients_look_for(oai: AsyncOpenAI, ant: AsyncAnthropic) -> None:
    with pytest.raises(openai.RateLimitError) as quota:
        await oai.responses.create(model="sim-error-429-quota", input="Hi")
    assert quota.value.code == "insufficient_quota"
    assert quota.value.response.headers["x-should-retry"] == "false"
    assert "retry-after" not in quota.value.response.headers
    with pytest.raises(openai.BadRequestError) as context:
        await oai.chat.completions.create(model="sim-error-400-context", messages=USER)
    assert context.value.code == "context_length_exceeded"
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long"):
        await ant.messages.create(model="sim-error-400-context", max_tokens=9, messages=USER)


async def test_errors_in_the_stream_are_the_dialects_own(
    oai: AsyncOpenAI, ant: AsyncAnthropic, raw: aiohttp.ClientSession
) -> None:
    async with oai.chat.completions.stream(model="sim-error-mid", messages=USER) as stream:
        with pytest.raises(openai.APIError, match="overloaded"):
            await stream.get_final_completion()
    async with ant.messages.stream(model="sim-error-mid", max_tokens=9, messages=USER) as answer:
        with pytest.raises(anthropic.APIStatusError, match="overloaded"):
            await answer.get_final_message()
    async with oai.responses.stream(model="sim-error-mid-event", input="Hi") as events:
        with pytest.raises(openai.APIError, match="overloaded"):
            await events.get_final_response()
    frames = await lines(raw, "/v1/messages", {"model": "sim-error-mid-tools", "max_tokens": 9, "messages": USER})
    assert [frame["type"] for frame in frames].count("content_block_stop") == 1  # the text's, not the call's


PATHS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"messages": USER}),
    ("/v1/messages", {"messages": USER, "max_tokens": 9}),
    ("/v1/responses", {"input": "Hi"}),
]


@pytest.mark.parametrize(("path", "body"), PATHS)
@pytest.mark.parametrize("model", ["sim-cut", "sim-cut-tools"])
async def test_a_cut_delivers_its_text_and_then_breaks(
    raw: aiohttp.ClientSession, path: str, body: dict[str, Any], model: str
) -> None:
    got = b""
    async with raw.post(path, json={**body, "model": model, "stream": True}, headers=VERSION) as response:

        async def read_on() -> None:
            nonlocal got
            while True:
                got += await response.content.readany()

        with pytest.raises(aiohttp.ClientPayloadError):
            await read_on()
    assert b'"Hel"' in got
    assert b'"lo, here"' in got
    assert (b'"{\\"path\\":\\"no"' in got) == (model == "sim-cut-tools")
    with pytest.raises((aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError)):
        await post(raw, path, {**body, "model": model}, VERSION)


@pytest.mark.parametrize(("path", "body"), PATHS)
async def test_a_missing_terminal_ends_cleanly(raw: aiohttp.ClientSession, path: str, body: dict[str, Any]) -> None:
    frames = await lines(raw, path, {**body, "model": "sim-missing"})
    assert "lo, here" in json.dumps(frames[-1])
    assert "[DONE]" not in frames


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
    async with asyncio.timeout(2):
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


# What is sent around the answers


async def test_models_come_in_both_envelopes(oai: AsyncOpenAI, ant: AsyncAnthropic) -> None:
    assert {model.id async for model in oai.models.list()} == set(SCRIPTS)
    assert {model.id async for model in ant.models.list()} == set(SCRIPTS)
    assert (await ant.models.retrieve("sim-text")).lifecycle == "active"
    with pytest.raises(openai.NotFoundError):
        await oai.models.retrieve("sim-nothing")


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


# What is refused


def call(name: str = "f", call_id: str = "call_1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}


def answer(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def result(call_id: str = "call_1", content: Any = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def function(**fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", **fields}}


CHAT_REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("unknown key", {"top_k": 3}, "top_k"),
    ("leaked system", {"system": "x"}, "system"),
    ("orphan result", {"messages": [*USER, result()]}, "role 'tool'"),
    ("unknown id", {"messages": [answer(call()), result("call_2")]}, "call_2"),
    ("unanswered call", {"messages": [*USER, answer(call()), *USER]}, "call_1"),
    ("half answered", {"messages": [answer(call(), call("g", "call_2")), result(), *USER]}, "call_2"),
    ("no content", {"messages": [{"role": "user"}]}, "content"),
    ("empty parts", {"messages": [{"role": "user", "content": []}]}, "content"),
    ("empty tool_calls", {"messages": [{"role": "assistant", "content": "x", "tool_calls": []}, *USER]}, "tool_calls"),
    ("long call id", {"messages": [answer(call(call_id="c" * 41)), result("c" * 41)]}, "maximum length 40"),
    ("image in result", {"messages": [answer(call()), result(content=[{"type": "image_url"}])]}, "Supported values"),
    ("empty tools", {"tools": [], "tool_choice": "auto"}, "empty array"),
    ("choice without tools", {"tool_choice": "auto"}, "tool_choice"),
    ("dotted name", {"tools": [function(name="a.b")]}, "pattern"),
    ("long name", {"tools": [function(name="a" * 65)]}, "maximum length 64"),
    ("union root", {"tools": [function(parameters={"type": "object", "anyOf": []})]}, "top level"),
    ("open strict", {"tools": [function(strict=True, parameters={"type": "object"})]}, "additionalProperties"),
    ("foreign tool", {"tools": [{"name": "f", "input_schema": {}}]}, "type"),
    ("unknown choice", {"tools": CHAT_TOOLS, "tool_choice": {"type": "function", "function": {"name": "z"}}}, "'z'"),
    ("five stops", {"stop": ["a", "b", "c", "d", "e"]}, "maximum length 4"),
    ("both caps", {"max_tokens": 1, "max_completion_tokens": 1}, "max_completion_tokens"),
    ("options without stream", {"stream_options": {"include_usage": True}}, "stream_options"),
    ("hot", {"temperature": 2.5}, "temperature"),
    ("cache mark", {"messages": [{"role": "user", "content": [
        {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]}]}, "cache_control"),
    ("flat format", {"response_format": {"type": "json_schema", "name": "x", "schema": {}}}, "json_schema"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "named"), [pytest.param(*case[1:], id=case[0]) for case in CHAT_REFUSED])
async def test_chat_refuses(raw: aiohttp.ClientSession, changed: dict[str, Any], named: str) -> None:
    status, body = await post(raw, "/v1/chat/completions", {"model": "sim-text", "messages": USER} | changed)
    assert status == 400
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert named in body["error"]["message"]


def use(call_id: str = "t1") -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "f", "input": {}}


def got(call_id: str = "t1") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "ok"}


def turns(*contents: Any) -> dict[str, Any]:
    """Messages that alternate, user first."""
    return {"messages": [{"role": ("user", "assistant")[n % 2], "content": c} for n, c in enumerate(contents)]}


TEXT = {"type": "text", "text": "x"}
MARKED = {**TEXT, "cache_control": {"type": "ephemeral"}}
REASONING = {"type": "thinking", "thinking": "hm"}
BUDGET = {"type": "enabled", "budget_tokens": 1024}
MESSAGES_REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("no cap", {"max_tokens": ...}, "max_tokens: Field required"),
    ("unknown key", {"frequency_penalty": 1}, "frequency_penalty: Extra inputs are not permitted"),
    ("beta field without its flag (T-44)", {"context_management": {}}, "context_management: Extra inputs"),
    ("unanswered call (T-41)", turns("x", [use()], "y"), "t1"),
    ("call at the end", turns("x", [use()]), "prefill"),
    ("late result", turns("x", [use()], [TEXT, got()]), "before other content"),
    ("orphan result", turns("x", "y", [got()]), "unexpected `tool_use_id`"),
    ("result twice", turns("x", [use()], [got(), got()]), "single result"),
    ("id twice", turns("x", [use()], [got()], [use()], [got()]), "unique"),
    ("empty text (T-40)", turns([{"type": "text", "text": ""}]), "non-empty"),
    ("blank text", turns([{"type": "text", "text": " \n"}]), "non-whitespace"),
    ("empty content", turns("x", "", "y"), "non-empty content"),
    ("empty system block", {"system": [{"type": "text", "text": ""}]}, "system: text content blocks"),
    ("unknown block", turns([{"type": "input_text", "text": "x"}]), "Input tag 'input_text'"),
    ("call by the user", turns([use()]), "Input tag 'tool_use'"),
    ("string input (T-06)", turns("x", [{**use(), "input": "{}"}], [got()]), "dictionary"),
    ("system first", {"messages": [{"role": "system", "content": "x"}, *USER]}, "must follow a user message"),
    ("system before user", {"messages": [*USER, {"role": "system", "content": "x"}, *USER]}, "system message"),
    ("five marks", turns([MARKED] * 5), "maximum of 4"),
    ("unsigned thought", turns("x", [REASONING], "y"), "signature: Field required"),
    ("empty signature", turns("x", [{**REASONING, "signature": ""}], "y"), "Invalid `signature`"),
    ("marked (T-45)", turns("x", [{**REASONING, "signature": "s", "cache_control": None}], "y"), "cache_control"),
    ("thoughtless calls", {**turns("x", [use()], [got()]), "thinking": BUDGET, "max_tokens": 2000}, "Expected"),
    ("dotted tool", {"tools": [{"name": "a.b", "input_schema": {"type": "object"}}]}, "pattern"),
    ("long tool", {"tools": [{"name": "a" * 129, "input_schema": {"type": "object"}}]}, "pattern"),
    ("nested tool", {"tools": CHAT_TOOLS}, "Input tag 'function'"),
    ("union root (T-43)", {"tools": [{"name": "a", "input_schema": {"type": "object", "anyOf": []}}]}, "top level"),
    ("twin tools", {"tools": MESSAGES_TOOLS * 2}, "unique"),
    ("choice without tools (T-21)", {"tool_choice": {"type": "auto"}}, "tool_choice"),
    ("choice as a word", {"tools": MESSAGES_TOOLS, "tool_choice": "auto"}, "tool_choice"),
    ("hot", {"temperature": 1.2}, "temperature"),
    ("large budget", {"thinking": BUDGET, "max_tokens": 1024}, "budget_tokens"),
    ("small budget", {"thinking": {**BUDGET, "budget_tokens": 100}, "max_tokens": 4000}, "1024"),
    ("forced while thinking", {"thinking": BUDGET, "max_tokens": 2000, "tools": MESSAGES_TOOLS,
                               "tool_choice": {"type": "any"}}, "tool_choice forces"),
    ("blank stop", {"stop_sequences": [" "]}, "non-whitespace"),
    ("foreign metadata", {"metadata": {"a": "b"}}, "metadata.a"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "named"), [pytest.param(*case[1:], id=case[0]) for case in MESSAGES_REFUSED])
async def test_messages_refuses(raw: aiohttp.ClientSession, changed: dict[str, Any], named: str) -> None:
    body = {"model": "sim-text", "max_tokens": 9, "messages": USER} | changed
    status, answer = await post(raw, "/v1/messages", {k: v for k, v in body.items() if v is not ...}, VERSION)
    assert status == 400
    assert answer["type"] == "error"
    assert answer["error"]["type"] == "invalid_request_error"
    assert named in answer["error"]["message"]


async def test_messages_versions(raw: aiohttp.ClientSession) -> None:
    body = {"model": "sim-text", "max_tokens": 9, "messages": USER}
    status, answer = await post(raw, "/v1/messages", body)
    assert (status, answer["error"]["message"]) == (400, "anthropic-version: header is required")
    newest = {"anthropic-version": "2026-10-21"}
    assert (await post(raw, "/v1/messages", body, newest))[0] == 200
    status, answer = await post(raw, "/v1/messages", {**body, "temperature": 1}, newest)
    assert (status, answer["error"]["message"]) == (400, "temperature: Extra inputs are not permitted")
    assert (await post(raw, "/v1/messages", {**body, "temperature": 1}, VERSION))[0] == 200
    flagged = VERSION | {"anthropic-beta": "context-management-2025-06-27"}
    assert (await post(raw, "/v1/messages", {**body, "context_management": {"edits": []}}, flagged))[0] == 200
    status, answer = await post(raw, "/v1/messages/count_tokens", body, VERSION)
    assert (status, answer["error"]["message"]) == (400, "max_tokens: Extra inputs are not permitted")


def item(kind: str = "function_call", **fields: Any) -> dict[str, Any]:
    return {"type": kind, "call_id": "call_1", **fields}


CALLED = item(name="f", arguments="{}")
ANSWERED = item("function_call_output", output="ok")
RESPONSES_REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("unknown key", {"stop": ["x"]}, "Unknown parameter: 'stop'"),
    ("chat's messages", {"messages": USER}, "Unknown parameter: 'messages'"),
    ("small cap", {"max_output_tokens": 5}, ">= 16"),
    ("usage option", {"stream": True, "stream_options": {"include_usage": True}}, "include_usage"),
    ("orphan output", {"input": [ANSWERED]}, "No tool call found"),
    ("unanswered call", {"input": [CALLED, *USER]}, "No tool output found"),
    ("output of another kind", {"input": [CALLED, {**ANSWERED, "type": "custom_tool_call_output"}]}, "No tool call"),
    ("foreign item id", {"input": [{**CALLED, "id": "toolu_1"}, ANSWERED]}, "begins with 'fc'"),
    ("chat's part", {"input": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]}, "Supported values"),
    ("user's part said", {"input": [{"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}]},
     "Supported values"),
    ("reasoning without summary (T-17)", {"input": [{"type": "reasoning", "encrypted_content": "x"}]}, "summary"),
    ("plain reasoning (T-17)", {"input": [{"type": "reasoning", "summary": [], "content": [{}]}]}, "content"),
    ("twin ids (T-17)", {"input": [{"type": "reasoning", "id": "rs_1", "summary": []}] * 2}, "Duplicate item"),
    ("nested tool", {"tools": CHAT_TOOLS}, "tools[0].name"),
    ("long call id", {"input": [{**CALLED, "call_id": "c" * 65}, {**ANSWERED, "call_id": "c" * 65}]}, "64"),
    ("unknown previous", {"previous_response_id": "resp_0"}, "not found"),
    ("required nothing", {"tool_choice": "required"}, "tools"),
    ("nested format", {"text": {"format": {"type": "json_schema", "json_schema": {}}}}, "json_schema"),
    ("unknown include", {"include": ["thoughts"]}, "thoughts"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "named"), [pytest.param(*case[1:], id=case[0]) for case in RESPONSES_REFUSED])
async def test_responses_refuses(raw: aiohttp.ClientSession, changed: dict[str, Any], named: str) -> None:
    status, body = await post(raw, "/v1/responses", {"model": "sim-text", "input": "x"} | changed)
    assert status == 400
    assert named in body["error"]["message"]


async def test_a_body_that_is_no_object_is_refused(raw: aiohttp.ClientSession) -> None:
    for path, _ in PATHS:
        for sent in (b"{", b"[]", b""):
            async with raw.post(path, data=sent, headers=VERSION) as response:
                assert response.status == 400


def recorded_requests() -> list[Any]:
    cases = []
    for path in sorted(FIXTURES.glob("*.json")):
        fixture = json.loads(path.read_text())
        if fixture.get("request", {}).get("method") == "POST":
            cases.append(pytest.param(fixture["request"], id=path.stem))
    return cases


UNTAKEN = {
    # A history that ends on the assistant: the real API takes it for a prefill.
    "opencode-anthropic_midfail_3": "prefill",
}


async def test_what_real_clients_send_is_taken(raw: aiohttp.ClientSession) -> None:
    refused = {}
    for case in recorded_requests():
        request = case.values[0]
        headers = {k: v for k, v in request["headers"].items() if k.lower().startswith("anthropic-")}
        body = {**request["body"], "stream": False} if "count_tokens" not in request["path"] else request["body"]
        body.pop("stream_options", None)
        if body.get("previous_response_id"):
            continue  # Of a session that this simulator did not serve.
        status, answer = await post(raw, request["path"], body, headers)
        if status != 200:
            refused[str(case.id)] = answer["error"]["message"]
    assert set(refused) == set(UNTAKEN), refused
    assert all(word in refused[name] for name, word in UNTAKEN.items())


WRONG: list[Any] = [None, 1, "x", "", [], {}, [1], [{}], True, {"type": "x"}, {"type": ["a"]}]


def places(value: Any) -> list[tuple[Any, Any]]:
    """Each member of a JSON value, as its holder and key."""
    keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
    found = [(value, key) for key in keys]
    for key in keys:
        if isinstance(value[key], (dict, list)):
            found += places(value[key])
    return found


async def test_a_misshapen_body_is_refused_or_answered_but_never_a_fault(raw: aiohttp.ClientSession) -> None:
    dice = random.Random(7)
    for case in recorded_requests():
        request = case.values[0]
        headers = {k: v for k, v in request["headers"].items() if k.lower().startswith("anthropic-")}
        for _ in range(4):
            body = {**copy.deepcopy(request["body"]), "stream": False}
            holder, key = dice.choice([*places(body["messages" if "messages" in body else "input"]), (body, "tools")])
            holder[key] = dice.choice(WRONG)
            status, _ = await post(raw, request["path"], body, headers)
            assert status in (200, 400), (case.id, key, holder[key])


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
        line = (await asyncio.wait_for(process.stdout.readline(), 10)).decode()
        url = line.split()[-1]
        async with aiohttp.ClientSession() as session, session.get(f"{url}/health") as response:
            assert response.status == 200
    finally:
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 10) == 0


MALFORMED: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"model": "m", "messages": USER, "no_such_field": 1}),
    ("/v1/messages", {"model": "m", "max_tokens": 9, "messages": [{"role": "tool", "content": "x"}]}),
    ("/v1/responses", {"model": "m", "input": "x", "tools": [{"type": "function"}]}),
    ("/v1/responses/input_tokens", {"input": "x", "no_such_field": 1}),
]


@pytest.mark.parametrize(("path", "body"), MALFORMED)
async def test_the_strict_simulator_rejects_malformed_requests(
    raw: aiohttp.ClientSession, path: str, body: dict[str, Any]
) -> None:
    assert (await post(raw, path, body, VERSION))[0] == 400


async def test_the_conformance_harness_rejects_malformed_requests() -> None:
    async with serving() as served, aiohttp.ClientSession(base_url=served.url) as session:
        body = {"model": "chat/sim-text", "messages": USER, "seed": "no number"}
        assert (await post(session, "/v1/chat/completions", body))[0] == 400
        assert served.received("chat")["seed"] == "no number"


async def test_without_a_check_what_can_be_read_is_accepted() -> None:
    async with (
        TestServer(make_simulator()) as server,
        aiohttp.ClientSession(base_url=server.make_url("/")) as raw,
    ):
        for path, body in ((path, body) for path, body in MALFORMED if path != "/v1/responses"):
            assert (await post(raw, path, body, VERSION))[0] == 200
        unreadable: list[Any] = [{"model": "m"}, {"model": "m", "messages": 1}, {"model": "m", "messages": [1]}, []]
        for wrong in unreadable:
            assert (await post(raw, "/v1/chat/completions", wrong))[0] == 400

"""The simulator's replies in Gemini's dialect, read by Google's own SDK."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestServer
from google import genai
from google.genai import errors, types

from dragoman_server.simulator.scenarios import SCRIPTS
from support.simulated import WEATHER_ARGS, WEATHER_SCHEMA, post

# The SDK's session is a subclass of aiohttp's.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")

Json = dict[str, Any]
HI: list[Json] = [{"role": "user", "parts": [{"text": "Hi ✨"}]}]
TOOL: Json = {"functionDeclarations": [{"name": "get_weather", "parametersJsonSchema": WEATHER_SCHEMA}]}
ANSWER = "You said: Hi ✨. Grüße 👋🏽 aus 東京\u2028— done."


@pytest.fixture
async def models(server: TestServer) -> AsyncIterator[Any]:
    client = genai.Client(
        api_key="k", http_options=types.HttpOptions(base_url=str(server.make_url("/")), api_version="v1beta")
    )
    yield client.aio.models
    await client.aio.aclose()


async def stream(models: Any, model: str, **config: Any) -> list[Any]:
    return [each async for each in await models.generate_content_stream(model=model, contents=HI, config=config)]


async def test_a_text_is_streamed_with_its_counts_and_a_signature(models: Any) -> None:
    chunks = await stream(models, "sim-text")
    assert "".join(chunk.text or "" for chunk in chunks) == ANSWER
    last = chunks[-1].candidates[0]
    assert (last.finish_reason, last.content.parts[0].text) == ("STOP", "")
    assert last.content.parts[0].thought_signature
    usage = chunks[-1].usage_metadata
    assert (usage.prompt_token_count, usage.cached_content_token_count, usage.total_token_count) == (12, 4, 19)
    assert (usage.candidates_token_count, usage.thoughts_token_count) == (7, None)
    assert {chunk.response_id for chunk in chunks} == {chunks[0].response_id}


async def test_a_whole_reply_has_the_parts_of_the_stream(models: Any) -> None:
    whole = await models.generate_content(model="sim-text", contents=HI)
    assert whole.text == ANSWER
    assert whole.candidates[0].content.parts[-1].thought_signature
    assert whole.usage_metadata.total_token_count == 19


@pytest.mark.parametrize("shown", [True, False])
async def test_reasoning_is_shown_on_request_and_always_counted(models: Any, shown: bool) -> None:
    config: Json = {"tools": [TOOL], "thinking_config": {"include_thoughts": shown}}
    chunks = await stream(models, "sim-thinking", **config)
    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts]
    assert any(part.thought for part in parts) is shown
    [call] = [part for part in parts if part.function_call]
    assert (call.function_call.name, call.function_call.args) == ("get_weather", WEATHER_ARGS)
    assert call.thought_signature
    assert not parts[-1].thought_signature
    assert chunks[-1].usage_metadata.thoughts_token_count == 3


async def test_only_the_first_of_parallel_calls_is_signed(models: Any) -> None:
    whole = await models.generate_content(model="sim-parallel", contents=HI)
    calls = [part for part in whole.candidates[0].content.parts if part.function_call]
    assert [(part.function_call.name, bool(part.thought_signature)) for part in calls] == [
        ("get_weather", True),
        ("get_time", False),
    ]
    assert len({part.function_call.id for part in calls}) == 2


async def test_a_result_is_quoted(models: Any) -> None:
    first = await models.generate_content(model="sim-tools", contents=HI, config={"tools": [TOOL]})
    content = first.candidates[0].content
    call = next(part.function_call for part in content.parts if part.function_call)
    answer = {"functionResponse": {"id": call.id, "name": call.name, "response": {"output": "7 degrees"}}}
    history = [*HI, content.model_dump(mode="json", exclude_none=True), {"role": "user", "parts": [answer]}]
    second = await models.generate_content(model="sim-tools", contents=history, config={"tools": [TOOL]})
    assert second.text == "The tool says: 7 degrees."


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("sim-refusal", "SAFETY"),
        ("sim-late-refusal", "SAFETY"),
        ("sim-length-text", "MAX_TOKENS"),
        ("sim-empty", "STOP"),
    ],
)
async def test_a_reply_ends_in_every_scripted_way(models: Any, model: str, reason: str) -> None:
    whole = await models.generate_content(model=model, contents=HI)
    chunks = await stream(models, model)
    assert (whole.candidates[0].finish_reason, chunks[-1].candidates[0].finish_reason) == (reason, reason)


async def test_a_refusal_withholds_the_content_and_states_why(raw: aiohttp.ClientSession) -> None:
    _, whole = await post(raw, "/v1beta/models/sim-refusal:generateContent", {"contents": HI})
    [candidate] = whole["candidates"]
    assert candidate["content"] == {"role": "model"}
    assert candidate["finishMessage"] == "I can't help with that."


async def test_output_has_the_schema(models: Any) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "number", "minimum": 3}}, "required": ["x"]}
    config = {"response_mime_type": "application/json", "response_json_schema": schema}
    whole = await models.generate_content(model="sim-json", contents=HI, config=config)
    assert json.loads(whole.text) == {"x": 3}


@pytest.mark.parametrize("model", ["sim-error-mid", "sim-error-mid-event"])
async def test_an_error_in_a_stream_is_raised(models: Any, model: str) -> None:
    with pytest.raises(errors.ServerError) as caught:
        await stream(models, model)
    assert caught.value.code == 503


@pytest.mark.few
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(
    ("status", "word"),
    [
        (400, "INVALID_ARGUMENT"),
        (401, "UNAUTHENTICATED"),
        (403, "PERMISSION_DENIED"),
        (404, "NOT_FOUND"),
        (429, "RESOURCE_EXHAUSTED"),
        (500, "INTERNAL"),
        (503, "UNAVAILABLE"),
    ],
)
async def test_an_error_before_a_reply_is_raised(models: Any, status: int, word: str, streamed: bool) -> None:
    kind = errors.ClientError if status < 500 else errors.ServerError
    model = f"sim-error-{status}"
    with pytest.raises(kind) as caught:
        await (stream(models, model) if streamed else models.generate_content(model=model, contents=HI))
    assert (caught.value.code, caught.value.status) == (status, word)
    assert caught.value.message


WHOLE = [name for name in SCRIPTS if not any(word in name for word in ("error", "cut", "missing", "stall"))]


@pytest.mark.few
@pytest.mark.parametrize("name", WHOLE)
async def test_the_sdk_reads_every_script_streamed_and_whole(models: Any, name: str) -> None:
    config: Json = {"tools": [TOOL], "thinking_config": {"include_thoughts": True}}
    whole = await models.generate_content(model=name, contents=HI, config=config)
    chunks = await stream(models, name, **config)
    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts]
    for kind in (True, None):
        texts = ["".join(part.text or "" for part in each if part.thought is kind) for each in (parts, _parts(whole))]
        assert texts[0] == texts[1]
    assert [part.function_call.name for part in parts if part.function_call] == [
        part.function_call.name for part in _parts(whole) if part.function_call
    ]
    assert chunks[-1].candidates[0].finish_reason == whole.candidates[0].finish_reason
    assert chunks[-1].usage_metadata.total_token_count == whole.usage_metadata.total_token_count


def _parts(whole: Any) -> list[Any]:
    return whole.candidates[0].content.parts or []


async def test_a_missing_end_has_no_finish_reason(models: Any) -> None:
    chunks = await stream(models, "sim-missing")
    assert [chunk.candidates[0].finish_reason for chunk in chunks] == [None] * len(chunks)


async def test_without_sse_a_stream_is_an_array(raw: aiohttp.ClientSession) -> None:
    status, chunks = await post(raw, "/v1beta/models/sim-text:streamGenerateContent", {"contents": HI})
    assert status == 200
    assert [chunk["candidates"][0]["finishReason"] for chunk in chunks] == ["STOP"]

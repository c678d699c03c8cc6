"""The simulator's errors, as the official SDKs raise them."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import anthropic
import openai
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from support.simulated import USER, VERSION, lines, post


@pytest.mark.few
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

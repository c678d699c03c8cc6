"""Replies that fail on the way: an error in the stream, a cut, a reset, a missing end. None may end quietly.

An SDK that reads to the end without an exception takes what it has for the whole answer (T-20, T-22, T-23).
"""

from __future__ import annotations

import json
from typing import Any

import anthropic
import openai
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from conformance.judges import CHAT_TOOLS, HI, MESSAGES_TOOLS, ask_claude, ask_gpt, chat_events, messages_events
from conformance.served import Upstream, model_at

BROKEN = ["sim-error-mid", "sim-cut", "sim-missing"]
IN_TOOL = [f"{script}-tools" for script in BROKEN]
HALF = '{"path":"notes'


@pytest.mark.parametrize("script", BROKEN + IN_TOOL)
async def test_claude_hears_of_it_in_the_stream(claude: AsyncAnthropic, upstream: Upstream, script: str) -> None:
    events: list[Any] = []
    async with claude.messages.stream(
        model=model_at(upstream, script), max_tokens=64, messages=HI, tools=MESSAGES_TOOLS
    ) as stream:
        with pytest.raises(anthropic.APIStatusError) as caught:
            await messages_events(stream, events)
        partial = stream.current_message_snapshot
    assert caught.value.type == ("overloaded_error" if "error" in script else "api_error")
    assert caught.value.api_message
    assert partial.stop_reason is None
    assert partial.content[0].type == "text"
    assert partial.content[0].text == "Hello, here"
    kinds = [event.type for event in events]
    assert "message_delta" not in kinds
    assert "message_stop" not in kinds
    if "tools" in script:
        fragments = [e.delta.partial_json for e in events if e.type == "content_block_delta" and e.index == 1]
        assert "".join(fragments) == HALF, "what the model had said, and no bracket more"
        assert 1 not in [event.index for event in events if event.type == "content_block_stop"]


@pytest.mark.parametrize("script", BROKEN + IN_TOOL)
async def test_gpt_hears_of_it_in_the_stream(gpt: AsyncOpenAI, upstream: Upstream, script: str) -> None:
    events: list[Any] = []
    async with gpt.chat.completions.stream(
        model=model_at(upstream, script), messages=HI, tools=CHAT_TOOLS, stream_options={"include_usage": True}
    ) as stream:
        with pytest.raises(openai.APIError) as caught:
            await chat_events(stream, events)
        partial = stream.current_completion_snapshot
    assert caught.value.type == ("service_unavailable_error" if "error" in script else "server_error")
    assert caught.value.message
    assert partial.choices[0].message.content == "Hello, here"
    chunks = [event.chunk for event in events if event.type == "chunk"]
    assert all(chunk.choices and chunk.choices[0].finish_reason is None for chunk in chunks)
    if "tools" in script:
        assert not [event for event in events if event.type == "tool_calls.function.arguments.done"]
        [call] = partial.choices[0].message.tool_calls or []
        assert call.function.arguments == HALF
        with pytest.raises(json.JSONDecodeError):
            json.loads(call.function.arguments)


async def test_a_reset_connection(claude: AsyncAnthropic, gpt: AsyncOpenAI, upstream: Upstream) -> None:
    """A reset may destroy what was sent before it: then it is a 502 instead of an error in the stream."""
    model = model_at(upstream, "sim-cut-reset")
    with pytest.raises(anthropic.APIStatusError) as by_claude:
        await ask_claude(claude, streamed=True, model=model)
    assert (by_claude.value.status_code, by_claude.value.type) in ((200, "api_error"), (502, "api_error"))
    with pytest.raises(openai.APIError) as by_gpt:
        await ask_gpt(gpt, streamed=True, model=model)
    assert not isinstance(by_gpt.value, openai.APIConnectionError), "told in words, not by a dead socket"


@pytest.mark.parametrize("script", BROKEN)
async def test_the_plain_iterators_raise_too(
    claude: AsyncAnthropic, gpt: AsyncOpenAI, upstream: Upstream, script: str
) -> None:
    """`create(stream=True)`, which most programs use: text first, then the exception."""
    model = model_at(upstream, script)
    said = ""

    async def read_claude() -> None:
        nonlocal said
        async for event in await claude.messages.create(model=model, max_tokens=64, messages=HI, stream=True):
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                said += event.delta.text

    async def read_gpt() -> None:
        nonlocal said
        async for chunk in await gpt.chat.completions.create(model=model, messages=HI, stream=True):
            said += chunk.choices[0].delta.content or ""

    with pytest.raises(anthropic.APIStatusError):
        await read_claude()
    assert said == "Hello, here"
    with pytest.raises(openai.APIError):
        await read_gpt()
    assert said == "Hello, here" * 2


@pytest.mark.parametrize(
    "script", ["sim-error-mid", "sim-error-mid-tools", "sim-cut", "sim-cut-tools", "sim-cut-reset"]
)
async def test_a_whole_reply_that_fails(
    claude: AsyncAnthropic, gpt: AsyncOpenAI, upstream: Upstream, script: str
) -> None:
    model = model_at(upstream, script)
    overloaded = "error" in script
    with pytest.raises(anthropic.InternalServerError) as by_claude:
        await ask_claude(claude, streamed=False, model=model)
    want = (529, "overloaded_error") if overloaded else (502, "api_error")
    assert (by_claude.value.status_code, by_claude.value.type) == want
    with pytest.raises(openai.InternalServerError) as by_gpt:
        await ask_gpt(gpt, streamed=False, model=model)
    # A Messages upstream's 529 is passed on as the 503 that OpenAI's clients know.
    assert (by_gpt.value.status_code, by_gpt.value.type) == (
        (503, "service_unavailable_error") if overloaded else (502, "server_error")
    )


async def test_the_gateway_goes_on_afterwards(claude: AsyncAnthropic, gpt: AsyncOpenAI, upstream: Upstream) -> None:
    """A broken reply leaves the connections to both sides in order: the next one is whole."""
    for script in (*BROKEN, *IN_TOOL):
        with pytest.raises(anthropic.APIStatusError):
            await ask_claude(claude, streamed=True, model=model_at(upstream, script))
        with pytest.raises(openai.APIError):
            await ask_gpt(gpt, streamed=True, model=model_at(upstream, script))
    message = await ask_claude(claude, streamed=True, model=model_at(upstream, "sim-text"))
    assert message.stop_reason == "end_turn"
    completion = await ask_gpt(gpt, streamed=True, model=model_at(upstream, "sim-text"))
    assert completion.choices[0].finish_reason == "stop"

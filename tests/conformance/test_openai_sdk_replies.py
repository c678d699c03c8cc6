"""What the `openai` SDK makes of every kind of reply, whole and streamed, across and passed through."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai import AsyncOpenAI, ContentFilterFinishReasonError, LengthFinishReasonError
from openai.types.chat import ChatCompletion

from conformance.judges import CHAT_TOOLS, HI, REFUSED, SAID, THOUGHT, ask_gpt, chat_calls
from conformance.served import Served, Upstream, model_at

LATE = "The answer was stopped by a safety classifier."


def check_frame(reply: ChatCompletion, model: str, output: int, *, reasoning: int = 0) -> None:
    """What every reply has: the name asked for, an id of the dialect, and counts that add up.

    The prompt's 12 tokens include the 4 that came from a cache (mapping §9.4; T-31).
    """
    assert (reply.object, reply.model) == ("chat.completion", model)
    assert reply.id.startswith("chatcmpl-")
    assert not reply.id.startswith("chatcmpl-msg_")
    assert len(reply.id) > 20
    assert [(choice.index, choice.message.role) for choice in reply.choices] == [(0, "assistant")]
    usage = reply.usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (12, output, 12 + output)
    assert usage.prompt_tokens_details is not None
    assert usage.prompt_tokens_details.cached_tokens == 4
    assert usage.completion_tokens_details is not None
    assert usage.completion_tokens_details.reasoning_tokens == reasoning


async def test_text(gpt: AsyncOpenAI, served: Served, upstream: Upstream, streamed: bool) -> None:
    model = model_at(upstream, "sim-text")
    reply = await ask_gpt(gpt, streamed=streamed, model=model)
    check_frame(reply, model, 7)
    choice = reply.choices[0]
    assert (choice.message.content, choice.message.refusal, choice.finish_reason) == (SAID, None, "stop")
    assert not choice.message.tool_calls
    sent = served.received(upstream)
    assert sent["model"] == "sim-text"
    assert bool(sent.get("stream")) is streamed
    if upstream == "messages":
        assert sent["max_tokens"] > 0, "Messages demands a cap"


async def test_usage_only_for_those_who_ask(gpt: AsyncOpenAI, upstream: Upstream) -> None:
    stream = await gpt.chat.completions.create(model=model_at(upstream, "sim-text"), messages=HI, stream=True)
    chunks = [chunk async for chunk in stream]
    assert all(chunk.choices and chunk.usage is None for chunk in chunks)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == SAID


async def test_one_call(gpt: AsyncOpenAI, upstream: Upstream, streamed: bool) -> None:
    model = model_at(upstream, "sim-tools")
    reply = await ask_gpt(gpt, streamed=streamed, model=model, tools=CHAT_TOOLS)
    check_frame(reply, model, 6)
    assert reply.choices[0].finish_reason == "tool_calls"
    assert reply.choices[0].message.content == "I will look it up."
    [(call_id, name, arguments)] = chat_calls(reply)
    assert call_id.startswith("call_" if upstream == "chat" else "toolu_")
    assert (name, json.loads(arguments)) == ("get_weather", {"city": "Oslo"})


async def test_T01_two_parallel_calls_interleaved(
    gpt: AsyncOpenAI, served: Served, upstream: Upstream, streamed: bool
) -> None:
    """T-01: an own index for each call, contiguous from 0, whatever the blocks before them."""
    model = model_at(upstream, "sim-parallel")
    events: list[Any] = []
    reply = await ask_gpt(gpt, streamed=streamed, into=events, model=model, tools=CHAT_TOOLS)
    check_frame(reply, model, 9)
    assert reply.choices[0].finish_reason == "tool_calls"
    first, second = chat_calls(reply)
    assert (first[1], json.loads(first[2])) == ("get_weather", {"city": "Oslo"})
    assert (second[1], json.loads(second[2])) == ("get_time", {"tz": "CET"})
    assert first[0] != second[0]
    if streamed:
        order = [event.index for event in events if event.type == "tool_calls.function.arguments.delta"]
        assert set(order) == {0, 1}
        assert order != sorted(order), "they come as the upstream interleaved them"
    assert "tool_choice" not in served.received(upstream)


async def test_parallel_calls_switched_off(gpt: AsyncOpenAI, served: Served, upstream: Upstream) -> None:
    reply = await ask_gpt(
        gpt,
        streamed=True,
        model=model_at(upstream, "sim-parallel"),
        tools=CHAT_TOOLS,
        tool_choice="required",
        parallel_tool_calls=False,
    )
    assert len(chat_calls(reply)) == 1
    if upstream == "messages":
        assert served.received()["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}


async def test_reasoning_stays_out_of_the_content(gpt: AsyncOpenAI, upstream: Upstream, streamed: bool) -> None:
    """T-14: reasoning is neither lost nor shown as the answer."""
    model = model_at(upstream, "sim-thinking")
    reply = await ask_gpt(gpt, streamed=streamed, model=model, tools=CHAT_TOOLS)
    check_frame(reply, model, 9, reasoning=3)
    message: Any = reply.choices[0].message
    assert message.reasoning_content == THOUGHT
    assert message.content == "I will look it up."
    assert len(chat_calls(reply)) == 1


async def test_effort_reaches_the_upstream(gpt: AsyncOpenAI, served: Served, upstream: Upstream) -> None:
    await ask_gpt(gpt, streamed=True, model=model_at(upstream, "sim-thinking"), reasoning_effort="high")
    sent = served.received(upstream)
    if upstream == "chat":
        assert sent["reasoning_effort"] == "high"
    else:
        assert (sent["thinking"]["type"], sent["output_config"]) == ("adaptive", {"effort": "high"})
    reply = await ask_gpt(gpt, streamed=True, model=model_at(upstream, "sim-thinking"), reasoning_effort="none")
    assert getattr(reply.choices[0].message, "reasoning_content", None) is None


async def test_refusal(gpt: AsyncOpenAI, upstream: Upstream, streamed: bool) -> None:
    """A refusal is a result: `stop`, as from OpenAI itself (knob `refusal_terminal`)."""
    model = model_at(upstream, "sim-refusal")
    reply = await ask_gpt(gpt, streamed=streamed, model=model)
    check_frame(reply, model, 2 if upstream == "chat" else 0)
    choice = reply.choices[0]
    assert (choice.message.content or None, choice.message.refusal, choice.finish_reason) == (None, REFUSED, "stop")


async def test_refusal_after_visible_text(gpt: AsyncOpenAI, upstream: Upstream, streamed: bool) -> None:
    """Never a clean end: the SDK's own helper raises on it."""
    model = model_at(upstream, "sim-late-refusal")
    reply = await ask_gpt(gpt, streamed=streamed, model=model)
    check_frame(reply, model, 2)
    choice = reply.choices[0]
    assert (choice.message.content, choice.finish_reason) == ("Step one is to", "content_filter")
    # A whole reply has room for the explanation; in a stream it would follow text that was already shown.
    assert choice.message.refusal == (LATE if upstream == "messages" and not streamed else None)


async def test_the_helper_raises_where_a_reply_was_cut(gpt: AsyncOpenAI, upstream: Upstream) -> None:
    async with gpt.chat.completions.stream(model=model_at(upstream, "sim-late-refusal"), messages=HI) as stream:
        with pytest.raises(ContentFilterFinishReasonError):
            await stream.get_final_completion()
    async with gpt.chat.completions.stream(model=model_at(upstream, "sim-length-text"), messages=HI) as stream:
        with pytest.raises(LengthFinishReasonError) as caught:
            await stream.get_final_completion()
    assert caught.value.completion.choices[0].message.content == "This answer is too long and ends in the mid"


async def test_text_cut_by_the_length_limit(gpt: AsyncOpenAI, upstream: Upstream, streamed: bool) -> None:
    model = model_at(upstream, "sim-length-text")
    reply = await ask_gpt(gpt, streamed=streamed, model=model)
    check_frame(reply, model, 2)
    assert reply.choices[0].message.content == "This answer is too long and ends in the mid"
    assert reply.choices[0].finish_reason == "length"


async def test_a_call_cut_by_the_length_limit_is_told_as_cut(gpt: AsyncOpenAI, upstream: Upstream) -> None:
    model = model_at(upstream, "sim-length")
    reply = await ask_gpt(gpt, streamed=True, model=model, tools=CHAT_TOOLS)
    check_frame(reply, model, 3)
    assert reply.choices[0].finish_reason == "length"
    assert [call[1:] for call in chat_calls(reply)] == [("get_weather", '{"path":"notes')]


async def test_an_empty_reply_is_legal(gpt: AsyncOpenAI, upstream: Upstream, streamed: bool) -> None:
    model = model_at(upstream, "sim-empty")
    reply = await ask_gpt(gpt, streamed=streamed, model=model)
    check_frame(reply, model, 0)
    assert (reply.choices[0].message.content or "", reply.choices[0].finish_reason) == ("", "stop")


async def test_characters_cut_between_reads(gpt: AsyncOpenAI, upstream: Upstream) -> None:
    """T-71: the upstream's writes end anywhere, also inside a character."""
    reply = await ask_gpt(gpt, streamed=True, model=model_at(upstream, "sim-split"))
    assert reply.choices[0].message.content == SAID

"""What the `anthropic` SDK makes of every kind of reply, whole and streamed, across and passed through."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic import APIStatusError, AsyncAnthropic
from anthropic.types import Message

from conformance.judges import (
    MESSAGES_TOOLS,
    REFUSED,
    SAID,
    THOUGHT,
    ask_claude,
    messages_calls,
    shown,
)
from conformance.served import Served, Upstream, model_at

LATE = "The answer was stopped by a safety classifier."


def check_frame(reply: Message, model: str, output: int, *, thinking: int = 0) -> None:
    """What every reply has: the name asked for, an id of the dialect, and counts that add up.

    The prompt has 12 tokens, 4 of them from a cache, which Messages counts apart (mapping §9.4; T-31).
    """
    assert (reply.type, reply.role, reply.model) == ("message", "assistant", model)
    assert reply.id.startswith("msg_")
    assert not reply.id.startswith("msg_chatcmpl-")
    assert len(reply.id) > 20
    usage = reply.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (8, 4, 0)
    assert usage.output_tokens == output
    assert usage.output_tokens_details is not None
    assert usage.output_tokens_details.thinking_tokens == thinking


async def test_text(claude: AsyncAnthropic, served: Served, upstream: Upstream, streamed: bool) -> None:
    model = model_at(upstream, "sim-text")
    reply = await ask_claude(claude, streamed=streamed, model=model)
    check_frame(reply, model, 7)
    assert [block.type for block in reply.content] == ["text"]
    assert shown(reply) == SAID
    assert (reply.stop_reason, reply.stop_sequence) == ("end_turn", None)
    sent = served.received(upstream)
    assert sent["model"] == "sim-text"
    assert bool(sent.get("stream")) is streamed
    if upstream == "chat" and streamed:
        assert sent["stream_options"]["include_usage"] is True


async def test_usage_is_shown_from_the_start(claude: AsyncAnthropic, upstream: Upstream) -> None:
    """T-30: an input count of 0 in `message_start` reads as a dead context meter."""
    async with claude.messages.stream(
        model=model_at(upstream, "sim-text"), max_tokens=64, messages=[{"role": "user", "content": "Hi"}]
    ) as stream:
        first = await anext(stream)
        assert first.type == "message_start"
        assert first.message.usage.input_tokens > 0
        async for text in stream.text_stream:
            assert text
        assert await stream.get_final_text() == SAID


async def test_one_call(claude: AsyncAnthropic, upstream: Upstream, streamed: bool) -> None:
    model = model_at(upstream, "sim-tools")
    reply = await ask_claude(claude, streamed=streamed, model=model, tools=MESSAGES_TOOLS)
    check_frame(reply, model, 6)
    assert reply.stop_reason == "tool_use"
    assert [block.type for block in reply.content] == ["text", "tool_use"]
    assert shown(reply) == "I will look it up."
    [(call_id, name, given)] = messages_calls(reply)
    assert call_id.startswith("call_" if upstream == "chat" else "toolu_")
    assert (name, given) == ("get_weather", {"city": "Oslo"})


async def test_T01_two_parallel_calls_interleaved(
    claude: AsyncAnthropic, served: Served, upstream: Upstream, streamed: bool
) -> None:
    """T-01, T-02, T-03: each fragment lands in its own call, and no call is closed by the other one's start."""
    model = model_at(upstream, "sim-parallel")
    events: list[Any] = []
    reply = await ask_claude(claude, streamed=streamed, into=events, model=model, tools=MESSAGES_TOOLS)
    check_frame(reply, model, 9)
    assert reply.stop_reason == "tool_use"
    first, second = messages_calls(reply)
    assert first[1:] == ("get_weather", {"city": "Oslo"})
    assert second[1:] == ("get_time", {"tz": "CET"})
    assert first[0] != second[0]
    if streamed:
        order = [e.index for e in events if e.type == "content_block_delta" and e.delta.type == "input_json_delta"]
        assert order.count(1) >= 3
        assert order.count(2) >= 3
        assert order != sorted(order), "they come as the upstream interleaved them"
    assert "parallel_tool_calls" not in served.received(upstream)


async def test_parallel_calls_switched_off(claude: AsyncAnthropic, served: Served, upstream: Upstream) -> None:
    reply = await ask_claude(
        claude,
        streamed=True,
        model=model_at(upstream, "sim-parallel"),
        tools=MESSAGES_TOOLS,
        tool_choice={"type": "any", "disable_parallel_tool_use": True},
    )
    assert len(messages_calls(reply)) == 1
    if upstream == "chat":
        assert served.received()["tool_choice"] == "required"
        assert served.received()["parallel_tool_calls"] is False


async def test_T12_thinking_has_its_own_block(claude: AsyncAnthropic, upstream: Upstream, streamed: bool) -> None:
    """T-12, T-14: reasoning is neither lost nor shown as the answer."""
    model = model_at(upstream, "sim-thinking")
    reply = await ask_claude(
        claude, streamed=streamed, model=model, tools=MESSAGES_TOOLS, thinking={"type": "adaptive"}
    )
    check_frame(reply, model, 9, thinking=3)
    assert [block.type for block in reply.content] == ["thinking", "text", "tool_use"]
    thinking = reply.content[0]
    assert thinking.type == "thinking"
    assert thinking.thinking == THOUGHT
    # A Chat upstream signs nothing: an invented signature would be refused on replay (T-10).
    assert bool(thinking.signature) is (upstream == "messages")
    assert shown(reply) == "I will look it up."


async def test_thinking_switched_off(claude: AsyncAnthropic, served: Served, upstream: Upstream) -> None:
    reply = await ask_claude(
        claude,
        streamed=True,
        model=model_at(upstream, "sim-thinking"),
        tools=MESSAGES_TOOLS,
        thinking={"type": "disabled"},
    )
    assert [block.type for block in reply.content] == ["text", "tool_use"]
    if upstream == "chat":
        assert served.received()["reasoning_effort"] == "none"


async def test_refusal(claude: AsyncAnthropic, upstream: Upstream, streamed: bool) -> None:
    """A Chat refusal's wording becomes text; a Messages upstream has none but the explanation (mapping §9.3)."""
    model = model_at(upstream, "sim-refusal")
    reply = await ask_claude(claude, streamed=streamed, model=model)
    check_frame(reply, model, 2 if upstream == "chat" else 0)
    assert reply.stop_reason == "refusal"
    assert shown(reply) == (REFUSED if upstream == "chat" else "")
    assert reply.stop_details is not None
    assert (reply.stop_details.type, reply.stop_details.explanation) == ("refusal", REFUSED)


async def test_refusal_after_visible_text(claude: AsyncAnthropic, upstream: Upstream, streamed: bool) -> None:
    model = model_at(upstream, "sim-late-refusal")
    reply = await ask_claude(claude, streamed=streamed, model=model)
    check_frame(reply, model, 2)
    assert shown(reply) == "Step one is to"
    assert reply.stop_reason == "refusal"
    assert reply.stop_details is not None
    assert reply.stop_details.explanation == (None if upstream == "chat" else LATE)


async def test_text_cut_by_the_length_limit(claude: AsyncAnthropic, upstream: Upstream, streamed: bool) -> None:
    model = model_at(upstream, "sim-length-text")
    reply = await ask_claude(claude, streamed=streamed, model=model)
    check_frame(reply, model, 2)
    assert shown(reply) == "This answer is too long and ends in the mid"
    assert reply.stop_reason == "max_tokens"


async def test_a_call_cut_by_the_length_limit_is_told_as_cut(claude: AsyncAnthropic, upstream: Upstream) -> None:
    model = model_at(upstream, "sim-length")
    events: list[Any] = []
    reply = await ask_claude(claude, streamed=True, into=events, model=model, tools=MESSAGES_TOOLS)
    check_frame(reply, model, 3)
    assert reply.stop_reason == "max_tokens"
    fragments = [e.delta.partial_json for e in events if e.type == "content_block_delta" and e.index == 1]
    assert "".join(fragments) == '{"path":"notes', "nothing was closed on the model's behalf"


async def test_a_whole_reply_with_half_a_call_is_an_error(claude: AsyncAnthropic) -> None:
    """Messages holds arguments as an object: half of one is never guessed at (mapping §6.3)."""
    with pytest.raises(APIStatusError) as caught:
        await ask_claude(claude, streamed=False, model="chat/sim-length", tools=MESSAGES_TOOLS)
    assert (caught.value.status_code, caught.value.type) == (502, "api_error")


async def test_an_empty_reply_is_legal(claude: AsyncAnthropic, upstream: Upstream, streamed: bool) -> None:
    model = model_at(upstream, "sim-empty")
    reply = await ask_claude(claude, streamed=streamed, model=model)
    check_frame(reply, model, 0)
    assert (shown(reply), reply.stop_reason) == ("", "end_turn")


async def test_characters_cut_between_reads(claude: AsyncAnthropic, upstream: Upstream) -> None:
    """T-71: the upstream's writes end anywhere, also inside a character."""
    reply = await ask_claude(claude, streamed=True, model=model_at(upstream, "sim-split"))
    assert shown(reply) == SAID

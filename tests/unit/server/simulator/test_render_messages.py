"""The simulator's Messages replies, read by the official SDK."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
from anthropic import AsyncAnthropic

from support.simulated import MESSAGES_TOOLS, USER, WEATHER_ARGS, WEATHER_SCHEMA, lines


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

"""The synchronous SDK clients, once each: another transport, another decoder, the same gateway."""

from __future__ import annotations

import asyncio
from typing import Any

import anthropic
import openai

from conformance.judges import CHAT_TOOLS, HI, MESSAGES_TOOLS
from conformance.served import Served, Upstream, model_at


async def test_anthropic_sync(served: Served, upstream: Upstream) -> None:
    def run() -> tuple[str, anthropic.types.Message]:
        with (
            anthropic.Anthropic(base_url=served.url, api_key="key", max_retries=0) as client,
            client.messages.stream(
                model=model_at(upstream, "sim-parallel"), max_tokens=64, messages=HI, tools=MESSAGES_TOOLS
            ) as stream,
        ):
            return "".join(stream.text_stream), stream.get_final_message()

    text, final = await asyncio.to_thread(run)
    assert text == "Looking up both."
    assert [block.input for block in final.content if block.type == "tool_use"] == [{"city": "Oslo"}, {"tz": "CET"}]
    assert (final.stop_reason, final.usage.input_tokens, final.usage.output_tokens) == ("tool_use", 8, 9)


async def test_openai_sync(served: Served, upstream: Upstream) -> None:
    def run() -> Any:
        with (
            openai.OpenAI(base_url=f"{served.url}/v1", api_key="key", max_retries=0) as client,
            client.chat.completions.stream(
                model=model_at(upstream, "sim-parallel"),
                messages=HI,
                tools=CHAT_TOOLS,
                stream_options={"include_usage": True},
            ) as stream,
        ):
            return stream.get_final_completion()

    final = await asyncio.to_thread(run)
    message = final.choices[0].message
    assert message.content == "Looking up both."
    assert [call.function.arguments for call in message.tool_calls] == ['{"city":"Oslo"}', '{"tz":"CET"}']
    assert (final.choices[0].finish_reason, final.usage.prompt_tokens) == ("tool_calls", 12)

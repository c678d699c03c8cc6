# mypy: ignore-errors
# It runs with the packages of its own environment, not the project's.
"""pydantic-ai: an agent over OpenAI's Chat, its Responses, or Anthropic's Messages; streamed by an event handler."""

from __future__ import annotations

import asyncio
import sys

from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai import Agent, ThinkingPart
from pydantic_ai.models.anthropic import AnthropicModel, AnthropicModelSettings
from pydantic_ai.models.openai import (
    OpenAIChatModel,
    OpenAIChatModelSettings,
    OpenAIResponsesModel,
    OpenAIResponsesModelSettings,
)
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from report import (
    ABOUT,
    BROKEN,
    CUT,
    INTERLEAVED,
    LIMIT,
    LIMITED,
    OVERLOADED,
    PARALLEL,
    PROMPT,
    SYSTEM,
    THINKS,
    Answer,
    Words,
    failure,
    loop,
)

BASE, VARIANT = sys.argv[1:]
CLIENT = (
    AsyncAnthropic(base_url=BASE, max_retries=0, timeout=30)
    if VARIANT == "messages"
    else AsyncOpenAI(base_url=f"{BASE}/v1", max_retries=0, timeout=30)
)
in_loop = asyncio.Runner().run


def model(name: str):
    if VARIANT == "messages":
        thinking = {"type": "enabled", "budget_tokens": 1024} if name == THINKS else {"type": "disabled"}
        settings = AnthropicModelSettings(max_tokens=LIMIT, anthropic_thinking=thinking)
        return AnthropicModel(name, provider=AnthropicProvider(anthropic_client=CLIENT), settings=settings)
    provider = OpenAIProvider(openai_client=CLIENT)
    if VARIANT == "chat":
        return OpenAIChatModel(name, provider=provider, settings=OpenAIChatModelSettings(max_tokens=LIMIT))
    settings = OpenAIResponsesModelSettings(
        max_tokens=LIMIT, openai_reasoning_effort="medium", openai_reasoning_summary="auto"
    )
    return OpenAIResponsesModel(name, provider=provider, settings=settings)


async def run(name: str, words: Words, *, stream: bool) -> Answer:
    agent = Agent(model(name), instructions=SYSTEM)

    @agent.tool_plain(name="find_word", description=ABOUT)
    def find_word(topic: str) -> str:
        return words.find(topic)

    async def consume(context, events) -> None:
        async for _ in events:
            pass

    result = await agent.run(PROMPT, event_stream_handler=consume if stream else None)
    parts = [part for message in result.all_messages() for part in message.parts if isinstance(part, ThinkingPart)]
    # Raw reasoning text is kept apart from a summary.
    thinking = "".join(part.content + "".join((part.provider_details or {}).get("raw_content", [])) for part in parts)
    usage = result.usage
    return Answer(result.output, thinking, usage.input_tokens, usage.output_tokens)


def main() -> None:
    loop("streamed", lambda words: in_loop(run(THINKS, words, stream=True)))
    loop("parallel", lambda words: in_loop(run(PARALLEL, words, stream=True)))
    loop("interleaved", lambda words: in_loop(run(INTERLEAVED, words, stream=True)))
    loop("whole", lambda words: in_loop(run(THINKS, words, stream=False)))
    failure("limited", lambda: in_loop(run(LIMITED, Words(), stream=False)))
    for step, name in (("overloaded", OVERLOADED), ("broken", BROKEN), ("cut", CUT)):
        failure(step, lambda name=name: in_loop(run(name, Words(), stream=True)))


main()

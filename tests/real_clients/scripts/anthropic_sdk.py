# mypy: ignore-errors
# It runs with the packages of its own environment, not the project's.
"""Anthropic's SDK for Python: `messages.stream`, whole replies, and the tool runner of `beta.messages`."""

from __future__ import annotations

import asyncio
import sys

from anthropic import Anthropic, AsyncAnthropic, beta_tool
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
    SCHEMA,
    SYSTEM,
    THINKS,
    Answer,
    Words,
    failure,
    loop,
)

SETTINGS = {"base_url": sys.argv[1], "max_retries": 0, "timeout": 30}
CLIENT = AsyncAnthropic(**SETTINGS)
in_loop = asyncio.Runner().run


def request(model: str, messages: list) -> dict:
    asked = {"model": model, "max_tokens": LIMIT, "system": SYSTEM, "messages": messages}
    if model == THINKS:
        asked["thinking"] = {"type": "enabled", "budget_tokens": 1024}
    return asked


def tools() -> list:
    return [{"name": "find_word", "description": ABOUT, "input_schema": SCHEMA}]


async def streamed(model: str, messages: list):
    async with CLIENT.messages.stream(**request(model, messages), tools=tools()) as stream:
        async for _ in stream:
            pass
        return await stream.get_final_message()


async def whole(model: str, messages: list):
    return await CLIENT.messages.create(**request(model, messages), tools=tools())


def add(shown: Answer, reply) -> None:
    """Return what a reply shows; its text replaces that of the one before."""
    shown.reasoning += "".join(block.thinking for block in reply.content if block.type == "thinking")
    shown.text = "".join(block.text for block in reply.content if block.type == "text")
    shown.input += reply.usage.input_tokens
    shown.output += reply.usage.output_tokens


async def by_hand(ask, model: str, words: Words) -> Answer:
    """The blocks go back as the SDK returned them, thinking included."""
    messages: list = [{"role": "user", "content": PROMPT}]
    shown = Answer("", "", 0, 0)
    for _ in range(4):
        reply = await ask(model, messages)
        add(shown, reply)
        if reply.stop_reason != "tool_use":
            return shown
        results = [
            {"type": "tool_result", "tool_use_id": block.id, "content": words.find(block.input["topic"])}
            for block in reply.content
            if block.type == "tool_use"
        ]
        messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": results}]
    raise AssertionError("it never stops calling")


def runner(model: str, words: Words, *, stream: bool) -> Answer:
    @beta_tool(name="find_word", description=ABOUT)
    def find_word(topic: str) -> str:
        return words.find(topic)

    shown = Answer("", "", 0, 0)
    asked = request(model, [{"role": "user", "content": PROMPT}])
    turns = Anthropic(**SETTINGS).beta.messages.tool_runner(**asked, tools=[find_word], stream=stream)
    for turn in turns:
        add(shown, turn.get_final_message() if stream else turn)
    return shown


def main() -> None:
    hello = [{"role": "user", "content": PROMPT}]
    loop("streamed", lambda words: in_loop(by_hand(streamed, THINKS, words)))
    loop("parallel", lambda words: in_loop(by_hand(streamed, PARALLEL, words)))
    loop("interleaved", lambda words: in_loop(by_hand(streamed, INTERLEAVED, words)))
    loop("whole", lambda words: in_loop(by_hand(whole, THINKS, words)))
    loop("runner", lambda words: runner(THINKS, words, stream=True))
    loop("parallel runner", lambda words: runner(PARALLEL, words, stream=True))
    loop("whole runner", lambda words: runner(THINKS, words, stream=False))
    failure("limited", lambda: in_loop(whole(LIMITED, hello)))
    for step, model in (("overloaded", OVERLOADED), ("broken", BROKEN), ("cut", CUT)):
        failure(step, lambda model=model: in_loop(streamed(model, hello)))


main()

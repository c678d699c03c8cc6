# mypy: ignore-errors
# It runs with the packages of its own environment, not the project's.
"""LangChain: `stream` and `invoke` of ChatOpenAI (Chat or Responses) and ChatAnthropic, with bound tools."""

from __future__ import annotations

import sys

from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessageChunk, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
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


def model(name: str):
    common = {"model": name, "max_retries": 0, "timeout": 30}
    if VARIANT == "messages":
        thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}} if name == THINKS else {}
        return ChatAnthropic(base_url=BASE, max_tokens=LIMIT, **common, **thinking)
    common |= {"base_url": f"{BASE}/v1", "max_completion_tokens": LIMIT, "stream_usage": True}
    if VARIANT == "chat":
        return ChatOpenAI(**common)
    return ChatOpenAI(
        use_responses_api=True,
        output_version="responses/v1",
        store=False,
        include=["reasoning.encrypted_content"],
        reasoning={"effort": "medium", "summary": "auto"},
        **common,
    )


def streamed(bound, messages: list):
    whole = None
    for chunk in bound.stream(messages):
        assert isinstance(chunk, AIMessageChunk)
        whole = chunk if whole is None else whole + chunk
    return whole


def run(name: str, words: Words, *, stream: bool) -> Answer:
    @tool("find_word", description=ABOUT)
    def find_word(topic: str) -> str:
        """The secret word of a topic."""
        return words.find(topic)

    bound = model(name).bind_tools([find_word])
    messages: list = [SystemMessage(SYSTEM), HumanMessage(PROMPT)]
    shown = Answer("", "", 0, 0)
    for _ in range(4):
        reply = streamed(bound, messages) if stream else bound.invoke(messages)
        reasonings = [block for block in reply.content_blocks if block["type"] == "reasoning"]
        shown.reasoning += "".join(block.get("reasoning", "") for block in reasonings)
        shown.input += reply.usage_metadata["input_tokens"]
        shown.output += reply.usage_metadata["output_tokens"]
        if not reply.tool_calls:
            shown.text = reply.text
            return shown
        messages += [reply, *(find_word.invoke(call) for call in reply.tool_calls)]
    raise AssertionError("it never stops calling")


def main() -> None:
    loop("streamed", lambda words: run(THINKS, words, stream=True))
    loop("parallel", lambda words: run(PARALLEL, words, stream=True))
    loop("interleaved", lambda words: run(INTERLEAVED, words, stream=True))
    loop("whole", lambda words: run(THINKS, words, stream=False))
    failure("limited", lambda: run(LIMITED, Words(), stream=False))
    for step, name in (("overloaded", OVERLOADED), ("broken", BROKEN), ("cut", CUT)):
        failure(step, lambda name=name: run(name, Words(), stream=True))


main()

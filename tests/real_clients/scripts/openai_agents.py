# mypy: ignore-errors
# It runs with the packages of its own environment, not the project's.
"""openai-agents for Python: `Runner.run_streamed` and `Runner.run` over Responses or Chat."""

from __future__ import annotations

import asyncio
import sys

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from openai.types.shared import Reasoning
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
CLIENT = AsyncOpenAI(base_url=f"{BASE}/v1", max_retries=0, timeout=30)
in_loop = asyncio.Runner().run
MODEL = {"chat": OpenAIChatCompletionsModel, "responses": OpenAIResponsesModel}[VARIANT]


async def run(model: str, words: Words, *, stream: bool, stateless: bool = False) -> Answer:
    @function_tool(name_override="find_word", description_override=ABOUT)
    def find_word(topic: str) -> str:
        return words.find(topic)

    settings = ModelSettings(max_tokens=LIMIT, include_usage=True)
    if VARIANT == "responses":
        settings.reasoning = Reasoning(effort="medium", summary="auto")
    if stateless:
        # By default it sends reasoning back without what is encrypted: the server is to know it by its id.
        settings.store, settings.response_include = False, ["reasoning.encrypted_content"]
    agent = Agent(
        name="Assistant",
        instructions=SYSTEM,
        tools=[find_word],
        model=MODEL(model, CLIENT),
        model_settings=settings,
    )
    if stream:
        result = Runner.run_streamed(agent, PROMPT, max_turns=4)
        async for _ in result.stream_events():
            pass
    else:
        result = await Runner.run(agent, PROMPT, max_turns=4)
    shown = [item.raw_item for item in result.new_items if item.type == "reasoning_item"]
    thinking = "".join(part.text for item in shown for part in [*item.summary, *(item.content or [])])
    usage = result.context_wrapper.usage
    return Answer(result.final_output, thinking, usage.input_tokens, usage.output_tokens)


def main() -> None:
    set_tracing_disabled(True)
    loop("streamed", lambda words: in_loop(run(THINKS, words, stream=True)))
    loop("parallel", lambda words: in_loop(run(PARALLEL, words, stream=True)))
    loop("interleaved", lambda words: in_loop(run(INTERLEAVED, words, stream=True)))
    loop("whole", lambda words: in_loop(run(THINKS, words, stream=False)))
    if VARIANT == "responses":
        loop("stateless", lambda words: in_loop(run(THINKS, words, stream=True, stateless=True)))
    failure("limited", lambda: in_loop(run(LIMITED, Words(), stream=False)))
    for step, model in (("overloaded", OVERLOADED), ("broken", BROKEN), ("cut", CUT)):
        failure(step, lambda model=model: in_loop(run(model, Words(), stream=True)))


main()

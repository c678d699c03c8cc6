# mypy: ignore-errors
# It runs with the packages of its own environment, not the project's.
"""OpenAI's SDK for Python: `chat.completions` or `responses`, each with its streaming helper and as a whole reply."""

from __future__ import annotations

import asyncio
import json
import sys

from openai import AsyncOpenAI, OpenAI
from openai.lib.responses_tool_runner import RegisteredFunction, ResponsesToolRunner
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

BASE, VARIANT = sys.argv[1:]
SETTINGS = {"base_url": f"{BASE}/v1", "max_retries": 0, "timeout": 30}
CLIENT = AsyncOpenAI(**SETTINGS)
in_loop = asyncio.Runner().run
DECLARED = {"name": "find_word", "description": ABOUT, "parameters": SCHEMA, "strict": True}


def chat_request(model: str, messages: list) -> dict:
    # The helper takes a strict call for whole when the next one begins: it cannot read them side by side.
    declared = {**DECLARED, "strict": model != INTERLEAVED}
    return {
        "model": model,
        "messages": messages,
        "max_completion_tokens": LIMIT,
        "tools": [{"type": "function", "function": declared}],
    }


async def chat_streamed(model: str, messages: list):
    thinking = ""
    async with CLIENT.chat.completions.stream(
        **chat_request(model, messages), stream_options={"include_usage": True}
    ) as stream:
        async for event in stream:
            if event.type == "chunk" and event.chunk.choices:
                thinking += (event.chunk.choices[0].delta.model_extra or {}).get("reasoning_content") or ""
        return await stream.get_final_completion(), thinking


async def chat_whole(model: str, messages: list):
    reply = await CLIENT.chat.completions.create(**chat_request(model, messages))
    return reply, (reply.choices[0].message.model_extra or {}).get("reasoning_content") or ""


async def chat_loop(ask, model: str, words: Words) -> Answer:
    """The assistant's message goes back as the SDK returned it, less what only its streaming helper adds."""
    messages: list = [{"role": "developer", "content": SYSTEM}, {"role": "user", "content": PROMPT}]
    shown = Answer("", "", 0, 0)
    for _ in range(4):
        reply, thinking = await ask(model, messages)
        message = reply.choices[0].message
        shown.reasoning += thinking
        shown.input += reply.usage.prompt_tokens
        shown.output += reply.usage.completion_tokens
        if reply.choices[0].finish_reason != "tool_calls":
            shown.text = message.content
            return shown
        replayed = message.to_dict()
        replayed.pop("parsed", None)
        for call in replayed["tool_calls"]:
            call.pop("index", None)
            call["function"].pop("parsed_arguments", None)
        messages.append(replayed)
        for call in message.tool_calls:
            found = words.find(json.loads(call.function.arguments)["topic"])
            messages.append({"role": "tool", "tool_call_id": call.id, "content": found})
    raise AssertionError("it never stops calling")


def chat() -> None:
    def play(ask, model: str):
        return lambda words: in_loop(chat_loop(ask, model, words))

    loop("streamed", play(chat_streamed, THINKS))
    loop("parallel", play(chat_streamed, PARALLEL))
    loop("interleaved", play(chat_streamed, INTERLEAVED))
    loop("whole", play(chat_whole, THINKS))
    hello = [{"role": "user", "content": PROMPT}]
    failure("limited", lambda: in_loop(chat_whole(LIMITED, hello)))
    for step, model in (("overloaded", OVERLOADED), ("broken", BROKEN), ("cut", CUT)):
        failure(step, lambda model=model: in_loop(chat_streamed(model, hello)))


def responses_request(model: str, items: list) -> dict:
    return {
        "model": model,
        "instructions": SYSTEM,
        "input": items,
        "max_output_tokens": LIMIT,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "medium", "summary": "auto"},
        "tools": [{"type": "function", **DECLARED}],
    }


def responses_streamed(client: OpenAI, model: str, items: list):
    failed = None
    with client.responses.stream(**responses_request(model, items)) as stream:
        for event in stream:
            if event.type == "response.failed":
                failed = event.response.error
        try:
            return stream.get_final_response()
        except RuntimeError as error:
            raise RuntimeError(failed.message if failed else str(error)) from error


def responses_whole(client: OpenAI, model: str, items: list):
    return client.responses.create(**responses_request(model, items))


def add(shown: Answer, reply) -> None:
    """Return what a reply shows of thinking and usage."""
    for item in reply.output:
        if item.type == "reasoning":
            shown.reasoning += "".join(part.text for part in [*item.summary, *(item.content or [])])
    shown.input += reply.usage.input_tokens
    shown.output += reply.usage.output_tokens


def responses_loop(ask, client: OpenAI, model: str, words: Words) -> Answer:
    """The output items go back as the SDK returned them, reasoning included."""
    items: list = [{"role": "user", "content": PROMPT}]
    shown = Answer("", "", 0, 0)
    for _ in range(4):
        reply = ask(client, model, items)
        add(shown, reply)
        calls = [item for item in reply.output if item.type == "function_call"]
        if not calls:
            shown.text = reply.output_text
            return shown
        items += reply.output
        for call in calls:
            found = words.find(json.loads(call.arguments)["topic"])
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": found})
    raise AssertionError("it never stops calling")


def responses_runner(client: OpenAI, model: str, words: Words, *, stream: bool) -> Answer:
    tool = {"type": "function", **DECLARED}
    runner = ResponsesToolRunner(functions=[RegisteredFunction(tool, lambda arguments: words.find(arguments["topic"]))])
    request = responses_request(model, [{"role": "user", "content": PROMPT}])
    del request["tools"]
    shown = Answer("", "", 0, 0)
    for turn in runner.iterate(client, request, stream=stream):
        add(shown, turn.response)
        shown.text = turn.response.output_text
    return shown


def responses() -> None:
    client = OpenAI(**SETTINGS)
    loop("streamed", lambda words: responses_loop(responses_streamed, client, THINKS, words))
    loop("parallel", lambda words: responses_loop(responses_streamed, client, PARALLEL, words))
    loop("interleaved", lambda words: responses_loop(responses_streamed, client, INTERLEAVED, words))
    loop("whole", lambda words: responses_loop(responses_whole, client, THINKS, words))
    loop("runner", lambda words: responses_runner(client, THINKS, words, stream=True))
    loop("parallel runner", lambda words: responses_runner(client, PARALLEL, words, stream=True))
    loop("whole runner", lambda words: responses_runner(client, THINKS, words, stream=False))
    failure("limited", lambda: responses_whole(client, LIMITED, [{"role": "user", "content": PROMPT}]))
    for step, model in (("overloaded", OVERLOADED), ("broken", BROKEN), ("cut", CUT)):
        failure(step, lambda model=model: responses_streamed(client, model, [{"role": "user", "content": PROMPT}]))


{"chat": chat, "responses": responses}[VARIANT]()

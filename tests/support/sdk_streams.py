"""Streams as their clients read them: the official SDKs' accumulators, and clients that join deltas themselves.

A client raises an exception for what it cannot read, or holds what an agent acts on.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import anthropic
import httpx2
import openai

from oracles.grammar import sse

Json = dict[str, Any]
_WORDS = ("stop", "length", "tool_calls", "function_call", "content_filter")
_TEXT_KEYS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_REASONS = (
    *("end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal", "model_context_window_exceeded"),
    "compaction",
)


class Held(NamedTuple):
    """The parts of a reply that a client holds.

    `calls` are name and arguments of each, `counts` those of the input and of the output.
    """

    text: str
    calls: list[tuple[str, Json]]
    stop: str | None
    counts: tuple[Any, Any] | None


def _served(data: bytes) -> httpx2.Client:
    headers = {"content-type": "text/event-stream"}
    return httpx2.Client(
        transport=httpx2.MockTransport(lambda _: httpx2.Response(200, headers=headers, content=data)),
        base_url="http://upstream",
    )


def openai_chat(data: bytes) -> Held:
    """As OpenAI's `chat.completions.stream` reads a stream."""
    sdk = openai.OpenAI(api_key="k", base_url="http://upstream", http_client=_served(data), max_retries=0)
    with sdk.chat.completions.stream(model="m", messages=[{"role": "user", "content": "Hi"}]) as stream:
        for _ in stream:
            pass
        final = stream.get_final_completion()
    [choice] = final.choices
    message = choice.message
    assert message.role
    assert message.function_call is None  # the client requested tools
    calls: Any = message.tool_calls or ()
    assert all(call.id and call.type == "function" for call in calls)
    made = [(call.function.name, json.loads(call.function.arguments)) for call in calls]
    usage = final.usage
    counts = None if usage is None else (usage.prompt_tokens, usage.completion_tokens)
    return Held(message.content or "", made, choice.finish_reason, counts)


def joined_chat(data: bytes) -> Held:
    """As the AI SDK and LangChain join the deltas: members have the types of OpenAI's, and calls start with theirs."""
    text, stop, counts = "", None, None
    calls: dict[int, list[str]] = {}
    for item in sse.written(data):
        if item.data is None or item.data == b"[DONE]":
            continue
        payload = json.loads(item.data)
        assert "error" not in payload, payload["error"]
        assert type(payload.get("created") or 0) is int
        assert type(payload.get("id") or "") is str
        if (usage := payload.get("usage")) is not None:
            counts = usage["prompt_tokens"], usage["completion_tokens"]
            assert all(type(count) is int and count >= 0 for count in counts)
        for choice in payload["choices"]:
            assert choice["index"] == 0
            stop = choice.get("finish_reason") or stop
            delta = choice["delta"]
            assert not delta.get("function_call")
            text += delta.get("content") or ""
            for fragment in delta.get("tool_calls") or ():
                function = fragment["function"]
                if fragment["index"] not in calls:
                    assert fragment["id"]
                    assert fragment["type"] == "function"
                    calls[fragment["index"]] = [function["name"], ""]
                calls[fragment["index"]][1] += function.get("arguments") or ""
    assert stop in _WORDS
    return Held(text, [(name, json.loads(arguments)) for name, arguments in calls.values()], stop, counts)


def anthropic_messages(data: bytes) -> Held:
    """As Anthropic's `messages.stream` reads a stream."""
    sdk = anthropic.Anthropic(api_key="k", base_url="http://upstream", http_client=_served(data), max_retries=0)
    with sdk.messages.stream(model="m", max_tokens=9, messages=[{"role": "user", "content": "Hi"}]) as stream:
        for _ in stream:
            pass
        final = stream.get_final_message()
    assert final.role == "assistant"
    text = "".join([block.text for block in final.content if block.type == "text"])
    calls: list[Any] = [block for block in final.content if block.type == "tool_use"]
    assert all(call.id for call in calls)
    assert {block.type for block in final.content} <= {"text", "tool_use", "thinking"}
    made = [(call.name, call.input) for call in calls]
    return Held(text, made, final.stop_reason, (final.usage.input_tokens, final.usage.output_tokens))


def joined_messages(data: bytes) -> Held:
    """As the AI SDK and Claude Code join the deltas: members have the types of Anthropic's."""
    blocks: list[Json] = []
    texts: list[str] = []
    stop, counts = None, (0, 0)
    for item in sse.written(data):
        if item.data is None:
            continue
        payload = json.loads(item.data)
        assert item.event == payload["type"]
        match payload["type"]:
            case "message_start":
                message = payload["message"]
                assert type(message["id"]) is type(message["model"]) is str
                assert message["content"] == []
                counts = message["usage"]["input_tokens"], message["usage"]["output_tokens"]
            case "content_block_start":
                assert payload["index"] == len(blocks)
                blocks.append(payload["content_block"])
                texts.append("")
            case "content_block_delta":
                delta = payload["delta"]
                texts[payload["index"]] += delta[_TEXT_KEYS[delta["type"]]]
            case "message_delta":
                stop = payload["delta"]["stop_reason"] or stop
                counts = payload["usage"].get("input_tokens") or counts[0], payload["usage"]["output_tokens"]
            case "error":
                raise AssertionError(payload)
    assert all(type(count) is int and count >= 0 for count in counts)
    assert stop in _REASONS
    made = zip(blocks, texts, strict=True)
    text = "".join([joined for block, joined in made if block["type"] == "text"])
    calls = [
        (block["name"], json.loads(joined or "{}"))
        for block, joined in zip(blocks, texts, strict=True)
        if block["type"] == "tool_use"
    ]
    return Held(text, calls, stop, counts)

"""The length of a reply, and the estimate of whole replies without counts in every direction."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import Dialect, direction, translate
from dragoman.dialects import CLIENT_DIALECTS
from dragoman.tokens.reply_text import reply_length, text_length

TEXT = "word " * 400
"""2,000 characters: about 500 tokens."""
_PART = {"type": "output_text", "text": TEXT, "annotations": []}
_ITEM = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [_PART]}
REPLIES: dict[Dialect, dict[str, Any]] = {
    Dialect.CHAT: {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}],
    },
    Dialect.MESSAGES: {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": TEXT}],
        "stop_reason": "end_turn",
    },
    Dialect.RESPONSES: {"id": "r", "object": "response", "status": "completed", "model": "m", "output": [_ITEM]},
    Dialect.GENERATE: {
        "candidates": [{"content": {"role": "model", "parts": [{"text": TEXT}]}, "finishReason": "STOP"}]
    },
}
REQUESTS: dict[Dialect, dict[str, Any]] = {
    Dialect.CHAT: {"messages": [{"role": "user", "content": "Hi"}]},
    Dialect.MESSAGES: {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9000},
    Dialect.RESPONSES: {"input": "Hi"},
}
COUNTS = {
    Dialect.CHAT: {"usage": {"prompt_tokens": 3, "completion_tokens": 4}},
    Dialect.MESSAGES: {"usage": {"input_tokens": 3, "output_tokens": 4}},
    Dialect.RESPONSES: {"usage": {"input_tokens": 3, "output_tokens": 4}},
    Dialect.GENERATE: {"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4}},
}


@pytest.mark.parametrize("upstream", Dialect)
@pytest.mark.parametrize("client", CLIENT_DIALECTS)
def test_a_whole_reply_without_counts_is_estimated(client: Dialect, upstream: Dialect) -> None:
    translation = translate(direction(client, upstream), json.dumps({"model": "m", **REQUESTS[client]}).encode())
    translation.context.input_estimate = 50
    translation.reply(json.dumps(REPLIES[upstream]).encode())
    usage, estimated = translation.usage_and_estimates()
    assert usage is not None
    assert (usage.input_total, usage.output_total) == (50, 500)
    assert estimated == ("input_total", "output_total")


@pytest.mark.parametrize("upstream", Dialect)
@pytest.mark.parametrize("client", CLIENT_DIALECTS)
def test_the_counts_of_a_whole_reply_are_no_estimate(client: Dialect, upstream: Dialect) -> None:
    translation = translate(direction(client, upstream), json.dumps({"model": "m", **REQUESTS[client]}).encode())
    translation.reply(json.dumps({**REPLIES[upstream], **COUNTS[upstream]}).encode())
    usage, estimated = translation.usage_and_estimates()
    assert usage is not None
    assert (usage.input_total, usage.output_total, estimated) == (3, 4, ())


@pytest.mark.parametrize("dialect", CLIENT_DIALECTS)
def test_a_whole_reply_in_place_of_a_stream_is_counted_once(dialect: Dialect) -> None:
    body = {"model": "m", "stream": True, **REQUESTS[dialect]}
    translation = translate(direction(dialect, dialect), json.dumps(body).encode())
    translation.replay(json.dumps(REPLIES[dialect]).encode())
    usage, _ = translation.usage_and_estimates()
    assert usage is not None
    assert usage.output_total == 500


@pytest.mark.parametrize(
    ("value", "length"),
    [
        ({"content": [{"type": "text", "text": "abc"}, {"type": "thinking", "thinking": [{"text": "de"}]}]}, 5),
        ({"reasoning_details": [{"type": "reasoning.text", "text": "abc"}]}, 3),
        ({"reasoning": "abc", "reasoning_details": [{"text": "abc"}]}, 3),
        ({"reasoning_content": "abc", "reasoning": "abc", "content": None}, 3),
        ({"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}, 2),
        ({"type": "tool_use", "name": "f", "input": {"a": 1}}, 7),
        ({"type": "tool_use", "name": "f", "input": {}}, 0),
        ({"parts": [{"functionCall": {"name": "f", "args": {"a": 1}}}, {"text": "abc"}]}, 10),
        ({"type": "custom_tool_call", "input": "abc"}, 3),
        (7, 0),
        (None, 0),
    ],
)
def test_texts_reasoning_and_arguments_have_a_length(value: Any, length: int) -> None:
    assert text_length(value) == length


def test_a_deep_value_ends() -> None:
    value: Any = "abc"
    for _ in range(1000):
        value = [value]
    assert text_length(value) == 0


def test_only_the_reply_itself_has_a_length() -> None:
    assert reply_length({"output": [{"content": [{"text": "abc"}]}], "text": {"text": "no"}, "instructions": "no"}) == 3
    assert reply_length([1]) == 0

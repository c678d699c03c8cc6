from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.events import IMAGE, StopReason
from dragoman.canonical.parts import Native, Reasoning, Refusal, Text, ToolCall
from dragoman.canonical.reply_events import events_of, reply_of
from dragoman.dialects.generate.reply.read import read_reply
from dragoman.errors import DragomanError, UpstreamProtocolError, UpstreamStatusError
from support.generate import chunk, new_context, read, sse

PARTS = [
    {"text": "Plan", "thought": True},
    {"text": "Hi", "thoughtSignature": "S0"},
    {"functionCall": {"id": "a", "name": "look", "args": {"n": 1}}, "thoughtSignature": "S1"},
    {"inlineData": {"mimeType": "image/png", "data": "iVBORw0K"}},
]


def test_a_reply() -> None:
    reply = read_reply(chunk(PARTS, "STOP", usage=(12, 2)), new_context())
    kinds = [type(part) for part in reply.parts]
    assert kinds == [Reasoning, Text, Reasoning, ToolCall, Native]
    plan, _, signature, call, picture = reply.parts
    assert isinstance(plan, Reasoning)
    assert isinstance(signature, Reasoning)
    assert isinstance(call, ToolCall)
    assert isinstance(picture, Native)
    assert (plan.text, plan.proof, signature.proof) == ("Plan", "S0", "S1")
    assert (call.id, call.arguments, picture.type) == ("a", '{"n":1}', IMAGE)
    assert (reply.id, reply.model, reply.stop.reason) == ("x", "m", StopReason.TOOL_CALLS)


def test_a_reply_is_a_stream_of_one_chunk() -> None:
    body = chunk(PARTS, "STOP", usage=(12, 2))
    reply = read_reply(body, new_context())
    assert reply == reply_of(read(sse([body])), "generate")
    assert reply_of(events_of(reply), "generate") == reply


def test_a_blocked_prompt() -> None:
    reply = read_reply({"promptFeedback": {"blockReason": "SAFETY"}}, new_context())
    assert reply.stop.reason is StopReason.FILTERED
    assert [type(part) for part in reply.parts] == [Refusal]


def test_a_reply_that_the_cap_ended_before_a_text() -> None:
    reply = read_reply(chunk(None, "MAX_TOKENS", usage=(15, 0, 2)), new_context())
    assert (reply.parts, reply.stop.reason) == ([], StopReason.LENGTH)
    assert reply.usage is not None
    assert (reply.usage.output_total, reply.usage.reasoning) == (2, 2)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ([], UpstreamProtocolError),
        ({}, UpstreamProtocolError),
        (chunk([{"text": "x"}]), UpstreamProtocolError),
        ({"error": {"code": 503, "message": "no"}}, UpstreamStatusError),
        (chunk([], "MALFORMED_RESPONSE"), UpstreamStatusError),
        (chunk([], "NO_IMAGE"), UpstreamProtocolError),
    ],
)
def test_no_reply(body: Any, error: type[DragomanError]) -> None:
    with pytest.raises(error):
        read_reply(body, new_context())

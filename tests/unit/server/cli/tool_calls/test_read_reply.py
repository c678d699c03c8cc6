"""The reader of streams that takes whatever a host sends."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman.wire import SSEParser
from dragoman_server.cli.tool_calls.read_reply import SeenReply, error_message, read_reply
from support.responses_samples import numbered
from support.samples import text_stream, tool_stream

CHAT, MESSAGES, RESPONSES, *_ = Dialect


def read(dialect: Dialect, data: bytes) -> SeenReply:
    return read_reply(dialect, SSEParser().parse(data))


@pytest.mark.parametrize("dialect", CLIENT_DIALECTS)
def test_a_text_is_read(dialect: Dialect) -> None:
    reply = read(dialect, b"".join(text_stream(dialect)))
    assert reply.text
    assert (reply.ended, reply.error, reply.unreadable, reply.calls) == (True, "", "", {})


def call_stream(dialect: Dialect) -> list[bytes]:
    """A whole stream of one tool call."""
    if dialect is not RESPONSES:
        return tool_stream(dialect)
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": "{}"}
    response = {"status": "completed", "usage": {"input_tokens": 3, "output_tokens": 2}}
    return numbered(
        {"type": "response.output_item.added", "output_index": 0, "item": item | {"arguments": ""}},
        {"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc_1", "delta": "{}"},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    )


@pytest.mark.parametrize("dialect", CLIENT_DIALECTS)
def test_a_call_is_read(dialect: Dialect) -> None:
    reply = read(dialect, b"".join(call_stream(dialect)))
    (call,) = reply.calls.values()
    assert (bool(call.id), bool(call.name)) == (True, True)
    assert isinstance(json.loads(call.arguments), dict)
    assert reply.stop in ("tool_calls", "tool_use", "completed")


def test_frames_that_are_no_objects_are_recorded() -> None:
    reply = read(CHAT, b"data: [1]\n\ndata: oops\n\n: ping\n\ndata: [DONE]\n\n")
    assert (reply.unreadable, reply.ended) == ("[1]", True)


@pytest.mark.parametrize("dialect", CLIENT_DIALECTS)
def test_no_form_raises(dialect: Dialect) -> None:
    """Values of any type in the place of those that the dialect has."""
    chance = random.Random(4)
    frames = [frame.partition(b"data: ")[2].strip() for frame in call_stream(dialect)]
    values: list[Any] = [None, 1, "text", [], {}, [1], [{}], {"a": 1}, True]

    def damaged(value: Any) -> Any:
        if chance.random() < 0.15:
            return chance.choice(values)
        if isinstance(value, dict):
            return {key: damaged(item) for key, item in value.items()}
        return [damaged(item) for item in value] if isinstance(value, list) else value

    for _ in range(300):
        bodies = [json.dumps(damaged(json.loads(data))) for data in frames if data.startswith(b"{")]
        assert read(dialect, "".join(f"data: {body}\n\n" for body in bodies).encode()) is not None


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": {"message": "a"}}', "a"),
        (b'{"type": "error", "error": {"type": "t", "message": "b"}}', "b"),
        (b'{"error": "c"}', "c"),
        (b'{"message": "d"}', "d"),
        (b"<html>", "<html>"),
        (b'{"detail": 1}', '{"detail": 1}'),
        (b"[]", "[]"),
        (b"", ""),
    ],
)
def test_messages_of_errors(body: bytes, message: str) -> None:
    assert error_message(body) == message

"""The reader of streams that takes whatever a host sends."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman.wire import SSEFrame, SSEParser
from dragoman_server.cli.tool_calls.read_reply import SeenCall, SeenReply, error_message, read_reply
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


def response_frame(kind: str, **more: Any) -> SSEFrame:
    return SSEFrame(kind, json.dumps({"type": kind, "sequence_number": 7, **more}).encode())


def test_a_stream_of_responses_put_together() -> None:
    frames = [
        response_frame("response.reasoning_summary_text.delta", delta="Hm", output_index=0),
        response_frame("response.output_text.delta", delta="Hi", output_index=1),
        response_frame("response.output_item.added", output_index=2, item={"type": "custom_tool_call", "name": "p"}),
        response_frame("response.custom_tool_call_input.delta", output_index=2, delta='"\n'),
    ]
    so_far = read_reply(RESPONSES, frames)
    assert so_far.calls == {2: SeenCall(name="p", arguments='"\n', custom=True)}
    assert so_far.content() == ("Hm", "Hi", [("p", r'{"input":"\"\n"}')])
    whole = response_frame("response.output_item.done", output_index=2, item={"type": "custom_tool_call", "input": "x"})
    assert read_reply(RESPONSES, [*frames, whole]).calls == {2: SeenCall("", "p", "x", custom=True, complete=True)}
    cut = {"type": "function_call", "name": "f", "arguments": '{"a', "status": "incomplete"}
    half = [response_frame(f"response.output_item.{e}", output_index=0, item=cut) for e in ("added", "done")]
    assert not read_reply(RESPONSES, half).calls[0].complete
    failed = response_frame("response.failed", response={"error": {"message": "no"}})
    nested, flat = response_frame("error", error={"message": "no"}), response_frame("error", message="no")
    for last in (failed, nested, flat):
        end = read_reply(RESPONSES, [*frames, last])
        assert (end.error, end.stop) == ("no", "")


def test_the_fragments_of_calls_have_an_order() -> None:
    def chunk(index: int, arguments: str) -> SSEFrame:
        calls = [{"index": index, "function": {"name": "f", "arguments": arguments}}]
        return SSEFrame("", json.dumps({"choices": [{"delta": {"tool_calls": calls}}]}).encode())

    reply = read_reply(CHAT, [chunk(0, ""), chunk(1, "{"), chunk(0, "{}"), chunk(1, "}")])
    assert reply.order == [1, 0, 1]
    assert [call.arguments for call in reply.calls.values()] == ["{}", "{}"]
    assert not any(call.complete for call in reply.calls.values())


def test_all_readings_of_usage_come_to_the_same() -> None:
    chat = b'{"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":9}}'
    messages = (
        b'{"type":"message_start","message":{"usage":{"input_tokens":8,"cache_read_input_tokens":4,"output_tokens":0}}}',
        b'{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}',
    )
    usage = {"input_tokens": 12, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 9}
    responses = response_frame("response.completed", response={"status": "completed", "usage": usage})
    assert read_reply(RESPONSES, [responses]).tokens() == (12, 9)
    assert read_reply(CHAT, [SSEFrame("", chat)]).tokens() == (12, 9)
    assert read_reply(MESSAGES, [SSEFrame("", data) for data in messages]).tokens() == (12, 9)
    assert read_reply(CHAT, []).tokens() is None


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

"""The counts of a stream that passes through and is left, or is cut, before its upstream has counted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import Usage, direction, translate
from dragoman.wire.sse import Frame, encode

BODIES: dict[str, dict[str, Any]] = {
    "chat": {"messages": [{"role": "user", "content": "Hi"}], "stream_options": {"include_usage": True}},
    "messages": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9000},
    "responses": {"input": "Hi"},
}
LONG = "word " * 400
"""2,000 characters: about 500 tokens."""


def chat(delta: Any, finish: str | None = None, **more: Any) -> bytes:
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return encode(Frame("", json.dumps({**chunk, "choices": choices, **more}).encode()))


def event(kind: str, **fields: Any) -> bytes:
    return encode(Frame(kind, json.dumps({"type": kind, **fields}).encode()))


def messages(*blocks: bytes, output: int = 1) -> bytes:
    usage = {"input_tokens": 7, "output_tokens": output}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    return event("message_start", message=message) + b"".join(blocks)


def block(index: int, **content: Any) -> bytes:
    return event("content_block_start", index=index, content_block=content)


def delta(index: int, **content: Any) -> bytes:
    return event("content_block_delta", index=index, delta=content)


def responses(*events: tuple[str, dict[str, Any]]) -> bytes:
    created = {"id": "resp_1", "object": "response", "status": "in_progress", "output": []}
    rows = [("created", {"response": created}), *events]
    return b"".join(event(f"response.{name}", sequence_number=at, **fields) for at, (name, fields) in enumerate(rows))


def left(dialect: str, stream: bytes, size: int = 1 << 20) -> tuple[int | None, int | None, tuple[str, ...]]:
    """The counts when the client has left, and those which are estimates."""
    body = {"model": "m", "stream": True, **BODIES[dialect]}
    if dialect == "chat" and b'"index": 1, "delta"' in stream:
        body["n"] = 2
    translation = translate(direction(dialect, dialect), json.dumps(body).encode())
    machine = translation.stream_machine()
    for at in range(0, len(stream), size):
        machine.feed(stream[at : at + size])
    counts = machine.usage or Usage()
    usage, estimated = translation.usage_and_estimates()
    assert (usage or Usage()) == counts
    return counts.input_total, counts.output_total, estimated


END = event("content_block_stop", index=0)
FIRST = chat({"role": "assistant", "content": ""})
CALL = {"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": LONG}}
ITEM = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
CASES = {
    "chat: long deltas": ("chat", FIRST + chat({"content": LONG}) * 18, 9000),
    "chat: one chunk with its end": ("chat", chat({"role": "assistant", "content": LONG}, "stop"), 500),
    "chat: at the finish": ("chat", FIRST + chat({"content": LONG}) * 3 + chat({}, "stop"), 1500),
    "chat: reasoning": ("chat", FIRST + chat({"reasoning_content": LONG, "reasoning": LONG}), 500),
    "chat: reasoning details": ("chat", FIRST + chat({"reasoning_details": [{"type": "reasoning.text", "text": LONG}]}),
                                500),
    "chat: a list of parts": ("chat", FIRST + chat({"content": [{"type": "text", "text": LONG}]}), 500),
    "chat: a whole call": ("chat", FIRST + chat({"tool_calls": [CALL]}), 500),
    "chat: a first count": ("chat", chat({"role": "assistant"}, usage={"prompt_tokens": 7, "completion_tokens": 0})
                            + chat({"content": LONG}) * 2, 1000),
    "chat: two choices": ("chat", encode(Frame("", json.dumps({"choices": [
        {"index": at, "delta": {"content": LONG}, "finish_reason": None} for at in (0, 1)]}).encode())), 1000),
    "messages: long deltas": ("messages", messages(
        block(0, type="text", text=""), delta(0, type="text_delta", text=LONG) * 18), 9000),
    "messages: a text in the start": ("messages", messages(block(0, type="text", text=LONG), END), 500),
    "messages: a call in the start": ("messages", messages(
        block(0, type="tool_use", id="t", name="f", input={"text": LONG}), END), 503),
    "messages: thinking and a call": ("messages", messages(
        block(0, type="thinking", thinking=""), delta(0, type="thinking_delta", thinking=LONG),
        block(1, type="tool_use", id="t", name="f", input={}),
        delta(1, type="input_json_delta", partial_json=LONG)), 1000),
    "responses: long deltas": ("responses", responses(
        ("output_item.added", {"output_index": 0, "item": {**ITEM, "content": []}}),
        *[("output_text.delta", {"output_index": 0, "content_index": 0, "delta": LONG})] * 18), 9000),
    "responses: an item without deltas": ("responses", responses(
        ("output_item.added", {"output_index": 0, "item": {**ITEM, "content": []}}),
        ("output_item.done", {"output_index": 0, "item": {**ITEM, "content": [{"type": "output_text", "text": LONG}]}}),
    ), 500),
    "responses: an item with deltas is counted once": ("responses", responses(
        ("output_item.added", {"output_index": 0, "item": {**ITEM, "content": []}}),
        ("output_text.delta", {"output_index": 0, "content_index": 0, "delta": LONG}),
        ("output_item.done", {"output_index": 0, "item": {**ITEM, "content": [{"type": "output_text", "text": LONG}]}}),
    ), 500),
}  # fmt: skip


@pytest.mark.parametrize("size", [1 << 20, 100])
@pytest.mark.parametrize("name", CASES)
def test_T75_what_has_passed_is_counted(name: str, size: int) -> None:
    """A client may leave before the upstream's counts: many close the stream at the reason of its end."""
    dialect, stream, expected = CASES[name]
    _, output, estimated = left(dialect, stream, size)
    assert output is not None
    assert abs(output - expected) <= 3
    assert "output_total" in estimated


def test_each_delta_is_at_least_a_token() -> None:
    assert left("chat", FIRST + chat({"content": "。"}) * 40)[1] == 40


@pytest.mark.parametrize(
    ("stream", "output"),
    [
        # A server that counts in each chunk.
        (chat({"content": LONG}, usage={"prompt_tokens": 7, "completion_tokens": 400}), 400),
        # A count with the end, and one behind it: a reply may have fewer tokens than its length suggests.
        (chat({"content": LONG}, "stop", usage={"prompt_tokens": 7, "completion_tokens": 20}), 20),
        (
            chat({"content": LONG}, "stop")
            + encode(Frame("", b'{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":20}}')),
            20,
        ),
    ],
)
def test_what_the_upstream_counted_is_not_estimated(stream: bytes, output: int) -> None:
    assert left("chat", FIRST + stream) == (7, output, ())


def test_a_final_count_of_messages_is_not_estimated() -> None:
    blocks = block(0, type="text", text=""), delta(0, type="text_delta", text=LONG)
    end = event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 20})
    assert left("messages", messages(*blocks, end)) == (7, 20, ())

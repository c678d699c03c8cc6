"""Shapes of frames: types and lengths, and never a text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import Dialect
from dragoman.wire import SSEFrame, SSEParser
from dragoman_server.endpoints.console.frame_shape import SHAPED_MAX, FrameShape, shape_of
from support import samples

CANARY = "canary text of a user"


def shape(payload: Any, event: str = "") -> FrameShape:
    return shape_of(SSEFrame(event, json.dumps(payload).encode()))


def test_a_delta_of_messages() -> None:
    found = shape(
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": CANARY}}, "content_block_delta"
    )
    assert found[:2] == ("content_block_delta", "text_delta")
    assert found.text == len(CANARY)


def test_a_chunk_of_chat() -> None:
    call = {"index": 0, "function": {"name": "get_weather", "arguments": '{"a":1}'}}
    found = shape({"object": "chat.completion.chunk", "choices": [{"delta": {"tool_calls": [call], "content": None}}]})
    assert (found.name, found.detail, found.text) == ("chat.completion.chunk", "tool_calls", 7)
    last = shape({"object": "chat.completion.chunk", "choices": [{"delta": {}, "finish_reason": "stop"}], "usage": {}})
    assert last.detail == "stop usage"


def test_an_event_of_responses() -> None:
    found = shape({"type": "response.output_text.delta", "delta": CANARY}, "response.output_text.delta")
    assert (found.name, found.text) == ("response.output_text.delta", len(CANARY))
    assert shape({"type": "response.completed", "response": {"status": "completed"}}).detail == "completed"


@pytest.mark.parametrize(
    "frame",
    [
        SSEFrame("", None),
        SSEFrame("", b"[DONE]"),
        SSEFrame("", b"not JSON"),
        SSEFrame("", b"[1]"),
        SSEFrame("ping", b"{}"),
        SSEFrame("", b'{"type":"' + b"x" * SHAPED_MAX + b'"}'),
        SSEFrame("", b'{"choices":7}'),
        SSEFrame("", b'{"choices":[7]}'),
        SSEFrame("", b'{"choices":[{"delta":{"tool_calls":[7]}}]}'),
        SSEFrame("", b'{"delta":7,"item":[],"response":"x"}'),
    ],
)
def test_any_frame_has_a_name(frame: SSEFrame) -> None:
    assert shape_of(frame).name


@pytest.mark.parametrize("place", ["type", "object", "event"])
def test_a_text_at_the_place_of_a_type_is_left_out(place: str) -> None:
    found = shape({place: CANARY} if place != "event" else {}, CANARY if place == "event" else "")
    assert found == FrameShape("data", "", found.size, 0)


def test_a_chunk_of_gemini() -> None:
    call = {"functionCall": {"name": CANARY, "args": {"a": CANARY}}, "thoughtSignature": CANARY}
    candidate = {"content": {"parts": [call, {"text": "abc", "thought": True}]}, "finishReason": "STOP"}
    data = json.dumps({"candidates": [candidate, 7], "usageMetadata": {}}).encode()
    [frame] = SSEParser().parse(b"data: " + data + b"\n\n")
    assert shape_of(frame) == FrameShape("data", "functionCall thoughtSignature text thought stop usage", len(data), 3)


@pytest.mark.parametrize("dialect", list(Dialect))
def test_no_text_of_a_stream_is_in_its_shapes(dialect: Dialect) -> None:
    data = b"".join(samples.text_stream(dialect, (CANARY, "x")))
    shapes = [shape_of(frame) for frame in SSEParser().parse(data)]
    assert CANARY.encode() in data
    assert sum(each.text for each in shapes) > len(CANARY)
    assert CANARY not in str(shapes)

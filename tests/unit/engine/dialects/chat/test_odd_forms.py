"""Members of Chat replies in a form of the server's own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.dialects.chat.odd_forms import calls_in, nested_call, usual_chunk, usual_reply
from dragoman.losses import Losses

Json = dict[str, Any]
CHOICE: Json = {"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}


@pytest.mark.parametrize(
    "body",
    [
        {"choices": [CHOICE]},
        {"choices": [None, {"message": None}, {"message": {"tool_calls": "x", "finish_reason": None}}]},
        {"choices": {}},
        {"choices": [{"message": {"tool_calls": [None, {"function": {"name": "f"}, "name": "f"}]}}]},
        [],
    ],
)
def test_a_usual_reply_is_returned_itself(body: Any) -> None:
    losses = Losses()
    assert usual_reply(body, losses) is body
    assert not losses.rows


def test_numbers_of_a_chunk_keep_their_text() -> None:
    data = b'{"data":{"choices":{"index":0,"delta":{"content":"Hi"}},"x":12345678901234567890123}}'
    usual = usual_chunk(data, Losses())
    assert usual is not None
    assert b"12345678901234567890123" in usual
    assert json.loads(usual)["choices"] == [{"index": 0, "delta": {"content": "Hi"}}]


@pytest.mark.parametrize("data", [b'{"data":{"text":"Hi"}}', b'{"choices":{}}', b'{"choices":"x"}', b'{"data":[]}'])
def test_what_is_no_chunk(data: bytes) -> None:
    losses = Losses()
    assert usual_chunk(data, losses) is None
    assert not losses.rows


def test_a_custom_call() -> None:
    call = {"id": "a", "type": "custom", "name": "patch", "input": "x", "custom": None}
    assert nested_call(call, (), Losses()) == {"id": "a", "type": "custom", "custom": {"name": "patch", "input": "x"}}


def test_calls_by_their_index_are_no_call() -> None:
    value = {"0": {"id": "a"}}
    assert calls_in(value, (), Losses()) is value

"""The blocks of a forwarded Messages stream."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.canonical.events import Event
from dragoman.dialects.messages.stream.forwarded_blocks import ForwardedBlocks
from dragoman.dialects.messages.stream.reader import MessagesReader
from dragoman.reply_context import ReplyContext

TEXT = {"type": "text", "text": ""}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}


@pytest.mark.parametrize(
    ("index", "block"),
    [
        (1, TEXT),
        (None, TEXT),
        (0, None),
        (0, {"type": "text", "text": "Hi"}),
        (0, {**CALL, "input": {"f": 1}}),
        (0, {**CALL, "id": ""}),
        (0, {**CALL, "name": None}),
    ],
)
def test_starts_that_clients_would_misread(index: Any, block: Any) -> None:
    assert not ForwardedBlocks().start(index, block)


@pytest.mark.parametrize(
    ("delta", "verdict"),
    [
        ({"type": "text_delta", "text": "Hi"}, "plain"),
        ({"type": "text_delta", "text": None}, "odd"),
        ({"type": "thinking_delta", "thinking": "Hm"}, "odd"),
        ({"type": "citations_delta", "citation": {}}, "plain"),
        ({"type": "novel_delta"}, "plain"),
    ],
)
def test_deltas_of_a_text(delta: Any, verdict: str) -> None:
    blocks = ForwardedBlocks()
    assert blocks.start(0, TEXT)
    assert blocks.delta(0, delta) == verdict
    assert blocks.on_run(0) is None


def test_a_call_ends_with_whole_arguments() -> None:
    blocks = ForwardedBlocks()
    assert blocks.start(0, CALL)
    assert blocks.is_whole(0)
    del blocks.open[0]
    assert blocks.start(1, {**CALL, "id": "toolu_2"})
    take = blocks.on_run(1)
    assert take is not None
    assert take('{"f"', ['{"f"'])
    assert not blocks.is_whole(1)
    assert blocks.delta(1, {"type": "input_json_delta", "partial_json": ":1}"}) == "plain"
    assert blocks.is_whole(1)
    del blocks.open[1]
    assert blocks.open == {}


def test_a_reader_takes_the_place_of_the_client() -> None:
    """The events that stand for the blocks are read without a repair, and leave the same ones open."""
    blocks = ForwardedBlocks()
    for index, block in enumerate(({"type": "thinking", "thinking": ""}, {"type": "server_tool_use"}, CALL)):
        assert blocks.start(index, block)
        if index < 2:
            del blocks.open[index]
    reader, out = MessagesReader(context := ReplyContext("m")), list[Event]()
    for event in ({"type": "message_start", "message": {}}, *blocks.events(None)):
        reader.read(json.dumps(event).encode(), out)
    assert "blocks=3 open=1 calls=1" in repr(reader)
    assert context.losses.rows == []


@pytest.mark.parametrize(("held", "ends", "arguments"), [("delta", True, ""), ("stop", False, "{}"), ("", True, "{}")])
def test_the_state_before_the_event_that_is_held(held: str, ends: bool, arguments: str) -> None:
    blocks = ForwardedBlocks()
    assert blocks.start(0, CALL)
    assert blocks.delta(0, {"type": "input_json_delta", "partial_json": "{}"}) == "unsure"
    del blocks.open[0]
    _, *rest = blocks.events((f"content_block_{held}", 0) if held else None)
    assert "".join(event["delta"]["partial_json"] for event in rest if "delta" in event) == arguments
    assert (rest[-1]["type"] == "content_block_stop") is ends


@pytest.mark.parametrize("kind", [["x"], {}, 5, None])
def test_a_block_or_delta_whose_type_is_no_word_is_odd(kind: object) -> None:
    """It was an exception, which cut the client's stream. SDKs ignore its text."""
    blocks = ForwardedBlocks()
    assert not blocks.start(0, {"type": kind})
    assert blocks.start(0, {"type": "text", "text": ""})
    assert blocks.delta(0, {"type": kind, "text": "Hi"}) == "odd"
    assert blocks.delta(0, {"type": "a vendor's", "more": "Hi"}) == "plain"

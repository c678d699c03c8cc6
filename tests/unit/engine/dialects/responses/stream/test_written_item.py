"""The formats of a usual text item against the general way of writing an item."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.dialects.responses.reply.item_shapes import TEXT
from dragoman.dialects.responses.stream.written_item import WrittenItem, WrittenOutput
from dragoman.wire.json_codec import dump_str, dumps
from dragoman.wire.sse import Frame, encode


def second_text(base: str) -> WrittenItem:
    output = WrittenOutput(base)
    output.add(TEXT)
    return output.add(TEXT)


def frame(kind: str, number: int, body: bytes) -> bytes:
    return encode(Frame(kind, b'{"type":"%b","sequence_number":%d,%b}' % (kind.encode(), number, body)))


def text_done_frames(block: WrittenItem, number: int, text: str) -> list[bytes]:
    item: Any = dumps(block.item.build("completed", text))
    return [
        frame("response.output_text.done", number, block.text_body(dump_str(text))),
        frame("response.content_part.done", number + 1, block.part_body(text)),
        frame("response.output_item.done", number + 2, block.item_body(item)),
    ]


BASES = ["x", "a b%d%", 'q"\\', "ü"]
HALF = "\ud83d"


@pytest.mark.parametrize("base", [*BASES, HALF])
def test_a_text_is_announced_as_any_item_is(base: str) -> None:
    block = second_text(base)
    added = frame("response.output_item.added", 7, block.item_body(dumps(block.item.build("in_progress"))))
    part = frame("response.content_part.added", 8, block.part_body(""))
    assert block.text_added(7) == added + part


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("text", ["", "Hi", "%b%d", '"\\\n', "ü"])
def test_a_text_ends_as_any_item_does(base: str, text: str) -> None:
    block = second_text(base)
    frames, encoded = block.text_done(12, text)
    assert frames == b"".join(text_done_frames(block, 12, text))
    assert encoded == dumps(block.item.build("completed", text))


def test_half_a_surrogate_pair_in_an_id_leaves_the_text_as_it_is() -> None:
    """The general way escapes both."""
    _, encoded = second_text(HALF).text_done(12, "ü")
    assert encoded != dumps(second_text(HALF).item.build("completed", "ü"))
    assert json.loads(encoded) == second_text(HALF).item.build("completed", "ü")

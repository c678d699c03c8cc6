"""The reader of the blocks of one message, without the message around them."""

from __future__ import annotations

import pytest

from dragoman.canonical.events import BlockEnd, BlockStart, Delta, Event
from dragoman.dialects.messages.stream.read_blocks import BlockReader
from dragoman.errors import UpstreamProtocolError
from dragoman.reply_context import ReplyContext

CALL = {"index": 4, "content_block": {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}}


def begun(*starts: dict[str, object]) -> tuple[BlockReader, list[Event]]:
    blocks, out = BlockReader(ReplyContext("m")), list[Event]()
    for start in starts:
        blocks.start(start, "msg_1", out)
    return blocks, out


def test_indexes_of_the_upstream_are_mapped() -> None:
    blocks, out = begun(CALL)
    blocks.delta({"index": 4, "delta": {"type": "input_json_delta", "partial_json": "{}"}}, out)
    blocks.stop({"index": 4}, out)
    blocks.end_all(out, complete=True)
    assert out == [BlockStart(0, "tool", "toolu_1", "read"), Delta(0, "{}"), BlockEnd(0)]
    assert blocks.summary() == "blocks=1 open=0 calls=1"
    assert blocks.shown


def test_texts_of_prose_and_of_the_last_call_may_be_taken_in_runs() -> None:
    blocks, out = begun({"index": 0, "content_block": {"type": "text", "text": ""}}, CALL)
    assert blocks.follow(Delta(0, "Hi")) is not None
    take = blocks.follow(Delta(1, "{}"))
    assert take is not None
    assert take("{}", ["{", "}"])
    assert blocks.follow(Delta(7, "Hi")) is None
    blocks.start({"index": 5, "content_block": {"type": "text", "text": ""}}, "msg_1", out)
    assert blocks.follow(Delta(1, "")) is None


def test_a_delta_without_its_block_is_an_error() -> None:
    blocks, out = begun()
    with pytest.raises(UpstreamProtocolError, match="block 4, which is not open"):
        blocks.delta({"index": 4, "delta": {"type": "text_delta", "text": "Hi"}}, out)

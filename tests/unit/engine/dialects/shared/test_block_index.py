"""Indexes of blocks: counted up from 0, each key open once."""

from __future__ import annotations

import pytest

from dragoman.dialects.shared.block_index import BlockMap
from dragoman.errors import LimitExceeded, UpstreamProtocolError
from dragoman.limits import Limits


def test_indexes_count_up_in_the_order_of_the_starts() -> None:
    blocks = BlockMap()
    assert [blocks.start(key, "text") for key in (7, "a", (1, 2))] == [0, 1, 2]
    assert blocks.end("a") == 1
    assert blocks.start("a", "tool") == 3
    assert blocks.open["a"] == (3, "tool")


def test_a_key_is_open_once() -> None:
    blocks = BlockMap()
    blocks.start(0, "text")
    with pytest.raises(UpstreamProtocolError, match="block 0 twice"):
        blocks.start(0, "text")
    blocks.end(0)
    with pytest.raises(UpstreamProtocolError, match="block 0, which is not open"):
        blocks.end(0)


def test_the_limit_counts_closed_blocks_too() -> None:
    blocks = BlockMap(Limits(blocks=2))
    for key in (0, 1):
        blocks.start(key, "text")
        blocks.end(key)
    with pytest.raises(LimitExceeded):
        blocks.start(2, "text")

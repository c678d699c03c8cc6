"""Calls end once their arguments are complete and another block has started (mapping §9.7)."""

from __future__ import annotations

import pytest

from dragoman.canonical.events import BlockEnd, Event
from dragoman.dialects.shared.block_index import BlockMap
from dragoman.dialects.shared.early_call_ends import EarlyEnds
from dragoman.dialects.shared.streamed_arguments import Arguments, ReplyBudget
from dragoman.errors import UpstreamProtocolError
from dragoman.knobs import Knobs
from dragoman.limits import Limits
from dragoman.reply_context import ReplyContext


class Calls:
    """The open calls of one stream, and the events that end them."""

    def __init__(self, knobs: Knobs | None = None) -> None:
        self.blocks = BlockMap()
        self.ends = EarlyEnds(self.blocks, ReplyContext("m", knobs=knobs or Knobs()))
        self.arguments: dict[str, Arguments] = {}
        self.out: list[Event] = []

    def start(self, key: str, text: str = "") -> None:
        self.ends.before_start(self.out)
        self.blocks.start(key, "tool")
        self.arguments[key] = Arguments(ReplyBudget(Limits()))
        self.ends.watch(key, self.arguments[key])
        self.arguments[key].add(text)

    def add(self, key: str, text: str) -> None:
        self.arguments[key].add(text)
        self.ends.after_delta(key, self.out)


def test_a_complete_call_ends_before_the_next_block() -> None:
    calls = Calls()
    calls.start("a", '{"x":1}')
    assert calls.out == []
    calls.start("b")
    assert calls.out == [BlockEnd(0)]


def test_a_call_that_is_not_the_last_ends_with_its_last_brace() -> None:
    calls = Calls()
    calls.start("a", '{"x":')
    calls.start("b")
    calls.add("a", "1")
    assert calls.out == []
    calls.add("a", "}")
    assert calls.out == [BlockEnd(0)]


def test_nothing_but_white_space_may_follow() -> None:
    calls = Calls()
    calls.start("a", "{}")
    calls.start("b")
    assert calls.ends.late("a", " \n", "f")
    assert not calls.ends.late("b", "x", "f")
    with pytest.raises(UpstreamProtocolError, match="after its complete arguments"):
        calls.ends.late("a", "x", "f")


def test_blocks_may_be_left_open() -> None:
    calls = Calls(Knobs(block_order="interleave"))
    calls.start("a", "{}")
    calls.start("b", "{}")
    assert calls.out == []

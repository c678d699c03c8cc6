"""The old objects of a process are collected when many of them must be garbage, and never else."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dragoman_server.workers import old_objects
from dragoman_server.workers.old_objects import OldObjects, collected_rarely

pytestmark = pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python 3.14 collects in small steps")
MANY = 3_000


class Loop:
    """An event loop of which only `call_later` is used."""

    def __init__(self) -> None:
        self.call: Callable[[], None] | None = None
        self.seconds = 0.0

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        self.call, self.seconds = call, seconds

    def turn(self) -> None:
        assert self.call is not None
        self.call()


@pytest.fixture
def collections(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The full collections that are made in a test. What was there before is set aside."""
    made: list[int] = []
    collect = gc.collect

    def counted(*args: Any) -> int:
        made.append(1)
        return collect(*args)

    collect()
    gc.freeze()
    gc.disable()
    monkeypatch.setattr(gc, "collect", counted)
    monkeypatch.setattr(old_objects, "_GARBAGE", MANY)
    yield made
    gc.enable()


def grow_old(things: list[Any]) -> None:
    """Make these objects old."""
    assert things
    gc.collect(1)


def cycles(count: int) -> list[list[Any]]:
    made: list[list[Any]] = []
    for _ in range(count):
        each: list[Any] = []
        each.append(each)
        made.append(each)
    return made


def test_garbage_is_collected(collections: list[int]) -> None:
    loop = Loop()
    OldObjects(loop, lambda: 0)  # type: ignore[arg-type]
    loop.turn()
    assert not collections
    grow_old(cycles(2 * MANY))
    collections.clear()
    loop.turn()
    assert collections == [1]
    assert len(gc.get_objects(generation=2)) < MANY
    loop.turn()
    assert collections == [1]


def test_what_open_requests_explain_is_not_visited(collections: list[int]) -> None:
    loop, requests = Loop(), 2 * MANY // 100
    OldObjects(loop, lambda: requests)  # type: ignore[arg-type]
    things = cycles(2 * MANY)
    grow_old(things)
    collections.clear()
    loop.turn()
    assert not collections


def test_what_is_kept_for_long_is_visited_once(collections: list[int]) -> None:
    loop = Loop()
    OldObjects(loop, lambda: 0)  # type: ignore[arg-type]
    things = cycles(2 * MANY)
    grow_old(things)
    collections.clear()
    for _ in range(3):
        loop.turn()
    assert collections == [1]


def test_free_memory_is_returned_when_most_of_many_requests_have_ended(
    collections: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    returned: list[int] = []
    requests = [0]
    monkeypatch.setattr(old_objects, "return_free_memory", lambda: returned.extend(requests))
    loop = Loop()
    OldObjects(loop, lambda: requests[0])  # type: ignore[arg-type]
    for requests[0] in (20, 0, 1000, 800, 300, 250, 100, 50, 0):
        loop.turn()
    assert returned == [250, 50]


async def test_the_thresholds_are_restored() -> None:
    before = gc.get_threshold()
    with collected_rarely(lambda: 0):
        assert gc.get_threshold()[2] > 1_000_000
    assert gc.get_threshold() == before

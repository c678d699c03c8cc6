"""The slots of a provider in one process, with the answers of a store. `test_law_shared_bounds.py` has several."""

from __future__ import annotations

from typing import Any

from dragoman_server.routing.shared_slots import INTERVAL, Grant, PlaceClaim, SharedSlots
from support.manual_clock import ManualClock


class Host:
    """One process, with the changes that it reported and the requests that entered or were dropped."""

    def __init__(self, limit: int = 2, queue: int = 2) -> None:
        self.clock = ManualClock()
        self.changes: list[bool] = []
        self.slots = SharedSlots("up", limit, queue, self.changes.append, self.clock)
        self.entered: list[str] = []
        self.dropped: list[str] = []

    def arrive(self, name: str, owner: str = "") -> bool:
        if self.slots.take():
            self.entered.append(name)
            return True
        return self.slots.wait(lambda: self.entered.append(name), (owner,), lambda: self.dropped.append(name))

    def claim(self) -> PlaceClaim:
        found = self.slots.claim()
        assert found is not None
        return found

    def granted(self, *numbers: int) -> Any:
        self.claim()
        self.slots.grant(Grant(*numbers))
        return self.entered, self.dropped


def test_a_request_waits_for_the_answer_of_the_store() -> None:
    host = Host()
    assert not host.slots.full, "nothing is known yet"
    assert host.slots.claim() is None
    for name in "abcde":
        assert host.arrive(name)
    assert host.changes == [True] * 6
    assert host.claim() == PlaceClaim("up", 2, 2, 0, 5, False)
    host.slots.grant(Grant(2, 2, 0))
    assert (host.entered, host.dropped) == (["a", "b"], ["e"])
    assert host.slots.full
    assert host.slots.is_closed_to(("",))
    assert not host.arrive("f"), "the store is not asked for each"
    host.clock.advance(INTERVAL)
    assert host.arrive("g")
    assert host.claim() == PlaceClaim("up", 2, 2, 2, 3, True)


def test_the_request_of_the_client_that_has_most_is_dropped() -> None:
    host = Host()
    for name, owner in (("a", "x"), ("b", "x"), ("c", "x"), ("d", "y")):
        host.arrive(name, owner)
    assert host.granted(1, 2, 0) == (["a"], ["c"])
    assert host.slots.is_closed_to(("x",))


def test_a_request_that_came_after_the_claim_is_not_dropped() -> None:
    host = Host(queue=0)
    host.arrive("a")
    host.claim()
    host.arrive("b")
    host.slots.grant(Grant(0, 0, 0))
    assert host.dropped == ["b"], "one of the two was asked for"
    assert host.slots.waiting == 1
    assert host.granted(1, 0, 0) == (["a"], ["b"])


def test_a_place_that_is_given_back_is_not_used_before_the_answer() -> None:
    host = Host()
    host.arrive("a")
    host.granted(1, 0, 1)
    host.slots.free()
    assert host.changes[-1] is True
    assert host.claim() == PlaceClaim("up", 2, 2, 0, 0, True)
    assert not host.slots.take(), "the store may have granted it to others"
    host.slots.grant(Grant(0, 0, 2))
    assert host.slots.claim() is None


def test_a_place_is_used_again_by_a_request_that_waits_here() -> None:
    host = Host()
    for name in "abc":
        host.arrive(name)
    host.granted(1, 2, 0)
    host.claim()
    host.slots.free()
    assert host.entered == ["a", "b"]
    assert host.changes[-1] is False
    assert host.claim().has_begun


def test_no_request_begins_beyond_what_is_granted() -> None:
    host = Host(limit=4, queue=9)
    for name in "abcdef":
        host.arrive(name)
    host.granted(4, 2, 0)
    host.granted(2, 2, 0)
    for taken in (3, 2):
        host.slots.free()
        assert host.slots.taken == taken
        assert host.changes[-1] is True
    host.slots.free()
    assert host.slots.taken == 2


def test_one_that_leaves_the_queue() -> None:
    host = Host()
    wake = host.arrive
    host.slots.wait(host.changes.clear, ("x",))
    assert host.slots.waits
    assert host.slots.withdraw(host.changes.clear, ("x",))
    assert not host.slots.waits
    assert host.slots.claim() is None
    assert callable(wake)


def test_the_part_of_a_process_while_the_store_fails() -> None:
    host = Host(limit=5, queue=2)
    for name in "abcde":
        host.arrive(name)
    host.claim()
    host.slots.share(2)
    assert host.entered == ["a", "b"]
    assert host.slots.is_closed_to(("",))
    assert not host.arrive("f")
    assert host.claim() == PlaceClaim("up", 5, 2, 2, 0, False)
    host.slots.configure(9, 2)
    assert host.entered == ["a", "b", "c", "d"]
    host.slots.free()
    host.slots.free()
    host.slots.free()
    assert host.claim() == PlaceClaim("up", 9, 2, 4, 0, False), "it may use its part"
    host.slots.grant(Grant(2, 0, 3))
    host.arrive("g")
    assert host.claim() == PlaceClaim("up", 9, 2, 2, 1, True)


def test_a_limit_that_is_added_or_removed() -> None:
    host = Host(limit=0, queue=0)
    assert host.arrive("a")
    assert not host.slots.full
    assert host.slots.claim() is None
    host.slots.configure(1, 0)
    assert host.slots.full
    assert host.claim() == PlaceClaim("up", 1, 0, 1, 0, True)
    host.slots.grant(Grant(1, 0, 0))
    host.slots.configure(0, 0)
    assert host.arrive("b")
    assert host.claim() == PlaceClaim("up", 0, 0, 0, 0, True)
    host.slots.grant(Grant(0, 0, 0))
    assert host.arrive("c")
    assert host.entered == ["a", "b", "c"]

"""Places and their queue: never too many, in order, none lost."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from dragoman_server.routing.slots import Slots


class Guest:
    """A request at a provider, or in its queue."""

    def __init__(self) -> None:
        self.inside = False

    def wake(self) -> None:
        assert not self.inside
        self.inside = True


@given(st.integers(0, 4), st.integers(0, 4), st.lists(st.integers(0, 9), max_size=80))
def test_no_place_is_lost_and_none_is_taken_twice(limit: int, queue: int, steps: list[int]) -> None:
    slots = Slots(limit, queue)
    guests: list[Guest] = []
    for step in steps:
        inside = [guest for guest in guests if guest.inside]
        waiting = [guest for guest in guests if not guest.inside]
        if step <= 4:
            guest = Guest()
            refused = slots.closed
            if slots.take():
                guest.inside = True
            elif not slots.wait(guest.wake):
                assert refused
                continue
            assert not refused
            guests.append(guest)
        elif step <= 7 and inside:
            guests.remove(inside[0])
            slots.free()
            if waiting:
                assert waiting[0].inside  # the first of the queue
        elif waiting:
            last = waiting[-1]
            assert slots.withdraw(last.wake)
            guests.remove(last)
        assert slots.taken == sum(guest.inside for guest in guests)
        assert slots.waiting == len(guests) - slots.taken
        assert not limit or slots.taken <= limit
        assert slots.waiting <= queue
        assert not slots.waiting or slots.taken == limit


def test_a_place_that_came_too_late_is_given_back() -> None:
    slots, guest = Slots(1, 1), Guest()
    assert slots.take()
    assert slots.wait(guest.wake)
    slots.free()
    assert guest.inside
    assert not slots.withdraw(guest.wake)
    slots.free()
    assert slots.take()


def test_a_higher_limit_admits_those_that_wait() -> None:
    slots, guests = Slots(1, 3), [Guest(), Guest(), Guest()]
    assert slots.take()
    for guest in guests:
        assert slots.wait(guest.wake)
    slots.configure(3, 3)
    assert [guest.inside for guest in guests] == [True, True, False]
    slots.configure(0, 0)
    assert guests[2].inside
    assert not slots.full


class Order:
    """The order in which requests got a place, or were dropped."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.woken: list[str] = []
        self.dropped: list[str] = []
        self.wakes: dict[str, Callable[[], None]] = {}

    def wait(self, name: str) -> bool:
        self.wakes[name] = partial(self.woken.append, name)
        return self.slots.wait(self.wakes[name], name[0], partial(self.dropped.append, name))


def test_clients_take_turns() -> None:
    slots = Slots(1, 9)
    order = Order(slots)
    assert slots.take()
    for name in ("a1", "a2", "a3", "b1", "b2", "c1"):
        assert order.wait(name)
    for _ in range(6):
        slots.free()
    assert order.woken == ["a1", "b1", "c1", "a2", "b2", "a3"]
    assert not order.dropped


def test_a_client_that_fills_the_queue_makes_room_for_others() -> None:
    slots = Slots(1, 4)
    order = Order(slots)
    assert slots.take()
    assert all(order.wait(f"a{number}") for number in range(4))
    assert not order.wait("a4")
    assert slots.is_closed_to("a")
    assert not slots.is_closed_to("b")
    assert order.wait("b0")
    assert order.wait("b1")
    assert not order.wait("b2"), "both have as many"
    assert order.dropped == ["a3", "a2"]
    assert slots.waiting == 4
    # A request that was dropped has no place to give back.
    assert slots.withdraw(order.wakes["a3"], "a")
    assert slots.withdraw(order.wakes["b1"], "b")
    slots.free()
    assert (slots.taken, slots.waiting, order.woken) == (1, 2, ["a0"])

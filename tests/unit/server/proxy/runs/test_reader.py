"""A reader of another process's run."""

from __future__ import annotations

import pytest

from dragoman.threads import Unreadable
from dragoman_server.proxy.runs.interface import LEASE, Entry, Rest, Run, RunId
from dragoman_server.proxy.runs.reader import DROPPED, RunReader
from support.clocks import Clock

NAME = RunId("me", "resp_1")


def run(first: int, end: int, *, running: bool = True, reader: str = "") -> Run:
    return Run(running, False, reader, first, end, b"", b"")


def reader(number: int, mark: str = "", woken: list[None] | None = None) -> RunReader:
    wake = (woken if woken is not None else []).append
    return RunReader(NAME, number, mark, lambda _, __, data: data, lambda: wake(None))


async def test_it_takes_the_rest_of_an_entry() -> None:
    woken: list[None] = []
    each = reader(1, woken=woken)
    each.add(Rest(run(0, 5), [Entry(3, 3, b"a\n\nb\n\nc\n\n"), Entry(4, 1, b"d\n\n")]))
    assert not each.waits
    assert await each.next(60.0) == b"b\n\nc\n\nd\n\n"
    assert (each.waits, each.position.number, woken) == (True, 4, [None]), "there is more"
    each.add(Rest(run(0, 5, running=False), [Entry(5, 1, b"e\n\n")]))
    assert await each.next(60.0) == b"e\n\n"
    assert not each.is_over
    each.add(Rest(run(0, 5, running=False), []))
    assert await each.next(60.0) == b""
    assert (each.is_over, each.failure, len(woken)) == (True, "", 1)


async def test_it_waits_while_there_is_nothing() -> None:
    each = reader(0)
    each.add(Rest(run(0, 0), []))
    assert each.waits
    assert await each.next(0.001) == b""
    assert not each.is_over


async def test_another_key_ends_it() -> None:
    def fail(*_: object) -> bytes:
        raise Unreadable("it cannot be decrypted")

    each = RunReader(NAME, 0, "", fail, lambda: None)
    each.add(Rest(run(0, 1), [Entry(1, 1, b"x")]))
    assert await each.next(60.0) == b""
    assert "decrypted" in each.failure


@pytest.mark.parametrize("rest", [None, Rest(run(0, 9), [])], ids=["no run", "no events"])
async def test_it_waits_for_a_lease_for_what_the_store_has_lost(rest: Rest | None) -> None:
    clock = Clock()
    for is_back in (True, False):
        each = RunReader(NAME, 1, "", lambda _name, _what, data: data, lambda: None, clock)
        for _ in range(3):
            each.add(rest)
            clock.now += LEASE / 3 - 0.001
        assert not each.is_over
        if is_back:
            each.add(Rest(run(0, 2), [Entry(2, 2, b"a\n\nb\n\n")]))
            assert await each.next(60.0) == b"b\n\n"
            continue
        clock.now += 0.01
        each.add(rest)
        assert each.is_over
        assert each.failure in ("the store has lost the events", DROPPED)


async def test_it_ends_early() -> None:
    for rest, failure in (
        (Rest(run(2, 9), []), DROPPED),
        (Rest(run(0, 9), [Entry(9, 3, b"g\n\nh\n\ni\n\n")]), DROPPED),
        (Rest(run(0, 9, reader="other"), [Entry(9, 9, b"")]), "another client"),
    ):
        each = reader(1, "mine" if "client" in failure else "")
        each.add(rest)
        assert await each.next(60.0) == b""
        assert each.is_over
        assert failure in each.failure

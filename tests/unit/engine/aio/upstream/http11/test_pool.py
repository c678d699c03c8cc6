"""The pool of upstream connections: last in, first out; waiting in turn at a limit; nothing leaks."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from dragoman.aio.stream_timers import ClientGone
from dragoman.aio.upstream.http11.connection import Connection
from dragoman.errors import UpstreamTimeout, UpstreamUnreachable
from support.raw_connections import WHOLE, Bench, Wire, bench


class Later:
    """The loop, at another time."""

    def __init__(self, loop: Any, seconds: float) -> None:
        self._loop = loop
        self._seconds = seconds

    def time(self) -> float:
        """That time."""
        return float(self._loop.time() + self._seconds)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


async def used(made: Bench) -> Connection:
    """A connection on which a request was answered, not given back yet."""
    answer, connection = await made.answer(WHOLE)
    assert await answer.read(9) == b"ok"
    return connection


async def turns(count: int = 5) -> None:
    """Let tasks run."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until_dialled(made: Bench) -> None:
    """Go on at the very turn in which the connection is made."""
    for _ in range(20):
        if made.wires:
            return
        await asyncio.sleep(0)
    raise AssertionError("no connection was opened")


def wire(connection: Connection) -> Wire:
    """The other side of it."""
    return cast("Wire", connection._transport)


async def test_the_last_one_in_is_the_first_one_out() -> None:
    async with bench() as made:
        first, second, third = [await used(made) for _ in range(3)]
        for connection in (second, first, third):
            connection.release(finish=True)
        assert made.pool.busy == 0
        assert [made.pool.acquire_idle() for _ in range(4)] == [third, first, second, None]
        assert made.pool.busy == 3


@pytest.mark.parametrize("sign", ["bytes", "end", "closed", "expired"])
async def test_what_came_while_it_was_idle_is_seen_before_it_is_used(sign: str) -> None:
    """The kernel is asked: the loop may not have read it yet."""
    async with bench() as made:
        good, bad = await used(made), await used(made)
        good.release(finish=True)
        bad.release(finish=True)
        if sign == "bytes":
            wire(bad).far.send(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
        elif sign == "end":
            wire(bad).far.close()
        elif sign == "closed":
            wire(bad).lose()
        else:
            made.pool.loop = cast("asyncio.AbstractEventLoop", Later(made.pool.loop, 15.5))
        assert made.pool.acquire_idle() is (None if sign == "expired" else good)
        assert wire(bad).closed


async def test_unexpected_bytes_end_an_idle_connection() -> None:
    async with bench() as made:
        connection = await used(made)
        connection.release(finish=True)
        connection.data_received(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
        assert wire(connection).closed
        await turns()
        assert made.pool.acquire_idle() is None
        assert made.pool.unused


async def test_only_so_many_are_kept() -> None:
    async with bench(idle=2) as made:
        connections = [await used(made) for _ in range(4)]
        for connection in connections:
            connection.release(finish=True)
        assert [wire(connection).closed for connection in connections] == [False, False, True, True]


async def test_idle_ones_are_swept_away_in_time() -> None:
    async with bench() as made:
        old, young = await used(made), await used(made)
        pool, loop = made.pool, made.pool.loop
        old.release(finish=True)
        pool.loop = cast("asyncio.AbstractEventLoop", Later(loop, 10))
        young.release(finish=True)
        pool.loop = cast("asyncio.AbstractEventLoop", Later(loop, 16))
        pool._sweep()
        assert wire(old).closed
        assert not wire(young).closed
        assert pool._sweeper is not None
        assert pool._sweeper.when() == pytest.approx(loop.time() + 9, abs=0.5)
        pool._sweeper.cancel()
        pool.loop = cast("asyncio.AbstractEventLoop", Later(loop, 26))
        pool._sweep()
        assert wire(young).closed
        assert pool._sweeper is None


async def test_at_the_limit_they_wait_in_turn() -> None:
    async with bench(limit=2) as made:
        one, two = await used(made), await used(made)
        asking = [asyncio.create_task(made.connect()) for _ in range(3)]
        await turns()
        assert not any(task.done() for task in asking)
        one.release(finish=True)
        assert made.pool.acquire_idle() is None, "waiting requests are not overtaken"
        assert await asking[0] is one
        two.abort()
        fresh = await asking[1]
        assert fresh not in (one, two)
        assert not asking[2].done()
        fresh.release(finish=False)
        await asking[2]
        assert len(made.wires) == 4
        assert made.pool.busy == 2


@pytest.mark.parametrize("called", [True, False])
async def test_a_cancelled_waiter_wakes_the_next_one(called: bool) -> None:
    async with bench(limit=1) as made:
        one = await used(made)
        first, second = (asyncio.create_task(made.connect()) for _ in range(2))
        await turns()
        if called:
            one.release(finish=True)
        first.cancel()
        await turns()
        assert first.cancelled()
        if not called:
            one.release(finish=True)
        assert await second is one


async def test_a_freed_connection_may_be_taken_before_the_waiter_runs() -> None:
    async with bench(limit=1) as made:
        one = await used(made)
        asking = [asyncio.create_task(made.connect()) for _ in range(2)]
        await turns()
        one.release(finish=True)
        wire(one).far.send(b"x")
        first = await asking[0]
        assert first is not one
        assert not asking[1].done()
        first.release(finish=False)
        assert await asking[1] not in (one, first)


async def test_a_dial_that_fails_makes_room() -> None:
    async with bench(limit=1) as made:
        made.dialled.held = asyncio.Event()
        made.dialled.refused = 1
        first, second = (asyncio.create_task(made.connect()) for _ in range(2))
        await turns()
        made.dialled.held.set()
        with pytest.raises(UpstreamUnreachable, match="refused by the test"):
            await first
        assert (await second).was_connected
        assert made.pool.busy == 1


@pytest.mark.parametrize("when", ["dialling", "waiting", "connected"])
@pytest.mark.parametrize("how", ["cancelled", "failed"])
async def test_a_request_that_is_given_up_leaves_no_place_taken(when: str, how: str) -> None:
    async with bench(limit=1 if when == "waiting" else 0) as made:
        holder = await used(made) if when == "waiting" else None
        made.dialled.held = held = asyncio.Event()
        watch = made.watch()
        asking = asyncio.create_task(made.pool.acquire(5, watch))
        await turns()
        if when == "connected":
            held.set()
            await until_dialled(made)
        if how == "cancelled":
            asking.cancel()
        else:
            watch.expire(ClientGone())
        with pytest.raises(asyncio.CancelledError if how == "cancelled" else ClientGone):
            await asking
        await turns()
        assert made.pool.busy == (1 if holder else 0)
        if when == "connected":
            assert made.pool.acquire_idle() is not None, "its request was cancelled, so it is kept"


async def test_the_connect_timeout() -> None:
    async with bench() as made:
        made.dialled.held = asyncio.Event()
        with pytest.raises(UpstreamTimeout, match=r"0\.01 s \(connect\)"):
            await made.pool.acquire(0.01, made.watch())
        await turns()
        assert made.pool.unused


async def test_close_ends_whatever_goes_on() -> None:
    async with bench(limit=4) as made:
        idle, busy = await used(made), await used(made)
        answer, _ = await made.answer(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\no")
        reading = asyncio.create_task(answer.read(9))
        made.dialled.held = asyncio.Event()
        idle.release(finish=True)
        assert made.pool.acquire_idle() is idle
        idle.send(b"head", b"")
        asking = asyncio.create_task(made.connect())
        waiting = asyncio.create_task(made.connect())
        await turns()
        await made.pool.close()
        done = await asyncio.gather(reading, asking, waiting, idle.wait_for_head(), return_exceptions=True)
        assert [type(error).__name__ for error in done] == [
            "StreamTruncated", "UpstreamUnreachable", "UpstreamUnreachable", "StreamTruncated"
        ]  # fmt: skip
        assert all(each.closed for each in made.wires)
        assert wire(busy).closed
        with pytest.raises(UpstreamUnreachable, match="closed its connections"):
            await made.connect()
        await made.pool.close()

"""Laws of bounds that processes share: never more than the limit, no place is lost, none starves, all stores agree."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dragoman_server.proxy.shared_routing.interface import LEASE, RetryClaim, RoutingStore
from dragoman_server.routing.shared_slots import Grant, PlaceClaim, SharedSlots
from support.redis_server import RedisServer, redis_server
from support.routing_stores import KINDS, NO_RETRIES, MemoryRoutingStore, opened
from support.stores import Clock

SMALL = st.integers(0, 5)


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


# --- all stores decide alike ------------------------------------------------------------------------------------------

PROCESSES = ("a", "b", "c", "d")
CLAIMS = st.builds(
    PlaceClaim,
    st.sampled_from(("x", "y")),
    st.sampled_from((1, 2, 3, 8, 100)),
    st.sampled_from((0, 1, 3, 8)),
    SMALL,
    SMALL,
    st.booleans(),
)
RETRIES = st.builds(RetryClaim, SMALL, SMALL, SMALL, st.sampled_from((0.0, 0.2, 1.0)), SMALL)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.sampled_from((0.001, 0.3, 1.0, 2.5, 5.999, 6.0, 9.0, 30.0))),
        st.tuples(st.just("exchange"), st.sampled_from(PROCESSES), st.lists(CLAIMS, max_size=3), RETRIES),
    ),
    max_size=40,
)


async def course(store: RoutingStore, clock: Clock, steps: list[tuple[Any, ...]]) -> list[object]:
    """All that a store answers."""
    answers: list[object] = []
    for step in steps:
        match step:
            case ("wait", float(seconds)):
                clock.now = round(clock.now + seconds, 3)
            case ("exchange", str(process), list(claims), retries):
                answers.append(await store.exchange(process, claims, retries))
    return answers


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=STEPS)
def test_all_stores_decide_alike(redis: RedisServer, tmp_path: Path, steps: list[tuple[Any, ...]]) -> None:
    async def run() -> None:
        found = []
        for kind in KINDS:
            clock = Clock()
            async with opened(kind, clock, tmp_path, redis.url) as store:
                found.append(await course(store, clock, steps))
        assert found[1] == found[0]
        assert found[2] == found[0]

    asyncio.run(run())


# --- processes with requests ------------------------------------------------------------------------------------------


@dataclass
class Request:
    """A request that waits, is at the provider (`inside`), or was dropped."""

    inside: bool = False
    dropped: bool = False

    def enter(self) -> None:
        assert not self.inside
        assert not self.dropped
        self.inside = True

    def drop(self) -> None:
        self.dropped = True


@dataclass
class Process:
    """A process with its requests. Its call of the store may be under way."""

    name: str
    slots: SharedSlots
    store: MemoryRoutingStore
    requests: list[Request] = field(default_factory=list)
    answer: Grant | None = None
    is_calling: bool = False

    def arrive(self) -> Request:
        request = Request()
        if self.slots.take():
            request.inside = True
        elif not self.slots.wait(request.enter, (), request.drop):
            request.dropped = True
        self.requests.append(request)
        return request

    def finish(self) -> None:
        """The oldest request ends."""
        for each in self.requests:
            if each.inside:
                self.requests.remove(each)
                self.slots.free()
                return

    def forget(self) -> None:
        """The dropped ones leave."""
        for each in [each for each in self.requests if each.dropped]:
            self.requests.remove(each)
            self.slots.withdraw(each.enter)

    async def begin_call(self) -> None:
        """The store answers, and the answer is under way."""
        assert not self.is_calling
        claim = self.slots.claim()
        answer = await self.store.exchange(self.name, [claim] if claim is not None else [], NO_RETRIES)
        self.answer, self.is_calling = (answer.grants[0] if answer.grants else None), True

    def end_call(self) -> None:
        """The answer arrives."""
        if self.answer is not None:
            self.slots.grant(self.answer)
        self.answer, self.is_calling = None, False
        self.forget()

    async def call(self) -> None:
        if self.is_calling:
            self.end_call()
        await self.begin_call()
        self.end_call()

    @property
    def inside(self) -> int:
        return sum(each.inside for each in self.requests)

    @property
    def waiting(self) -> int:
        return sum(not (each.inside or each.dropped) for each in self.requests)


class World:
    """Some processes with a limit, a queue, a store and one clock."""

    def __init__(self, number: int, limit: int, queue: int) -> None:
        self.clock = Clock()
        self.limit = limit
        self.store = MemoryRoutingStore(self.clock)
        self.made = 0
        self.queue = queue
        self.alive = [self._process() for _ in range(number)]

    def _process(self) -> Process:
        self.made += 1
        slots = SharedSlots("x", self.limit, self.queue, _ignore, self.clock)
        return Process(str(self.made), slots, self.store)

    def kill(self, process: Process) -> None:
        """It ends with its requests; another one takes its place."""
        self.alive[self.alive.index(process)] = self._process()

    async def settle(self) -> None:
        """All call until nothing changes."""
        for _ in range(3 * len(self.alive) + 3):
            for each in self.alive:
                await each.call()

    @property
    def inside(self) -> int:
        return sum(each.inside for each in self.alive)


def _ignore(_: bool) -> None:
    pass


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(("arrive", "arrive", "finish", "begin", "end", "call", "kill", "wait")), st.integers(0, 3)
    ),
    max_size=80,
)


GIVEN_BACK = [
    *(("arrive", 0), ("call", 0), ("finish", 0), ("begin", 0)),
    *(("arrive", 0), ("arrive", 1), ("call", 1)),
]
"""A place is given back, and wanted again while the call is under way."""


@example(GIVEN_BACK, 2, 1, 1)
@given(ACTIONS, st.integers(1, 4), st.integers(1, 5), st.integers(0, 4))
def test_the_limit_holds_whatever_is_under_way(
    actions: list[tuple[str, int]], number: int, limit: int, queue: int
) -> None:
    async def run() -> None:
        world = World(number, limit, queue)
        for action, at in actions:
            process = world.alive[at % number]
            if action == "arrive":
                process.arrive()
            elif action == "finish":
                process.finish()
            elif action == "begin" and not process.is_calling:
                await process.begin_call()
            elif action == "end" and process.is_calling:
                process.end_call()
            elif action == "call":
                await process.call()
            elif action == "kill":
                world.kill(process)
            elif action == "wait":
                world.clock.now += LEASE / 3
                for each in world.alive:
                    await each.call()
            assert world.inside <= limit
        # The places of killed processes come back, and none is lost: none is free while requests wait.
        for _ in range(4):
            world.clock.now += LEASE / 3
            await world.settle()
        waiting = sum(each.waiting for each in world.alive)
        assert world.inside <= limit
        assert waiting <= queue
        assert not waiting or world.inside == limit
        # All requests come to an end.
        for _ in range(limit + waiting):
            for each in world.alive:
                each.finish()
                await world.settle()
        assert not sum(len(each.requests) for each in world.alive)

    asyncio.run(run())


@given(st.integers(2, 5), st.integers(1, 4), st.randoms(use_true_random=False))
def test_no_process_starves(number: int, limit: int, random: Any) -> None:
    """All but the last have requests without an end. Those of the last process enter all the same, each in its turn."""

    async def run() -> None:
        world = World(number, limit, 4 * number)
        *greedy, last = world.alive
        for each in greedy:
            for _ in range(limit + 3):
                each.arrive()
        await world.settle()
        for _ in range(3):
            request = last.arrive()
            await last.call()
            assert not request.dropped, "the others make room in the queue"
            turns = 0
            while not request.inside:
                assert turns < 4 * number * limit, "it waits for too long"
                turns += 1
                if busy := [each for each in greedy if each.inside]:
                    one = random.choice(busy)
                    one.finish()
                    one.arrive()
                for each in random.sample(world.alive, number):
                    await each.call()
                    assert world.inside <= limit
            last.finish()

    asyncio.run(run())

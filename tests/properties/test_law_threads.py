"""Law: a response's payload follows from its path alone, in each dialect, whatever else is in the store.

Random conversations of several owners grow, branch, go back, are compacted, lose responses and expire. Each payload is
compared with one that is made of the items of the path, which the test keeps itself; and no owner sees a response of
another.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dragoman import direction, translate
from dragoman.dialects import Dialect
from dragoman.reasoning.compacted_history import HEADING, summary_message
from dragoman.threads import Compaction, NotStored, Store, StoreError, Thread, ThreadLimits
from dragoman.wire import json_dumps, json_loads
from support.postgres_server import PostgresServer, postgres_server
from support.redis_server import RedisServer, redis_server
from support.stores import Clock
from support.thread_stores import assistant, opened, server_url, user

OWNERS = ("a", "b")
TTL = 100.0
NEXT = user("and now?")


def turn(text: str, kind: int) -> tuple[list[Any], list[Any]]:
    """The input and the output of a response: texts, or a call and, in the next one, its result."""
    if kind == 0:
        return [user(text)], [assistant(text.upper())]
    call = {"type": "function_call", "call_id": f"call_{text}", "name": "look", "arguments": '{"at":1}'}
    result = {"type": "function_call_output", "call_id": f"call_{text}", "output": text}
    if kind == 1:
        return [user(text)], [call]
    return [user(text), call, result], [assistant(text.upper())]


def is_asked(item: Any) -> bool:
    """True for a message that the user wrote."""
    return bool(item.get("role") == "user" and not item["content"].startswith(HEADING))


def compacted(items: list[Any], summary: str) -> list[Any] | None:
    """Return what is left of short items: the user's messages, a summary of the others, and the items after the last
    message.

    If there are no others, those are summarised too, unless it is a call without its result. None if nothing is.
    """
    last = max(place for place, item in enumerate(items) if is_asked(item))
    newest = items[last + 1 :]
    if all(map(is_asked, items[:last])):
        if not newest or newest[-1]["type"] == "function_call":
            return None
        newest = []
    return [*filter(is_asked, items[:last]), summary_message(summary), items[last], *newest]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from(OWNERS), st.integers(0, 20), st.integers(0, 2)),
        st.tuples(st.just("fork"), st.sampled_from(OWNERS), st.integers(0, 20), st.integers(0, 20)),
        st.tuples(st.just("rollback"), st.sampled_from(OWNERS), st.integers(0, 20), st.integers(0, 3)),
        st.tuples(st.just("compact"), st.sampled_from(OWNERS), st.integers(0, 3)),
        st.tuples(st.just("delete"), st.sampled_from(OWNERS), st.integers(0, 20)),
        st.tuples(st.just("wait"), st.sampled_from((1.0, 30.0, 60.0, 101.0))),
    ),
    max_size=25,
)


_GROWN: list[Any] = [("append", "a", 0, kind) for kind in (0, 2, 1, 0)]
COMPACTED: list[Any] = [
    *_GROWN,
    ("fork", "a", 0, 1),
    ("compact", "a", 0),
    *_GROWN,
    ("compact", "a", 0),
    ("fork", "a", 0, 4),
    ("append", "a", 2, 0),
    ("rollback", "a", 0, 1),
    ("append", "a", 0, 0),
    ("compact", "a", 1),
    ("append", "b", 0, 0),
]
"""A conversation that is compacted twice, with branches before, between and after."""


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@dataclass
class Known:
    """A response as the test knows it: its path's items, and the root of its conversation."""

    owner: str
    root: str
    path: tuple[str, ...]
    items: list[Any]


@dataclass
class World:
    """The test's own record of the store."""

    store: Store
    clock: Clock
    numbers: Iterator[int]
    nodes: dict[str, Known] = field(default_factory=dict)
    expires: dict[str, float] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    threads: list[Thread] = field(default_factory=list)

    def has(self, name: str) -> bool:
        return name not in self.deleted and self.expires[self.nodes[name].root] > self.clock.now

    def has_path(self, name: str) -> bool:
        return all(map(self.has, self.nodes[name].path))

    def thread(self, owner: str, number: int) -> Thread:
        """One of the owner's threads, or a new one."""
        own = [thread for thread in self.threads if thread.owner == owner]
        if number < len(own):
            return own[number]
        thread = Thread(self.store, owner, new_id=lambda: f"resp_{next(self.numbers)}")
        self.threads.append(thread)
        return thread

    async def append(self, owner: str, number: int, kind: int) -> None:
        thread = self.thread(owner, number)
        head = thread.head
        before = self.nodes[head] if head is not None else None
        given, output = turn(f"t{len(self.nodes)}", kind)
        if head is not None and not self.has(head):
            with pytest.raises(NotStored):
                await thread.append(given, output)
            assert thread.head == head
            return
        name = await thread.append(given, output)
        assert thread.head == name
        root, path = (before.root, before.path) if before is not None else (name, ())
        items = [*(before.items if before is not None else []), *given, *output]
        self.nodes[name] = Known(owner, root, (*path, name), items)
        self.expires[root] = self.clock.now + TTL

    async def fork(self, owner: str, number: int, at: int) -> None:
        thread = self.thread(owner, number)
        if thread.head is None or not self.has_path(thread.head):
            return
        path = self.nodes[thread.head].path
        self.threads.append(await thread.fork(path[at % len(path)]))

    async def rollback(self, owner: str, number: int, steps: int) -> None:
        thread = self.thread(owner, number)
        if thread.head is None or not self.has_path(thread.head):
            return
        path = self.nodes[thread.head].path
        if steps > len(path):
            with pytest.raises(ValueError, match="cannot go back"):
                await thread.rollback(steps)
            return
        await thread.rollback(steps)
        left = path[: len(path) - steps]
        assert thread.head == (left[-1] if left else None)

    async def compact(self, owner: str, number: int) -> None:
        thread = self.thread(owner, number)
        head = thread.head
        if head is None or not self.has_path(head):
            return
        before, summary = self.nodes[head], f"summary {len(self.nodes)}"

        async def summarise(_: Compaction) -> str:
            return summary

        left = compacted(before.items, summary)
        found = await thread.compact(summarise)
        if left is None:
            assert (found, thread.head) == (None, head)
            return
        name = thread.head
        assert found is not None
        assert name is not None
        self.nodes[name] = Known(owner, before.root, (*before.path, name), left)
        self.expires[before.root] = self.clock.now + TTL

    async def delete(self, owner: str, number: int) -> None:
        names = [name for name, known in self.nodes.items() if known.owner == owner]
        if names:
            name = names[number % len(names)]
            assert await self.store.delete(owner, name) == self.has(name)
            self.deleted.add(name)

    async def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    async def check(self) -> None:
        """Compare every response with the record."""
        for name, known in self.nodes.items():
            other = OWNERS[1 - OWNERS.index(known.owner)]
            assert await self.store.get(other, name) is None
            assert await self.store.path(other, name) is None
            assert (await self.store.get(known.owner, name) is not None) == self.has(name)
            thread = Thread(self.store, known.owner, name)
            if not self.has_path(name):
                with pytest.raises(StoreError):
                    await thread.payload("chat", "m", input=[NEXT])
                continue
            body = json_dumps({"model": "m", "input": [*known.items, NEXT], "store": False})
            for dialect in Dialect:
                alone = translate(direction("responses", dialect), body)
                assert await thread.payload(dialect, "m", input=[NEXT]) == json_loads(alone.body)


@pytest.mark.parametrize("kind", ["memory", "sqlite-in-memory", "sqlite", "redis", "postgres"])
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
@example(steps=COMPACTED)
def test_a_payload_follows_from_its_path_alone(
    kind: str, steps: list[tuple[Any, ...]], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = server_url(kind, request)

    async def run() -> None:
        clock = Clock()
        async with opened(kind, clock, tmp_path, ThreadLimits(ttl=TTL), url) as store:
            world = World(store, clock, iter(range(10**6)))
            for name, *values in steps:
                await getattr(world, name)(*values)
            await world.check()

    asyncio.run(run())


def test_the_turns_are_valid_conversations() -> None:
    items = [item for kind in range(3) for part in turn(f"x{kind}", kind) for item in part]
    assert json.loads(json.dumps(items)) == items

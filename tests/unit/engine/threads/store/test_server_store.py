"""The reads that stores in a server have in common. Their queries are tested by the interface's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from dragoman.threads.limits import ThreadLimits
from dragoman.threads.node import Outline
from dragoman.threads.store.node_data import PlainData
from dragoman.threads.store.redis_connection import RedisConnection
from dragoman.threads.store.server_store import ServerStore, name_bytes, read_name
from support.thread_stores import ids, node

PATH = [Outline("a", "a", None, 1, 10), Outline("b", "a", "a", 2, 10), Outline("c", "a", "b", 3, 10)]


class Client:
    """A connection whose clients are numbered."""

    calls = 0

    @asynccontextmanager
    async def call(self) -> AsyncIterator[int]:
        """Yield the number of the call."""
        self.calls += 1
        yield self.calls


class Scripted(ServerStore[RedisConnection]):
    """A store that has `PATH` without the nodes of `gone`."""

    READ_NODES = 2

    def __init__(self, *gone: str) -> None:
        super().__init__(cast("RedisConnection", Client()), ThreadLimits(), None, None)
        self.gone = gone
        self.reads: list[tuple[int, list[str]]] = []
        self.expired = [3, 1]

    async def _path(self, client: Any, owner: str, node_id: str) -> list[Outline]:
        return PATH

    async def _tree(self, client: Any, owner: str, node_id: str, depth: int) -> list[Outline]:
        return PATH[:depth]

    async def _contents(self, client: Any, owner: str, outlines: Sequence[Outline]) -> Sequence[bytes | None]:
        names = [each.id for each in outlines]
        self.reads.append((client, names))
        return [None if name in self.gone else PlainData().encode(node(owner, name)) for name in names]

    async def _expire_some(self) -> int:
        return self.expired.pop(0) if self.expired else 0


async def test_a_path_is_read_in_parts_by_one_call() -> None:
    store = Scripted()
    assert ids(await store.path("k", "c")) == ["a", "b", "c"]
    assert store.reads == [(1, ["a", "b"]), (1, ["c"])]


async def test_a_path_with_a_hole_is_none_and_a_tree_is_what_is_left() -> None:
    store = Scripted("b")
    assert await store.path("k", "c") is None
    assert ids(await store.tree("k", "c")) == ["a", "c"]
    assert ids(await store.nodes("k", PATH[1:])) == ["c"]
    assert await store.tree_outline("k", "c", 2) == PATH[:2]


async def test_all_that_has_expired_is_removed_in_pieces() -> None:
    assert await Scripted().expire() == 4


def test_names_keep_all_bytes() -> None:
    assert read_name(name_bytes("ü\udcff")) == "ü\udcff"
    assert name_bytes("\udcff") == b"\xff"

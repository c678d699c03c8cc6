"""The store in memory reads the time from its clock."""

from __future__ import annotations

from dragoman.threads import MemoryStore, ThreadLimits
from support.stores import Clock
from support.thread_stores import node


async def test_what_was_stored_before_it_was_closed_is_there_when_it_is_opened_again() -> None:
    clock = Clock()
    store = MemoryStore(ThreadLimits(ttl=60.0), clock)
    await store.open()
    await store.put(node("k", "a"))
    await store.close()
    await store.open()
    assert await store.get("k", "a") is not None
    clock.now += 60.0
    assert await store.get("k", "a") is None

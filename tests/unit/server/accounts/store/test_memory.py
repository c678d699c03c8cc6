"""The bounds of the store in memory."""

from __future__ import annotations

import pytest

from dragoman_server.accounts.limits.claim import KEPT_MS, Claim
from dragoman_server.accounts.store import memory
from dragoman_server.accounts.store.memory import MemoryAccountStore
from support.claims import claim_on, settlement_on
from support.stores import Clock


def claim(key: str, lease: str = "1") -> Claim:
    return claim_on(key, lease, 0, (("requests", 1, 1),))


async def test_the_counters_that_were_used_the_longest_ago_are_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "STATES_MAX", 3)
    store = MemoryAccountStore(Clock())
    for key in "abc":
        assert not (await store.admit(claim(key))).rejected
    assert (await store.admit(claim("a"))).rejected  # used again, so `b` is the oldest
    assert not (await store.admit(claim("d"))).rejected
    assert (await store.admit(claim("a"))).rejected
    assert not (await store.admit(claim("b"))).rejected


async def test_marks_of_settlements_are_dropped_in_the_end() -> None:
    clock = Clock()
    store = MemoryAccountStore(clock)
    for number in range(10):
        await store.settle([settlement_on("a", str(number), False)])
    assert len(store._settled) == 10
    clock.now += KEPT_MS / 1000 + 1
    await store.settle([settlement_on("a", "last", False)])
    assert len(store._settled) == 1


async def test_leases_that_were_never_settled_are_dropped() -> None:
    clock = Clock()
    store = MemoryAccountStore(clock)
    for number in range(10):
        await store.admit(claim_on("a", str(number)))
    clock.now += KEPT_MS / 1000 + 61
    assert (await store.admit(claim_on("a", "last"))).open == 1
    assert len(store._accounts["a"].leases) == 1

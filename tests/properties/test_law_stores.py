"""Law: all stores decide alike. Any course of requests has the same outcomes in memory, in SQLite and in Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman_server.accounts.store.interface import AccountStore, Lease
from support.claims import BucketPart, BudgetPart, claim_on, settlement_on
from support.redis_server import RedisServer, redis_server
from support.stores import KINDS, Clock, opened

KEYS, PERIODS = ("a", "b"), ("2026-11-22", "2026-11-23", "2026-11", "2026-12", "2027-01")
"""The periods of settlements; those of claims are the stores'."""
HOLDS = st.one_of(st.just(0), st.integers(0, 50), st.integers(0, 10**10))
AMOUNTS = st.one_of(st.integers(0, 50), st.integers(0, 10**10))
SIGNED = st.one_of(st.integers(-60, 60), st.integers(-(10**10), 10**10))


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


def parts(
    amounts: st.SearchStrategy[int],
) -> st.SearchStrategy[tuple[tuple[BucketPart, ...], tuple[BudgetPart, ...]]]:
    limits = st.sampled_from((1, 7, 40, 10**10))
    buckets = st.lists(
        st.tuples(st.sampled_from(("requests", "tokens")), limits, amounts),
        max_size=2,
        unique_by=lambda part: part[0],
    )
    budgets = st.lists(
        st.tuples(st.sampled_from(("daily_tokens", "monthly_cost")), st.sampled_from(PERIODS), limits, amounts, HOLDS),
        max_size=2,
        unique_by=lambda part: part[0],
    )
    return st.tuples(buckets.map(tuple), budgets.map(tuple))


LEASES = st.integers(0, 12).map(str)
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("wait"),
            st.sampled_from((0.001, 0.5, 20.0, 59.0, 61.0, 3000.0, 4000.0, 86_400.0, 9 * 86_400.0)),
        ),
        st.tuples(st.just("admit"), st.sampled_from(KEYS), LEASES, st.integers(0, 3), parts(AMOUNTS)),
        st.tuples(st.just("settle"), st.sampled_from(KEYS), LEASES, st.booleans(), parts(SIGNED)),
        st.tuples(st.just("renew"), st.sampled_from(KEYS), LEASES),
    ),
    max_size=30,
)


async def course(store: AccountStore, clock: Clock, steps: list[tuple[Any, ...]]) -> list[object]:
    """All that a store answers."""
    answers: list[object] = []
    for step in steps:
        match step:
            case ("wait", float(seconds)):
                clock.now += seconds
            case ("admit", str(key), str(lease), int(concurrent), (buckets, budgets)):
                claim = claim_on(key, lease, concurrent, buckets, budgets)
                claim.holds_less = lease in ("0", "1", "2")
                outcome = await store.admit(claim)
                answers.append((outcome, outcome.held, outcome.at))
            case ("settle", str(key), str(lease), bool(granted), (buckets, budgets)):
                await store.settle([settlement_on(key, lease, granted, buckets, budgets)])
            case ("renew", str(key), str(lease)):
                await store.renew([Lease(key, lease)])
    answers += [await store.spent(key) for key in KEYS]
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

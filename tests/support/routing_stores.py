"""The stores of shared routing for tests, on a clock that the test moves: one in memory, SQLite and Redis."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from dragoman_server.proxy.shared_routing.interface import (
    ISSUER_SECONDS,
    LEASE,
    RUN_SECONDS,
    TAKEN_SECONDS,
    Answer,
    RetryClaim,
    RoutingStore,
    StoreError,
)
from dragoman_server.proxy.shared_routing.law import Holder, decide, grant_retries
from dragoman_server.proxy.shared_routing.redis import RedisRoutingStore
from dragoman_server.proxy.shared_routing.sqlite import SqliteRoutingStore
from dragoman_server.routing.shared_slots import Grant, PlaceClaim
from support.stores import Clock

KINDS = ("memory", "sqlite", "redis")
NO_RETRIES = RetryClaim(0, 0, 0, 0.2, 3)
_PREFIXES = itertools.count()


class MemoryRoutingStore:
    """The law alone, for processes that a test plays. It raises StoreError as long as `fails` is set.

    `calls` counts the exchanges.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}
        self._held: dict[tuple[str, str], tuple[Holder, float]] = {}
        self._turn = 0
        self._retries: dict[int, tuple[int, int]] = {}
        self._issuers: dict[tuple[str, str], tuple[str, float]] = {}
        self._runs: dict[tuple[str, str], tuple[str, float]] = {}
        self._taken: dict[tuple[str, str], float] = {}
        self.calls = 0
        self.fails = False

    async def open(self) -> None:
        """Nothing."""

    async def close(self) -> None:
        """Nothing."""

    def _check(self) -> float:
        if self.fails:
            raise StoreError("it fails")
        return self._clock()

    async def exchange(self, process: str, claims: Sequence[PlaceClaim], retries: RetryClaim) -> Answer:
        now = self._check()
        self.calls += 1
        self._until = {name: until for name, until in self._until.items() if until > now} | {process: now + LEASE}
        grants = [self._claim(process, claim, now) for claim in claims]
        second = int(now)
        granted, requests, made = grant_retries(retries, self._retries, second)
        before = self._retries.get(second, (0, 0))
        self._retries[second] = before[0] + requests, before[1] + made
        return Answer(len(self._until), granted, grants)

    def _claim(self, process: str, claim: PlaceClaim, now: float) -> Grant:
        self._held = {name: each for name, each in self._held.items() if each[1] > now}
        own = self._held.pop((claim.provider, process), None)
        others = [holder for (provider, _), (holder, _) in self._held.items() if provider == claim.provider]
        after, grant = decide(claim, own[0] if own is not None else None, others, self._turn + 1)
        if after is not None:
            self._turn = max(self._turn, after.turn)
            self._held[claim.provider, process] = after, now + LEASE
        return grant

    async def keep_issuer(self, owner: str, response: str, issuer: str) -> None:
        self._issuers[owner, response] = issuer, self._check() + ISSUER_SECONDS

    async def find_issuer(self, owner: str, response: str) -> str | None:
        now = self._check()
        found, until = self._issuers.get((owner, response), ("", 0.0))
        if until <= now:
            return None
        self._issuers[owner, response] = found, now + ISSUER_SECONDS
        return found

    async def keep_run(self, owner: str, response: str, record: str) -> None:
        self._runs[owner, response] = record, self._check() + RUN_SECONDS

    async def take_run(self, owner: str, response: str) -> str | None:
        now, key = self._check(), (owner, response)
        record, until = self._runs.get(key, ("", 0.0))
        if until <= now or self._taken.get(key, 0.0) > now:
            return None
        self._taken[key] = now + TAKEN_SECONDS
        return record

    async def end_run(self, owner: str, response: str) -> None:
        self._check()
        self._runs.pop((owner, response), None)
        self._taken.pop((owner, response), None)


@asynccontextmanager
async def opened(kind: str, clock: Clock, folder: Path, url: str = "") -> AsyncIterator[RoutingStore]:
    """An open store of this kind, which is empty; `url` is that of a Redis."""
    store: RoutingStore
    if kind == "redis":
        store = RedisRoutingStore(url, prefix=f"test-{next(_PREFIXES)}", timeout=5.0, clock=clock)
    elif kind == "sqlite":
        store = SqliteRoutingStore(str(folder / f"routing-{next(_PREFIXES)}.db"), timeout=5.0, clock=clock)
    else:
        store = MemoryRoutingStore(clock)
    await store.open()
    try:
        yield store
    finally:
        await store.close()

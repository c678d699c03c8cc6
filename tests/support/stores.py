"""The three stores for tests, on a clock that the test moves."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from dragoman_server.accounts.store.interface import AccountStore
from dragoman_server.accounts.store.memory import MemoryAccountStore
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.accounts.store.redis import RedisAccountStore
from dragoman_server.accounts.store.sqlite import SqliteAccountStore

KINDS = ("memory", "sqlite", "redis")
_PREFIXES = itertools.count()


@dataclass
class Clock:
    """Unix seconds that stand still: by default in the forenoon of 2026-11-22."""

    now: float = 1_795_341_600.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def opened(kind: str, clock: Clock, folder: Path, url: str = "") -> AsyncIterator[AccountStore]:
    """An open store of this kind, which is empty; `url` is that of a Redis."""
    store: AccountStore
    if kind == "redis":
        options = StoreOptions(kind, url=url, prefix=f"test-{next(_PREFIXES)}", timeout=5.0)
        store = RedisAccountStore(options, clock)
    elif kind == "sqlite":
        path = folder / f"store-{next(_PREFIXES)}.db"
        store = SqliteAccountStore(StoreOptions(kind, path=str(path), timeout=5.0), clock)
    else:
        store = MemoryAccountStore(clock)
    await store.open()
    try:
        yield store
    finally:
        await store.close()

"""The store that a configuration names."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from dragoman_server.accounts.store.interface import AccountStore
from dragoman_server.accounts.store.memory import MemoryAccountStore
from dragoman_server.accounts.store.options import SQLITE, StoreOptions
from dragoman_server.config.store_urls import POSTGRES, REDIS

if TYPE_CHECKING:
    from dragoman_server.accounts.store.postgres import PostgresKeyStore


def create_key_store(options: StoreOptions, *, read_only: bool = False) -> PostgresKeyStore | None:
    """Return the store of the keys, which is not open yet; None if that of the limits holds them."""
    if options.kind != POSTGRES:
        return None
    from dragoman_server.accounts.store.postgres import PostgresKeyStore

    return PostgresKeyStore(options, read_only=read_only)


def create_store(
    options: StoreOptions, now: Callable[[], float] = time.time, *, read_only: bool = False
) -> AccountStore:
    """Return the store of limits of these options, which is not open yet.

    With `read_only` only its keys and budgets are read. `now` returns Unix seconds; Redis has a clock of its own, which
    all its gateways share.
    """
    options = options.for_limits()
    # Imported here, as most gateways need neither: they take 0.2 and 0.6 MB of memory, and redis 8 MB more.
    if options.kind == REDIS:
        from dragoman_server.accounts.store.redis import RedisAccountStore

        return RedisAccountStore(options)
    if options.kind == SQLITE:
        from dragoman_server.accounts.store.sqlite import SqliteAccountStore

        return SqliteAccountStore(options, now, read_only=read_only)
    return MemoryAccountStore(now)

"""The store that a configuration names."""

from __future__ import annotations

from dragoman_server.accounts.store.interface import Store
from dragoman_server.accounts.store.memory import MemoryStore
from dragoman_server.accounts.store.options import REDIS, SQLITE, StoreOptions


def create_store(options: StoreOptions) -> Store:
    """Return the store of these options, which is not open yet."""
    # Imported here: most gateways need neither module.
    if options.kind == REDIS:
        from dragoman_server.accounts.store.redis import RedisStore

        return RedisStore(options)
    if options.kind == SQLITE:
        from dragoman_server.accounts.store.sqlite import SqliteStore

        return SqliteStore(options)
    return MemoryStore()

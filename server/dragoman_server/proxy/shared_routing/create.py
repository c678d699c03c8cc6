"""The store of shared routing that a configuration names."""

from __future__ import annotations

from dragoman_server.accounts.store.options import SQLITE, StoreOptions
from dragoman_server.config.file_paths import NOT_FILES
from dragoman_server.config.store_urls import REDIS
from dragoman_server.proxy.shared_routing.interface import RoutingStore


def create_routing_store(options: StoreOptions) -> RoutingStore | None:
    """Return the store of these options, which is not open yet; None if processes share none."""
    if options.kind == REDIS:
        from dragoman_server.proxy.shared_routing.redis import RedisRoutingStore

        named = options.redis_setting
        return RedisRoutingStore(options.url, prefix=options.prefix, timeout=options.timeout, setting=named)
    if options.kind == SQLITE and options.path not in NOT_FILES:
        from dragoman_server.proxy.shared_routing.sqlite import SqliteRoutingStore

        # A file of its own: claims of keys do not wait for its changes.
        return SqliteRoutingStore(f"{options.path}-routing", timeout=options.timeout)
    return None

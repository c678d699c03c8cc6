"""The shared hosts of a configuration."""

from __future__ import annotations

from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.config.store_urls import REDIS
from dragoman_server.observability.metric_families import Totals
from dragoman_server.proxy.hosts.interface import HostStore
from dragoman_server.proxy.hosts.shared_hosts import SharedHosts


def create_hosts(
    options: StoreOptions, host: str, gateway: str, totals: Totals, *, shares_receipts: bool = True
) -> SharedHosts:
    """Return the part of this process in a store that is not in memory. It is not open yet.

    The arguments are those of `SharedHosts`; the options may switch receipts off, too.
    """
    shares = shares_receipts and options.receipts > 0
    return SharedHosts(_create(options), host, gateway, totals, shares_receipts=shares)


def _create(options: StoreOptions) -> HostStore:
    kept = options.receipts or 1.0
    if options.kind == REDIS:
        from dragoman_server.proxy.hosts.redis import RedisHostStore

        named = options.redis_setting
        return RedisHostStore(options.url, kept=kept, prefix=options.prefix, timeout=options.timeout, setting=named)
    from dragoman_server.proxy.hosts.sqlite import SqliteHostStore

    # A file of its own: its changes do not wait for the disk, and no limit waits for them.
    return SqliteHostStore(f"{options.path}-hosts", kept=kept, timeout=options.timeout)

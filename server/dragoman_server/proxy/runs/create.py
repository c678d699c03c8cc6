"""The shared runs of a configuration."""

from __future__ import annotations

from pathlib import Path

from dragoman.threads import NodeCipher, StoreError
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.state_options import SQLITE, StateOptions
from dragoman_server.config.store_urls import POSTGRES, REDIS
from dragoman_server.proxy.runs.interface import RunStore
from dragoman_server.proxy.runs.shared_runs import SharedRuns


async def open_runs(options: StateOptions) -> SharedRuns:
    """Return the runs that are shared through the store of responses. Raises ConfigError if it cannot be used."""
    cipher = NodeCipher(options.encryption_key.reveal()) if options.encryption_key is not None else None
    runs = SharedRuns(_create(options), options.ttl, cipher)
    try:
        if options.kind == SQLITE and not options.path:
            Path(options.file).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        await runs.open()
    except (OSError, StoreError) as error:
        raise ConfigError("state", str(error)) from None
    return runs


def _create(options: StateOptions) -> RunStore:
    if options.kind in (REDIS, POSTGRES):
        from dragoman_server.proxy.runs.redis import RedisRunStore

        url, setting = (options.url, "state.url") if options.kind == REDIS else (options.runs_url, "state.runs_url")
        return RedisRunStore(url, prefix=options.prefix, timeout=options.timeout, setting=setting)
    from dragoman_server.proxy.runs.sqlite import SqliteRunStore

    # A file of its own: its changes do not wait for the disk, and no conversation waits for them.
    return SqliteRunStore(f"{options.file}-runs", timeout=options.timeout)

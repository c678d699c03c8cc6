"""Named keys for tests: a configuration with some of them, and the keys themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dragoman.dialects import Dialect
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.accounts.keys.secret import KeyHash, new_key
from dragoman_server.accounts.limits.key_limits import KeyLimits
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.config.schema import Config
from support.gateways import Gate, config_for


def made(name: str = "alice", *, key: str = "", **fields: Any) -> tuple[str, KeyRecord]:
    """A key and its record; limits are given by their names."""
    key = key or new_key()
    of_record = {
        field: fields.pop(field) for field in ("models", "expires", "admin", "capture", "tag") if field in fields
    }
    return key, KeyRecord(name, KeyHash.of(key), limits=KeyLimits(**fields), **of_record)


def with_keys(config: Config, *records: KeyRecord, store: StoreOptions | None = None) -> Config:
    """The configuration with these named keys."""
    return replace(config, keys={record.name: record for record in records}, store=store or config.store)


def keyed(url: str, dialect: Dialect, *records: KeyRecord, store: StoreOptions | None = None, **server: Any) -> Config:
    """One upstream for every model name, and these keys."""
    return with_keys(config_for(url, dialect, **server), *records, store=store)


async def spent(entrance: Gate, record: KeyRecord) -> dict[str, int]:
    """Return what a gateway's store has counted for a key, once all settlements have arrived."""
    accounts = entrance.gateway.services.named_keys.accounts
    assert accounts is not None
    await accounts._settlements.flush(5)
    return {each.name: each.amount for each in await accounts._store.spent(record.id)}

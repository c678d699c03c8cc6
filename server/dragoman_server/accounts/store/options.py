"""The table `[store]` of the configuration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from dragoman.gateway import changed_fields
from dragoman_server.config.config_error import Problem
from dragoman_server.config.setting import Above, Range, Words, setting, setting_problems
from dragoman_server.config.store_urls import POSTGRES, REDIS, is_prefix, redis_problems, url_problems

MEMORY, SQLITE = "memory", "sqlite"
KINDS = (MEMORY, SQLITE, REDIS, POSTGRES)
OPEN, CLOSED = "open", "closed"
ON_FAILURE = (OPEN, CLOSED)
RESERVE_MAX = 10_000_000
"""Most tokens that are reserved for one reply."""


@dataclass(frozen=True)
class StoreOptions:
    """Where limits, budgets and keys are kept."""

    __repr__ = changed_fields

    kind: str = setting(MEMORY, Words(KINDS, "store"))
    """memory: in this process. sqlite: in a file. redis: in Redis or Valkey, for many machines. postgresql: keys in
    PostgreSQL, and limits in the Redis of limits_url."""
    path: str = setting("dragoman.db", getter="file_path")
    """sqlite: the file, relative to the configuration's file."""
    url: str = setting("", getter="address", shown=False)
    """redis: redis://:PASSWORD@HOST:6379/0, rediss:// with TLS, unix://PATH, redis+sentinel:// or redis+cluster://.
    postgresql: postgresql://USER:PASSWORD@HOST:5432/DATABASE."""
    limits_url: str = setting("", getter="address", shown=False)
    """postgresql: the URL of a Redis, for limits, budgets and pauses of providers."""
    prefix: str = setting("dragoman")
    """redis: the start of the names of its keys. postgresql: the schema. Gateways with the same prefix share them."""
    timeout: float = setting(0.25, Above("seconds", 10))
    """Seconds that one call may take."""
    on_failure: str = setting(OPEN, Words(ON_FAILURE))
    """While the store does not answer: admit requests of keys with limits, or reject them."""
    keys: bool = setting(True)
    """sqlite, redis, postgresql: read clients' keys from the store too."""
    reserve: bool = setting(True)
    """Reserve the longest reply of a request in the budgets of its key until the request has ended."""
    reserve_tokens: int = setting(4096, Range(0, RESERVE_MAX, "the largest output limit of the model, if it is known"))
    """The reply that is reserved for a request without an output limit, in tokens."""
    refresh: float = setting(5.0, Above("seconds", 3600))
    """Seconds until a key that was added or revoked in the store is noticed."""
    receipts: float = setting(600.0, Above("seconds", 86400, zero="none"))
    """sqlite, redis: seconds for which receipts are kept in the store, where all hosts read them; 0 = none."""

    @property
    def is_shared(self) -> bool:
        """True if other processes can use the store."""
        return self.kind in (SQLITE, REDIS)

    @property
    def holds_keys(self) -> bool:
        """True if clients' keys are read from the store. Then every client must present a key, even if it has none."""
        return self.keys and self.kind != MEMORY

    def for_limits(self) -> StoreOptions:
        """Return the options of the store of limits, which with PostgreSQL is another one than that of the keys."""
        if self.kind != POSTGRES:
            return self
        return replace(self, kind=REDIS if self.limits_url else MEMORY, url=self.limits_url, keys=False)

    @property
    def redis_setting(self) -> str:
        """The name of the key with the URL of the Redis of limits."""
        return "store.limits_url" if self.limits_url else "store.url"

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of these settings."""
        yield from setting_problems("store", self)
        if self.kind == SQLITE and not self.path:
            yield "store.path", "is empty"
        yield from url_problems("store", self.kind, self.url, self.prefix)
        if self.kind == POSTGRES:
            if self.limits_url:
                yield from redis_problems("store.limits_url", self.limits_url, "store.limits_url")
                if not is_prefix(self.prefix):
                    yield "store.prefix", "expected a word without braces"
            if not self.keys:
                yield "store.keys", 'is false, and with kind = "postgresql" keys are all that is kept there'
        elif self.limits_url:
            yield "store.limits_url", f'has no effect with kind = "{self.kind}"'


NEEDS_REDIS = "is required for limits, which PostgreSQL does not keep: redis://host:6379/0"
"""The problem of a `limits_url` that is missing."""

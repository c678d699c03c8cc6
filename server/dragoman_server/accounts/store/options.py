"""The table `[store]` of the configuration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec

from dragoman.gateway import changed_fields
from dragoman_server.config.setting import Above, Range, Words, setting, setting_problems
from dragoman_server.config.toml_reader import Problem

MEMORY, SQLITE, REDIS = "memory", "sqlite", "redis"
KINDS = (MEMORY, SQLITE, REDIS)
OPEN, CLOSED = "open", "closed"
ON_FAILURE = (OPEN, CLOSED)
RESERVE_MAX = 10_000_000
"""Most tokens that are reserved for one reply."""


@dataclass(frozen=True)
class StoreOptions:
    """Where limits, budgets and keys are kept."""

    __repr__ = changed_fields

    kind: str = setting(MEMORY, Words(KINDS, "store"))
    """memory: in this process. sqlite: in a file. redis: in Redis or Valkey, for many machines."""
    path: str = setting("dragoman.db", getter="file_path")
    """sqlite: the file, relative to the configuration's file."""
    url: str = setting("", getter="address", shown=False)
    """redis: redis://:PASSWORD@HOST:6379/0, rediss:// with TLS, unix://PATH, redis+sentinel:// or redis+cluster://."""
    prefix: str = setting("dragoman")
    """redis: the start of the names of its keys; gateways with the same prefix share limits."""
    timeout: float = setting(0.25, Above("seconds", 10))
    """Seconds that one call may take."""
    on_failure: str = setting(OPEN, Words(ON_FAILURE))
    """While the store does not answer: admit requests of keys with limits, or reject them."""
    keys: bool = setting(True)
    """sqlite, redis: read clients' keys from the store too."""
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

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of these settings."""
        yield from setting_problems("store", self)
        if self.kind == SQLITE and not self.path:
            yield "store.path", "is empty"
        yield from redis_problems("store", self.kind, self.url, self.prefix)


def redis_problems(at: str, kind: str, url: str, prefix: str) -> Iterator[Problem]:
    """Yield the problems of the keys `url` and `prefix` of a store of this kind; `at` is the path of its table."""
    if kind == REDIS:
        from dragoman.threads import RedisConnection  # 0.1 MB of memory, for gateways with a Redis

        if not url:
            yield f"{at}.url", "is required: redis://host:6379/0"
        elif problem := RedisConnection.url_problem(url):
            yield f"{at}.url", problem
        if find_spec("redis") is None:
            yield f"{at}.kind", "needs the package redis: pip install 'dragoman[redis]'"
    elif url:
        yield f"{at}.url", f'has no effect with kind = "{kind}"'
    if not is_prefix(prefix):
        yield f"{at}.prefix", "expected a word without braces"


def is_prefix(text: str) -> bool:
    """True if a text can begin the names of keys in Redis."""
    return bool(text) and text.isprintable() and "{" not in text and "}" not in text

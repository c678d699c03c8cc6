"""The table `[store]` of the configuration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from urllib.parse import urlsplit

from dragoman.gateway import changed_fields
from dragoman_server.config.toml_reader import Problem
from dragoman_server.config.value_problems import unknown

MEMORY, SQLITE, REDIS = "memory", "sqlite", "redis"
KINDS = (MEMORY, SQLITE, REDIS)
OPEN, CLOSED = "open", "closed"
ON_FAILURE = (OPEN, CLOSED)
_SCHEMES = ("redis", "rediss", "unix")
_MOST_SECONDS = 10.0


@dataclass(frozen=True)
class StoreOptions:
    """Where limits, budgets and keys are kept.

    `path` is the file of `sqlite`, `url` the address of `redis` (a secret: it may hold a password), `prefix` the start
    of its keys' names. Each call may take `timeout` seconds. `on_failure` decides on requests while the store does not
    answer: `open` admits them, `closed` rejects them. With `keys`, clients' keys are read from the store too, every
    `refresh` seconds.
    """

    __repr__ = changed_fields

    kind: str = MEMORY
    path: str = "dragoman.db"
    url: str = field(default="", repr=False)
    prefix: str = "dragoman"
    timeout: float = 0.25
    on_failure: str = OPEN
    keys: bool = True
    refresh: float = 5.0

    @property
    def holds_keys(self) -> bool:
        """True if clients' keys are read from the store. Then every client must present a key, even if it has none."""
        return self.keys and self.kind != MEMORY

    def problems(self) -> Iterator[Problem]:
        """Yield the problems of these settings."""
        if self.kind not in KINDS:
            yield "store.kind", unknown("store", self.kind, KINDS)
        if self.kind == SQLITE and not self.path:
            yield "store.path", "is empty"
        if self.kind == REDIS:
            if not self.url:
                yield "store.url", "is required: redis://host:6379/0"
            elif not is_redis_url(self.url):
                # The URL may hold a password, so it is not repeated.
                yield "store.url", "expected redis://, rediss:// or unix:// and an address"
            if find_spec("redis") is None:
                yield "store.kind", "needs the package redis: pip install 'dragoman[redis]'"
        elif self.url:
            yield "store.url", f'has no effect with kind = "{self.kind}"'
        if not is_prefix(self.prefix):
            yield "store.prefix", "expected a word without braces"
        for name in ("timeout", "refresh"):
            seconds, most = getattr(self, name), _MOST_SECONDS if name == "timeout" else 3600.0
            if not 0 < seconds <= most:
                yield f"store.{name}", f"expected seconds above 0, up to {most:g}; got {seconds:g}"
        if self.on_failure not in ON_FAILURE:
            yield "store.on_failure", unknown("value", self.on_failure, ON_FAILURE)


def is_prefix(text: str) -> bool:
    """True if a text can begin the names of keys in Redis."""
    return bool(text) and text.isprintable() and "{" not in text and "}" not in text


def is_redis_url(url: str) -> bool:
    """True if a text has the form of a Redis' address."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    place = parts.netloc or (parts.scheme == "unix" and parts.path)
    return parts.scheme in _SCHEMES and url.startswith(f"{parts.scheme}://") and bool(place)

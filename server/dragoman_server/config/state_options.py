"""The table `[state]` of the configuration: stored responses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.gateway import changed_fields
from dragoman_server.accounts.store.options import is_prefix, is_redis_url
from dragoman_server.config.compaction_options import CompactionOptions, read_compaction
from dragoman_server.config.provider import Secret
from dragoman_server.config.toml_reader import Problem, Table
from dragoman_server.config.value_problems import unknown

if TYPE_CHECKING:
    from dragoman.threads import ThreadLimits

OFF, MEMORY, SQLITE, REDIS = "off", "memory", "sqlite", "redis"
KINDS = (OFF, MEMORY, SQLITE, REDIS)
UPSTREAM, GATEWAY = "upstream", "gateway"
DAY = 86_400.0
HOUR = 3600.0
_MEMORY_BYTES = 32 * 1024**2
_MOST_SECONDS = 60.0
_NUMBERS = (
    "max_bytes",
    "max_bytes_per_key",
    "max_responses",
    "max_chain",
    "background_bytes",
    "background_total_bytes",
)


@dataclass(frozen=True)
class StateOptions:
    """Where responses are stored for clients of the Responses API, how many, and for how long.

    `kind` is `memory` by default, which needs a single process (`kind_with`); `named` is True if the file sets it.
    `path` is the file of `sqlite`; if it is empty, the file is in the user's state directory. `url` is the address of
    `redis` (a secret: it may hold a password), `prefix` the start of its keys' names. Conversations that were not
    continued for `ttl_days` are deleted. `max_bytes` and `max_responses` are for all clients together,
    `max_bytes_per_key` is for one. A conversation has up to `max_chain` responses in a row. Each call of the store may
    take `timeout` seconds. With an `encryption_key`, what is stored is encrypted.

    Each client may have `background` responses that run in the background at a time; 0: none. Of the events of such a
    response `background_bytes` are kept until `background_events` seconds after its end. `background_total_bytes` are
    kept of all clients together: events, and the requests and states of those that run.

    None is the default of the kind. In memory these are an hour, and 32 MiB for responses and as much for those that
    run in the background; else 30 days, 4 GiB, 1 GiB for a key, and 256 MiB.
    """

    __repr__ = changed_fields

    kind: str = MEMORY
    path: str = ""
    url: str = field(default="", repr=False)
    prefix: str = "dragoman"
    ttl_days: float | None = None
    max_bytes: int | None = None
    max_bytes_per_key: int | None = None
    max_responses: int = 1_000_000
    max_chain: int = 1000
    timeout: float = 5.0
    encryption_key: Secret | None = None
    background: int = 16
    background_bytes: int = 4 * 1024**2
    background_total_bytes: int | None = None
    background_events: float = 300.0
    compaction: CompactionOptions = field(default_factory=CompactionOptions)
    named: bool = field(default=False, repr=False, compare=False)

    @property
    def file(self) -> str:
        """The path of the file."""
        return self.path or str(state_directory() / "responses.db")

    def kind_with(self, workers: int) -> str:
        """Return the kind of the store of a gateway with so many processes: none in memory, which they do not share."""
        return OFF if self.kind == MEMORY and workers != 1 else self.kind

    @property
    def ttl(self) -> float:
        """The seconds after which a conversation that was not continued is deleted."""
        if self.ttl_days is not None:
            return self.ttl_days * DAY
        return HOUR if self.kind == MEMORY else 30 * DAY

    def limits(self) -> ThreadLimits:
        """Return the limits of the store."""
        from dragoman.threads import ThreadLimits  # imported when responses are stored

        memory, size, own = self.kind == MEMORY, self.max_bytes, self.max_bytes_per_key
        size = size if size is not None else _MEMORY_BYTES if memory else 4 * 1024**3
        return ThreadLimits(
            ttl=self.ttl,
            nodes=self.max_responses,
            size=size,
            owner_size=own if own is not None else size if memory else 1024**3,
            depth=self.max_chain,
        )

    def background_limit(self) -> int:
        """Return the bytes that are kept of all responses in the background."""
        most = self.background_total_bytes
        return most if most is not None else _MEMORY_BYTES if self.kind == MEMORY else 256 * 1024**2

    def problems(self, workers: int) -> Iterator[Problem]:
        """Yield the problems of these settings, for a gateway of so many processes."""
        if self.kind not in KINDS:
            yield "state.kind", unknown("store", self.kind, KINDS)
        if self.kind == SQLITE and not self.path:
            try:
                state_directory()
            except RuntimeError:
                yield "state.path", "is required, as this user has no home directory"
        yield from self._redis_problems()
        if self.named and self.kind == MEMORY and workers != 1:
            yield (
                "state.kind",
                'is "memory", in which each worker has responses of its own: several need "sqlite" or "redis"',
            )
        if self.ttl_days is not None and not (isfinite(self.ttl_days) and self.ttl_days > 0):
            yield "state.ttl_days", f"expected days above 0; got {self.ttl_days:g}"
        for name in _NUMBERS:
            if (number := getattr(self, name)) is not None and number < 1:
                yield f"state.{name}", f"expected 1 or more; got {number}"
        if self.background < 0:
            yield "state.background", f"expected 0 or more; got {self.background}"
        if not (isfinite(self.background_events) and self.background_events > 0):
            yield "state.background_events", f"expected seconds above 0; got {self.background_events:g}"
        if not 0 < self.timeout <= _MOST_SECONDS:
            yield "state.timeout", f"expected seconds above 0, up to {_MOST_SECONDS:g}; got {self.timeout:g}"
        if self.encryption_key is not None:
            yield from self._key_problems(self.encryption_key)
        yield from self.compaction.problems()
        if self.compaction.share and self.kind_with(workers) == OFF:
            yield "state.compaction.share", "has no effect without a store: set state.kind"

    def _redis_problems(self) -> Iterator[Problem]:
        if self.kind == REDIS:
            if not self.url:
                yield "state.url", "is required: redis://host:6379/0"
            elif not is_redis_url(self.url):
                # The URL may hold a password, so it is not repeated.
                yield "state.url", "expected redis://, rediss:// or unix:// and an address"
            if find_spec("redis") is None:
                yield "state.kind", "needs the package redis: pip install 'dragoman[redis]'"
        elif self.url:
            yield "state.url", f'has no effect with kind = "{self.kind}"'
        if not is_prefix(self.prefix):
            yield "state.prefix", "expected a word without braces"

    def _key_problems(self, key: Secret) -> Iterator[Problem]:
        if self.named and self.kind == MEMORY:
            yield "state.encryption_key", 'has no effect with kind = "memory"'
        elif find_spec("cryptography") is None:
            yield "state.encryption_key", "needs the package cryptography: pip install 'dragoman[encryption]'"
        else:
            from dragoman.threads import NodeCipher

            try:
                NodeCipher(key.reveal())
            except ValueError as error:
                yield "state.encryption_key", str(error)


def state_directory() -> Path:
    """Return the directory for data of this user that a program keeps (XDG Base Directory Specification)."""
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".local" / "state") / "dragoman"


def read_state(table: Table) -> StateOptions:
    """Return the settings of the file; problems go to the table."""
    key = (table.secret("encryption_key") or "").strip()
    given: dict[str, Any] = {
        "kind": table.word("kind", KINDS),
        "path": table.file_path("path"),
        "url": table.address("url"),
        "prefix": table.text("prefix"),
        "ttl_days": table.number("ttl_days"),
        **{name: table.integer(name) for name in _NUMBERS},
        "background": table.integer("background"),
        "background_events": table.number("background_events"),
        "timeout": table.number("timeout"),
        "encryption_key": Secret(key) if key else None,
        "compaction": read_compaction(table.table("compaction")),
    }
    table.finish()
    options = {name: value for name, value in given.items() if value is not None}
    return StateOptions(**options, named="kind" in options)

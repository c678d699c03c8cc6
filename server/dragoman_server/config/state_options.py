"""The table `[state]` of the configuration: stored responses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from dragoman.gateway import changed_fields
from dragoman.threads import ThreadLimits
from dragoman_server.config.compaction_options import CompactionOptions
from dragoman_server.config.config_error import Problem
from dragoman_server.config.provider import Secret
from dragoman_server.config.setting import Above, Range, Words, section, setting, setting_problems
from dragoman_server.config.store_urls import POSTGRES, REDIS, redis_problems, url_problems
from dragoman_server.config.toml_reader import Table

OFF, MEMORY, SQLITE = "off", "memory", "sqlite"
KINDS = (OFF, MEMORY, SQLITE, REDIS, POSTGRES)
UPSTREAM, GATEWAY = "upstream", "gateway"
DAY = 86_400.0
HOUR = 3600.0
_MEMORY_BYTES = 32 * 1024**2
_COUNT = Range(1)


@dataclass(frozen=True)
class StateOptions:
    """Where responses are stored for clients of the Responses API, how many, and for how long.

    `kind` is `memory` by default, which needs a single process (`kind_with`); `named` is True if the file sets it.

    None is the default of the kind. In memory these are an hour, and 32 MiB for responses and as much for those that
    run in the background; else 30 days, 4 GiB, 1 GiB for a key, and 256 MiB.
    """

    __repr__ = changed_fields

    kind: str = setting(MEMORY, Words(KINDS, "store"))
    """off; memory: in this process; sqlite: in a file; redis, postgresql: for many machines."""
    path: str = setting("", getter="file_path")
    """sqlite: the file (default responses.db in the user's state directory). Relative to the configuration's file."""
    url: str = setting("", getter="address", shown=False)
    """redis: redis://:PASSWORD@HOST:6379/0, rediss:// with TLS, unix://PATH, redis+sentinel:// or redis+cluster://.
    postgresql: postgresql://USER:PASSWORD@HOST:5432/DATABASE."""
    runs_url: str = setting("", getter="address", shown=False)
    """postgresql: the URL of a Redis, for responses in the background and streams that can be resumed."""
    prefix: str = setting("dragoman")
    """redis: the start of the names of its keys. postgresql: the schema. Gateways with the same prefix share responses.
    """
    ttl_days: float | None = setting(None, Above("days"))
    """Days after its last response at which a conversation is deleted (default 30; memory: an hour)."""
    max_bytes: int | None = setting(None, _COUNT)
    """Most bytes of all stored responses (default 4 GiB; memory: 32 MiB)."""
    max_bytes_per_key: int | None = setting(None, _COUNT)
    """Most bytes of the stored responses of one key (default 1 GiB; memory: as max_bytes)."""
    max_responses: int = setting(1_000_000, _COUNT)
    """Most stored responses."""
    max_chain: int = setting(1000, _COUNT)
    """Most responses in a row."""
    timeout: float = setting(5.0, Above("seconds", 60))
    """Seconds that one call of the store may take."""
    encryption_key: Secret | None = setting(None, getter="bare_secret")
    """32 bytes in base64; what is stored is encrypted with it."""
    background: int = setting(16, Range())
    """Most responses of a client in the background at a time; 0 = none."""
    background_bytes: int = setting(4 * 1024**2, _COUNT)
    """Bytes of the events of such a response that are kept."""
    background_total_bytes: int | None = setting(None, _COUNT)
    """Bytes kept of background responses together (default 256 MiB; memory: 32 MiB): events, and the requests and
    states of those that run."""
    background_events: float = setting(300.0, Above("seconds"))
    """Seconds after its end for which they are kept."""
    compaction: CompactionOptions = section(CompactionOptions)
    """Compaction of long conversations for upstreams that do not do it themselves."""
    named: bool = field(default=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        key: object = self.encryption_key
        if isinstance(key, str):
            object.__setattr__(self, "encryption_key", Secret(key))

    @property
    def file(self) -> str:
        """The path of the file."""
        return self.path or str(state_directory() / "responses.db")

    def kind_with(self, workers: int) -> str:
        """Return the kind of the store of a gateway with so many processes: none in memory, which they do not share."""
        return OFF if self.kind == MEMORY and workers != 1 else self.kind

    @property
    def has_runs(self) -> bool:
        """True if responses in the background and streams can be shared with other processes."""
        return self.kind in (SQLITE, REDIS) or bool(self.kind == POSTGRES and self.runs_url)

    @property
    def most_background(self) -> int:
        """The most responses of a client in the background; none if other hosts would not find them."""
        return 0 if self.kind == POSTGRES and not self.runs_url else self.background

    @property
    def ttl(self) -> float:
        """The seconds after which a conversation that was not continued is deleted."""
        if self.ttl_days is not None:
            return self.ttl_days * DAY
        return HOUR if self.kind == MEMORY else 30 * DAY

    def limits(self) -> ThreadLimits:
        """Return the limits of the store."""
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
        yield from setting_problems("state", self)
        if self.kind == SQLITE and not self.path:
            try:
                state_directory()
            except RuntimeError:
                yield "state.path", "is required, as this user has no home directory"
        yield from url_problems("state", self.kind, self.url, self.prefix)
        if self.runs_url and self.kind == POSTGRES:
            yield from redis_problems("state.runs_url", self.runs_url, "state.runs_url")
        elif self.runs_url:
            yield "state.runs_url", f'has no effect with kind = "{self.kind}"'
        if self.named and self.kind == MEMORY and workers != 1:
            yield (
                "state.kind",
                'is "memory", so each worker has its own responses: several need "sqlite", "redis" or "postgresql"',
            )
        if self.encryption_key is not None:
            yield from self._key_problems(self.encryption_key)
        yield from self.compaction.problems()
        if self.compaction.share and self.kind_with(workers) == OFF:
            yield "state.compaction.share", "has no effect without a store: set state.kind"

    def _key_problems(self, key: Secret) -> Iterator[Problem]:
        if self.named and self.kind == MEMORY:
            yield "state.encryption_key", 'has no effect with kind = "memory"'
        elif find_spec("cryptography") is None:
            yield "state.encryption_key", "needs the package cryptography: install Dragoman with the extra encryption"
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
    found = table.settings(StateOptions)
    table.finish()
    return StateOptions(**found, named="kind" in found)

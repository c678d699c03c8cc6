"""The record of a named key: its hash, the models that it may use, and its limits."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

from dragoman.gateway import changed_fields
from dragoman.wire import Json, json_loads
from dragoman_server.accounts.keys.secret import KeyHash
from dragoman_server.accounts.keys.tag import TAG_RULE, is_tag
from dragoman_server.accounts.limits.key_limits import NO_LIMITS, KeyLimits
from dragoman_server.config.config_error import Problem
from dragoman_server.config.setting import Each, Filled, setting, setting_problems

log = logging.getLogger("dragoman")
KEYS_MAX = 10_000
"""Most keys of one store, and of one configuration. All of them are held in memory."""
_NAME = re.compile(r"[A-Za-z0-9._@+-]{1,64}\Z")
NAME_RULE = "a key's name has 1 to 64 letters, digits, '.', '_', '@', '+' and '-'"


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A named key. `expires` is in Unix seconds."""

    __repr__ = changed_fields

    name: str
    hash: KeyHash
    """The salted hash of the key, as `dragoman keys add --toml` prints it."""
    models: tuple[str, ...] = setting((), Each(Filled()))
    """Names and patterns of the models that it may use, as clients name them (default all)."""
    limits: KeyLimits = NO_LIMITS
    expires: float | None = setting(None, getter="moment")
    """Date or time at which the key ends to be valid: 2027-01-31."""
    admin: bool = setting(False)
    """The key may use GET /metrics and the console, and read captures."""
    created: int = field(default=0, compare=False)
    capture: bool = setting(False)
    """Capture all exchanges of this key."""
    tag: str | None = setting(None)
    """Tag in the usage of this key's exchanges, such as a cost centre; x-dragoman-tag of a request replaces it."""

    @property
    def id(self) -> str:
        """The public part of the key, by which its counters are kept: a new key of the same name starts at zero."""
        return self.hash.id

    def expired(self, now: float) -> bool:
        """True if the key is no longer valid at `now`, in Unix seconds."""
        return self.expires is not None and now >= self.expires

    def permits(self, model: str) -> bool:
        """True if the key may use the model that a client names."""
        return not self.models or any(fnmatchcase(model, pattern) for pattern in self.models)

    def problems(self, at: str) -> Iterator[Problem]:
        """Yield the problems of this key; `at` is its path in the configuration."""
        if not _NAME.match(self.name):
            yield at, NAME_RULE
        yield from setting_problems(at, self)
        if self.tag is not None and not is_tag(self.tag):
            yield f"{at}.tag", f"expected {TAG_RULE}"
        yield from self.limits.problems(at)

    def as_data(self) -> Json:
        """Return the record as JSON, for a store. `record_of` reads it."""
        return {
            "name": self.name,
            "hash": str(self.hash),
            "models": list(self.models),
            "limits": {name: value for name, value in asdict(self.limits).items() if value},
            "expires": self.expires,
            "admin": self.admin,
            "created": self.created,
            "capture": self.capture,
            "tag": self.tag,
        }


def record_of(data: Mapping[str, Any]) -> KeyRecord:
    """Return the record that `KeyRecord.as_data` wrote. Raises ValueError, TypeError or KeyError for other data."""
    known = {spec.name for spec in fields(KeyLimits)}
    if type(data["limits"]) is not dict or any(type(value) not in (int, float) for value in data["limits"].values()):
        raise TypeError("a limit is not a number")
    return KeyRecord(
        str(data["name"]),
        KeyHash.parse(data["hash"]),
        tuple(map(str, data["models"])),
        # A later version may know other limits. Those are ignored here; the version of the store's format guards
        # against changes that must not be.
        KeyLimits(**{name: value for name, value in data["limits"].items() if name in known}),
        None if data["expires"] is None else float(data["expires"]),
        bool(data["admin"]),
        int(data["created"]),
        # Earlier versions did not write these.
        bool(data.get("capture")),
        None if data.get("tag") is None else str(data["tag"]),
    )


def records_of(rows: Iterable[bytes]) -> tuple[KeyRecord, ...]:
    """Return the records of a store.

    One that cannot be read is left out with a warning, so its key is rejected and all others stay valid.
    """
    found = []
    for row in rows:
        try:
            found.append(record_of(json_loads(row)))
        except (ValueError, TypeError, KeyError) as error:
            log.warning("a key in the store cannot be read and is rejected: %s", type(error).__name__)
    return tuple(found)


def parse_moment(text: str, now: float) -> float | None:
    """Return Unix seconds of a date, an RFC 3339 time or a duration from `now` (`12h`, `30d`, `8w`), or None."""
    if found := re.fullmatch(r"([1-9][0-9]{0,4})([hdw])", text):
        return now + int(found[1]) * {"h": 3600.0, "d": 86400.0, "w": 604800.0}[found[2]]
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def written_moment(seconds: float) -> str:
    """Return Unix seconds as an RFC 3339 time in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def named(records: Sequence[KeyRecord], name: str) -> KeyRecord | None:
    """Return the record with this name or id, or None."""
    return next((record for record in records if name in (record.name, record.id)), None)

"""Reply headers, translated between dialects (mapping §10).

An allow-list decides what passes, so that no cookie, length or hop-by-hop header can. Agents need some of these headers
for their retries: without `retry-after` they retry forever or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from math import ceil

from dragoman.dialects import Dialect
from dragoman.dialects.errors.redact import redact

_MESSAGES = Dialect.MESSAGES  # CPython 3.11 takes twenty times as long to find a member in its class
RETRY = ("retry-after", "retry-after-ms", "x-should-retry")
"""Headers that the clients of every dialect understand: forwarded unchanged, dates included."""

_OPENAI_OWN = ("x-request-id", "openai-processing-ms", "openai-version", "openai-organization", "openai-project")
_OWN: dict[Dialect, tuple[str, ...]] = {
    Dialect.CHAT: _OPENAI_OWN,
    Dialect.RESPONSES: _OPENAI_OWN,
    Dialect.MESSAGES: ("request-id", "anthropic-organization-id", "anthropic-workspace-id", "anthropic-processing-ms"),
}
_LIMITS: dict[Dialect, str] = {
    Dialect.CHAT: "x-ratelimit-",
    Dialect.RESPONSES: "x-ratelimit-",
    Dialect.MESSAGES: "anthropic-ratelimit-",
}
_TO_ANTHROPIC = tuple(
    (f"x-ratelimit-{fact}-{what}", f"anthropic-ratelimit-{what}-{fact}", fact == "reset")
    for what in ("requests", "tokens")
    for fact in ("limit", "remaining", "reset")
)
"""OpenAI's name of a rate limit's header, Anthropic's name, and True if its value is a time."""
_TO_OPENAI = tuple((anthropic, openai, is_time) for openai, anthropic, is_time in _TO_ANTHROPIC)


_READ = frozenset((*RETRY, "request-id", *_OPENAI_OWN))
_PREFIXES = ("x-ratelimit-", "anthropic-")
_NAME = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")
_VALUE_MAX = 1024
"""Longest value of a header that is passed on, in characters."""


class _Names(dict[str, str]):
    """The cache of `readable_headers`: name as received → the name in lower case if this module reads it, else ""."""

    def __missing__(self, name: str) -> str:
        low = name.lower()
        read = low if low in _READ or (low.startswith(_PREFIXES) and _NAME.fullmatch(low)) else ""
        if len(self) < 512 and len(name) <= 64:  # upstreams choose the names, so the cache has a limit
            self[name] = read
        return read


_NAMES = _Names()


def readable_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of the allow-list by lower-case name, without those whose value is not printable ASCII.

    Every header that passes from an upstream to a client goes through this function. Transports decode other bytes to
    characters that no header line can hold, and some let control characters pass.
    """
    found = {low: value for name, value in headers.items() if (low := _NAMES[name])}
    together = "".join(found.values())
    if len(together) <= _VALUE_MAX and together.isascii() and together.isprintable():
        return found  # nearly always
    return {
        low: value
        for low, value in found.items()
        if len(value) <= _VALUE_MAX and value.isascii() and value.isprintable()
    }


def failure_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that a failure keeps: when to retry, and the rate limits in the upstream's form."""
    return {
        name: value
        for name, value in readable_headers(headers).items()
        if name in RETRY or name.startswith(("x-ratelimit-", "anthropic-ratelimit-"))
    }


def request_id(source: Dialect, headers: Mapping[str, str]) -> str | None:
    """Return the upstream's request id: from its dialect's header, else from the other vendor's."""
    return _request_id(source, readable_headers(headers))


def _request_id(source: Dialect, names: Mapping[str, str]) -> str | None:
    first, second = ("request-id", "x-request-id") if source is _MESSAGES else ("x-request-id", "request-id")
    return names.get(first) or names.get(second) or None


def reply_headers(
    source: Dialect, target: Dialect, headers: Mapping[str, str], *, now: float, secrets: Sequence[str] = ()
) -> dict[str, str]:
    """Return the reply headers for a client of `target`.

    Within a dialect and between the two OpenAI dialects, headers are forwarded unchanged. Otherwise the request id and
    the rate limits are translated; OpenAI writes resets as durations, Anthropic as RFC 3339 times.

    Args:
        source: the upstream's dialect.
        target: the client's dialect.
        headers: the upstream's reply headers.
        now: the current time, in seconds since the epoch.
        secrets: texts to mask, such as the upstream's key.
    """
    names = readable_headers(headers)
    if secrets:
        # Only `secrets`, not everything that looks like a key: headers have no prose that could quote another key.
        together = "\n".join(names.values())
        for secret in secrets:
            if secret in together:
                names = {name: redact(value, secrets) for name, value in names.items()}
                break
    out = {name: names[name] for name in RETRY if name in names}
    if _LIMITS[source] == _LIMITS[target]:
        own, limits = _OWN[source], _LIMITS[source]
        out.update((name, value) for name, value in names.items() if name in own or name.startswith(limits))
        return out
    if (upstream_id := _request_id(source, names)) is not None:
        out["request-id" if target is _MESSAGES else "x-request-id"] = upstream_id
    for source_name, name, is_time in _TO_ANTHROPIC if target is _MESSAGES else _TO_OPENAI:
        value = names.get(source_name)
        if value is None:
            continue
        value = value.strip()
        if not is_time:
            written = value if _COUNT.fullmatch(value) else None
        elif target is _MESSAGES:
            written = _as_time(value, now)
        else:
            written = _as_duration(value, now)
        if written is not None:
            out[name] = written
    return out


_COUNT = re.compile(r"[0-9]{1,18}")
_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?")
_DURATION_PART = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)(ns|us|µs|ms|s|m|h|d)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION_MAX = 64
"""Longest text of a duration that is parsed, in characters. Bounds the memory of the cache."""
_YEARS = 1e8
"""Seconds. A larger number without a unit is not a duration but an epoch time; over a thousand times that, in ms."""


def _as_time(value: str, now: float) -> str | None:
    """Return a duration (`6m0s`, `120ms`, `7.66`), an epoch time or an RFC 3339 time as RFC 3339, rounded up to the
    second; None for any other value."""
    seconds = _parse_duration(value) if len(value) <= _DURATION_MAX else None
    if seconds is not None:
        moment = now + seconds
    elif _NUMBER.fullmatch(value):
        moment = float(value) / (1000.0 if float(value) > _YEARS * 1000 else 1.0)
    else:
        parsed = _parse_time(value)
        if parsed is None:
            return None
        moment = parsed
    try:
        return _rfc3339(ceil(moment))
    except (ValueError, OverflowError, OSError):
        return None


# In a busy second most replies carry the same few times and durations.
@lru_cache(64)
def _rfc3339(second: int) -> str:
    return f"{datetime.fromtimestamp(second, UTC).replace(tzinfo=None).isoformat()}Z"


def _as_duration(value: str, now: float) -> str | None:
    """Return the duration until an RFC 3339 time in OpenAI's form (`6m0s`, `120ms`), `0s` for the past."""
    moment = _parse_time(value)
    if moment is None:
        return None
    left = max(0.0, moment - now)
    millis = ceil(round(left * 1000, 3))
    if 0 < millis < 1000:
        return f"{millis}ms"
    whole = ceil(round(left, 6))
    hours, minutes, seconds = whole // 3600, whole // 60 % 60, whole % 60
    if hours:
        return f"{hours}h{minutes}m{seconds}s"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"


@lru_cache(256)
def _parse_duration(value: str) -> float | None:
    if _NUMBER.fullmatch(value):
        plain = float(value)
        return plain if plain <= _YEARS else None
    total, at = 0.0, 0
    for step in _DURATION_PART.finditer(value):
        if step.start() != at:
            return None
        total += float(step[1]) * _SECONDS[step[2]]
        at = step.end()
    return total if at and at == len(value) else None


def _parse_time(value: str) -> float | None:
    try:
        parsed = datetime.fromisoformat(value)
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None

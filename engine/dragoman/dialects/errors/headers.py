"""Reply headers, translated between dialects. An allow-list: hop-by-hop, cookies and lengths can never pass.

Agents steer their retries by these: without `retry-after` they retry for ever or not at all (mapping §10).
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
"""Understood by the clients of every dialect: forwarded untouched, dates included."""

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
"""A rate limit's header in OpenAI's words and in Anthropic's, and whether it is a time."""
_TO_OPENAI = tuple((anthropic, openai, is_time) for openai, anthropic, is_time in _TO_ANTHROPIC)


_READ = frozenset((*RETRY, "request-id", *_OPENAI_OWN))
_PREFIXES = ("x-ratelimit-", "anthropic-")
_NAME = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")
_VALUE_MAX = 1024
"""Longest value of a header that is passed on, in characters."""


class _Names(dict[str, str]):
    """Names as they come → in lower case if anything here reads such headers, else empty."""

    def __missing__(self, name: str) -> str:
        low = name.lower()
        read = low if low in _READ or (low.startswith(_PREFIXES) and _NAME.fullmatch(low)) else ""
        if len(self) < 512 and len(name) <= 64:  # upstreams choose them
            self[name] = read
        return read


_NAMES = _Names()


def lowered(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that are read here, by lower-case name, without values that no header line may have.

    Every header that crosses from an upstream to a client comes from here, whatever transport read it. A value is
    printable ASCII: transports decode other bytes to what no header line can be written with, and some let control
    characters through.
    """
    return {
        low: value
        for name, value in headers.items()
        if (low := _NAMES[name]) and len(value) <= _VALUE_MAX and value.isascii() and value.isprintable()
    }


def passed(headers: Mapping[str, str], names: Sequence[str], secrets: Sequence[str] = ()) -> dict[str, str]:
    """Those of the upstream's headers that have one of `names`, fit for a client."""
    return {name: redact(value, secrets) for name, value in lowered(headers).items() if name in names}


def failure_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that a failure keeps: when to retry, and the rate limits, as the upstream spelled them."""
    return {
        name: value
        for name, value in lowered(headers).items()
        if name in RETRY or name.startswith(("x-ratelimit-", "anthropic-ratelimit-"))
    }


def request_id(source: Dialect, headers: Mapping[str, str]) -> str | None:
    """The upstream's request id: under its dialect's name, else under the other one's."""
    return _request_id(source, lowered(headers))


def _request_id(source: Dialect, names: Mapping[str, str]) -> str | None:
    first, second = ("request-id", "x-request-id") if source is _MESSAGES else ("x-request-id", "request-id")
    return names.get(first) or names.get(second) or None


def reply_headers(
    source: Dialect, target: Dialect, headers: Mapping[str, str], *, now: float, secrets: Sequence[str] = ()
) -> dict[str, str]:
    """The upstream's reply headers that a client of `target` gets, without `secrets`; `now` is the time in epoch
    seconds.

    Between the two OpenAI dialects, and within one, headers are forwarded as they are. Rate limits are translated only
    if the upstream sent them: OpenAI tells resets as durations, Anthropic as RFC 3339 times.
    """
    names = lowered(headers)
    if secrets:
        # Only the secrets that were sent, not all that looks like one: a header has no prose that could quote another.
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
            told = value if _COUNT.fullmatch(value) else None
        elif target is _MESSAGES:
            told = _as_time(value, now)
        else:
            told = _as_duration(value, now)
        if told is not None:
            out[name] = told
    return out


_COUNT = re.compile(r"[0-9]{1,18}")
_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?")
_STEP = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)(ns|us|µs|ms|s|m|h|d)")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPELLED = 64
"""Longest duration read: bounds the memo's bytes."""
_YEARS = 1e8  # seconds: a bare number above this is no duration but an epoch time; above its thousandfold, in ms


def _as_time(value: str, now: float) -> str | None:
    """`6m0s`, `120ms`, `7.66`, an epoch time or RFC 3339 as RFC 3339, rounded up to the second; None if it is none."""
    seconds = _seconds(value)
    if seconds is not None:
        moment = now + seconds
    elif _NUMBER.fullmatch(value):
        moment = float(value) / (1000.0 if float(value) > _YEARS * 1000 else 1.0)
    else:
        parsed = _moment(value)
        if parsed is None:
            return None
        moment = parsed
    try:
        return _rfc3339(ceil(moment))
    except (ValueError, OverflowError, OSError):
        return None


# The same few times and durations come again with each reply of a busy second.
@lru_cache(64)
def _rfc3339(second: int) -> str:
    return f"{datetime.fromtimestamp(second, UTC).replace(tzinfo=None).isoformat()}Z"


def _as_duration(value: str, now: float) -> str | None:
    """An RFC 3339 time as the duration until then, in OpenAI's spelling (`6m0s`, `120ms`); the past is `0s`."""
    moment = _moment(value)
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


def _seconds(value: str) -> float | None:
    return _lasting(value) if len(value) <= _SPELLED else None


@lru_cache(256)
def _lasting(value: str) -> float | None:
    if _NUMBER.fullmatch(value):
        plain = float(value)
        return plain if plain <= _YEARS else None
    total, at = 0.0, 0
    for step in _STEP.finditer(value):
        if step.start() != at:
            return None
        total += float(step[1]) * _SECONDS[step[2]]
        at = step.end()
    return total if at and at == len(value) else None


def _moment(value: str) -> float | None:
    try:
        parsed = datetime.fromisoformat(value)
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None

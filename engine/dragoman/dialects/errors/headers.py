"""Reply headers, translated between dialects (mapping §10).

An allow-list decides what passes, so that no cookie, length or hop-by-hop header can. Agents need some of these headers
for their retries: without `retry-after` they retry forever or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from itertools import compress
from math import ceil
from typing import TypeVar

from multidict import istr

from dragoman.dialects import Dialect
from dragoman.dialects.errors.redact import redact

T = TypeVar("T")
RETRY = ("retry-after", "retry-after-ms", "x-should-retry")
"""Headers that the clients of every dialect understand: forwarded unchanged, dates included."""

_IDS = {each.facts.request_id_header for each in Dialect}
_OTHER_IDS = {each: tuple(sorted(_IDS - {each.facts.request_id_header, ""})) for each in Dialect}
"""The headers in which other vendors' servers send their request id."""
_OF_ONE_DIALECT = tuple(each for dialect in Dialect for each in dialect.facts.dialect_headers)
_LIMITS = tuple({each.facts.limits.prefix: None for each in Dialect if each.facts.limits is not None})
"""Beginnings of the headers with rate limits."""
_OWN = {name for dialect in Dialect for name in dialect.facts.reply_headers}
_READ = frozenset((*RETRY, *_IDS, *_OWN, *_OF_ONE_DIALECT))
_PREFIXES = (*_LIMITS, *(each for each in _OF_ONE_DIALECT if each.endswith("-")))
_NAME = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")
_VALUE_MAX = 1024
"""Longest value of a header that is passed on, in characters."""


class _Cache(dict[str, T]):
    """The results of a function of lower-case header names, by the name as received. Limited: upstreams choose them."""

    def __init__(self, of: Callable[[str], T]) -> None:
        self._of = of

    def __missing__(self, name: str) -> T:
        result = self._of(name.lower())
        if len(self) < 512 and len(name) <= 64:
            self[name] = result
        return result


def _read_name(name: str) -> str:
    return name if name in _READ or (name.startswith(_PREFIXES) and _NAME.fullmatch(name)) else ""


_NAMES = _Cache(_read_name)
"""Name as received → the name in lower case if this module reads it, else ""."""


def readable_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of the allow-list by lower-case name, without those whose value is not printable ASCII.

    Every header that passes from an upstream to a client goes through this function. Transports decode other bytes to
    characters that no header line can hold, and some let control characters pass.
    """
    found = {low: value for name, value in headers.items() if (low := _NAMES[name])}
    if _is_readable("".join(found.values())):
        return found  # nearly always
    return {low: value for low, value in found.items() if _is_readable(value)}


def _is_readable(value: str) -> bool:
    return len(value) <= _VALUE_MAX and value.isascii() and value.isprintable()


def failure_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that a failure keeps: when to retry, and the rate limits in the upstream's form."""
    return {
        name: value for name, value in readable_headers(headers).items() if name in RETRY or name.startswith(_LIMITS)
    }


def request_id(source: Dialect, headers: Mapping[str, str]) -> str | None:
    """Return the upstream's request id: from its dialect's header, else from another vendor's."""
    names = readable_headers(headers)
    return next((names[name] for name in (source.request_id_header, *_OTHER_IDS[source]) if names.get(name)), None)


def reply_headers(
    source: Dialect,
    target: Dialect,
    headers: Mapping[str, str],
    *,
    now: float,
    secrets: Sequence[str] = (),
    rate_limits: bool = True,
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
        rate_limits: False to leave out the rate limits.
    """
    names = tuple(headers)
    if len(names) < len(headers):  # a multidict lists a name that comes twice once
        names = tuple([name for name, _ in headers.items()])
    rules, passed = _PLANS[source, target, rate_limits].of(names)
    found = list(compress(headers.values(), passed))
    together = "".join(found)
    if not _is_readable(together):
        readable = [(rule, value) for rule, value in zip(rules, found, strict=True) if _is_readable(value)]
        rules, found = tuple([rule for rule, _ in readable]), [value for _, value in readable]
    # Only `secrets`, not everything that looks like a key: headers have no prose that could quote another key.
    for secret in secrets:
        if secret in together:
            found = [redact(value, secrets) for value in found]
            break
    stripped = " " not in together
    out: dict[str, str] = {}
    for (name, convert), value in zip(rules, found, strict=True):
        if convert is None:
            out[name] = value
        elif (written := convert(value if stripped else value.strip(), now)) is not None:
            out[name] = written
    if "" in out:
        out.setdefault(target.request_id_header, out.pop(""))
    return out


_COUNT_DIGITS = 18
"""Most digits of a count that is passed on."""
_EPOCH = datetime(1970, 1, 1)
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
    # `fromtimestamp` with a time zone takes four times as many instructions.
    return f"{(_EPOCH + timedelta(seconds=second)).isoformat()}Z"


def _as_duration(value: str, now: float) -> str | None:
    """Return the duration until an RFC 3339 time in OpenAI's form (`6m0s`, `120ms`), `0s` for the past."""
    moment = _parse_time(value)
    if moment is None:
        return None
    return written_duration(ceil(round(max(0.0, moment - now) * 1000, 3)))


def written_duration(millis: int) -> str:
    """Return milliseconds in OpenAI's form of a duration: `120ms`, then whole seconds, rounded up: `7s`, `6m0s`."""
    if 0 < millis < 1000:
        return f"{millis}ms"
    whole = -(-millis // 1000)
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


def _as_count(value: str, now: float) -> str | None:
    return value if value.isdecimal() and len(value) <= _COUNT_DIGITS else None


def _as_id(value: str, now: float) -> str | None:
    return value or None


_Convert = Callable[[str, float], str | None]
_Rule = tuple[str, _Convert | None]
"""The name of a header for the client, and the conversion of its value; None: it is forwarded unchanged. The name is ""
for the request id in the header of another vendor than the dialect's."""


def _rule(source: Dialect, target: Dialect, rate_limits: bool, name: str) -> _Rule | None:
    """Return what becomes of the upstream's header `name`; None if it is dropped."""
    name = _read_name(name)
    if name in RETRY:
        return name, None
    if not name:
        return None
    upstream, client = source.facts, target.facts
    if name.startswith(_OF_ONE_DIALECT):
        return (name, None) if source is target and name.startswith(upstream.dialect_headers) else None
    limits = upstream.limits
    is_limit = limits is not None and name.startswith(limits.prefix)
    if not rate_limits and is_limit:
        return None
    if upstream.vendor == client.vendor:
        return (name, None) if is_limit or name in upstream.reply_headers else None
    if name == upstream.request_id_header:
        return client.request_id_header, _as_id
    if name in _OTHER_IDS[source]:
        return "", _as_id
    if limits is None or client.limits is None or not is_limit:
        return None
    fact, _, what = name.removeprefix(limits.prefix).partition("-")
    if limits.what_first:
        fact, what = what, fact
    if fact not in ("limit", "remaining", "reset") or what not in ("requests", "tokens"):
        return None
    as_reset = _as_time if client.limits.resets == "time" else _as_duration
    return client.limits.form.format(what=what, fact=fact), as_reset if fact == "reset" else _as_count


def _interned_rule(source: Dialect, target: Dialect, rate_limits: bool, name: str) -> _Rule | None:
    """Return `_rule` with the type of name that a multidict keeps: it converts plain strings for each reply."""
    rule = _rule(source, target, rate_limits, name)
    return (istr(rule[0]), rule[1]) if rule is not None and rule[0] else rule


_Plan = tuple[tuple[_Rule, ...], tuple[bool, ...]]
"""The rules for the headers of a reply that are passed on, and which of all headers these are."""


class _Plans:
    """The plans by the names of all headers as received: most replies of an upstream have the same ones.

    Limited in number and size, as upstreams choose the names.
    """

    def __init__(self, source: Dialect, target: Dialect, rate_limits: bool) -> None:
        self._rules = _Cache(partial(_interned_rule, source, target, rate_limits))
        self._known: dict[tuple[str, ...], _Plan] = {}

    def of(self, names: tuple[str, ...]) -> _Plan:
        """Return the plan for these names."""
        plan = self._known.get(names)
        if plan is None:
            rules = [self._rules[name] for name in names]
            plan = tuple([rule for rule in rules if rule is not None]), tuple([rule is not None for rule in rules])
            if len(self._known) < 64 and sum(map(len, names)) <= 2048:
                self._known[names] = plan
        return plan


_PLANS = {
    (source, target, rate_limits): _Plans(source, target, rate_limits)
    for source in Dialect
    for target in Dialect
    for rate_limits in (True, False)
}

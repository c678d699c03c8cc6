"""The pauses before retries: exponential with jitter, and those that an upstream requests by `retry-after`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import NamedTuple

_YEAR = 366 * 86400.0


def backoff(retry: int, first: float, longest: float, random: Callable[[], float]) -> float:
    """Return the seconds before a retry, counted from 1. `random` returns numbers from 0 to 1.

    The pause is between half of `first * 2 ** (retry - 1)` and all of it, so that clients that failed together do not
    return together; it is never above `longest`.
    """
    whole = min(longest, first * 2.0 ** min(retry - 1, 60))
    return whole * (0.5 + 0.5 * random())


class RetryHints(NamedTuple):
    """The headers of an upstream's response that concern retries.

    `after` is the number of seconds to wait. `again` is False if the upstream forbids to send the request to it again
    (`x-should-retry`), True if it requests that. None stands for a missing header.
    """

    after: float | None = None
    again: bool | None = None


NO_HINTS = RetryHints()


def retry_hints(headers: Mapping[str, str], now: float) -> RetryHints:
    """Return the hints in a response's headers, whose names may be in any case. `now` is in Unix seconds."""
    after: float | None = None
    again: bool | None = None
    exact = False
    for name, value in headers.items():
        low = name.lower()
        if low == "retry-after-ms":
            if (milliseconds := _number(value)) is not None:
                after, exact = milliseconds / 1000.0, True
        elif low == "retry-after":
            if not exact:
                after = _seconds(value, now)
        elif low == "x-should-retry":
            again = {"true": True, "false": False}.get(value.strip().lower())
    return RetryHints(after, again)


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if isfinite(number) and 0 <= number <= _YEAR * 1000 else None


def _seconds(value: str, now: float) -> float | None:
    """Return a `retry-after` in seconds: it is a number of them or an HTTP date (RFC 9110 §10.2.3)."""
    if (number := _number(value)) is not None:
        return min(number, _YEAR)
    try:
        moment = parsedate_to_datetime(value).timestamp()
    except (ValueError, OverflowError):
        return None
    return min(max(0.0, moment - now), _YEAR)

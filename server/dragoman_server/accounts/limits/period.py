"""Calendar days and months of UTC, and times in RFC 3339."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple


class Calendar(NamedTuple):
    """The current day and month, and the Unix seconds at which the next ones begin."""

    day: str
    month: str
    next_day: int
    next_month: int


def calendar(now: float) -> Calendar:
    """Return the calendar at `now`, in Unix seconds."""
    return _calendar(int(now // 86400))


def periods_at(millis: int) -> tuple[str, str]:
    """Return the day and the month at a time in milliseconds."""
    today = _calendar(millis // 86_400_000)
    return today.day, today.month


@lru_cache(64)
def rfc3339(second: int) -> str:
    """Return Unix seconds as a time in RFC 3339, such as `2026-11-22T00:00:00Z`."""
    # The same few seconds are formatted for all requests that arrive in one of them.
    days, second = divmod(second, 86400)
    return f"{_calendar(days).day}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"


@lru_cache(4)
def _calendar(days: int) -> Calendar:
    today = datetime.fromtimestamp(days * 86400, UTC)
    next_month = (today.replace(day=1) + timedelta(days=32)).replace(day=1)
    return Calendar(
        today.strftime("%Y-%m-%d"), today.strftime("%Y-%m"), (days + 1) * 86400, int(next_month.timestamp())
    )

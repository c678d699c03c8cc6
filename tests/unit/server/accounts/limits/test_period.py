"""Days and months."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman_server.accounts.limits.period import calendar, rfc3339


@pytest.mark.parametrize(
    ("moment", "day", "month", "next_day", "next_month"),
    [
        ((2026, 11, 22, 21), "2026-11-22", "2026-11", (2026, 11, 23), (2026, 12, 1)),
        ((2026, 12, 31, 23), "2026-12-31", "2026-12", (2027, 1, 1), (2027, 1, 1)),
        ((2028, 2, 29, 0), "2028-02-29", "2028-02", (2028, 3, 1), (2028, 3, 1)),
    ],
)
def test_periods_are_those_of_utc(
    moment: tuple[int, int, int, int],
    day: str,
    month: str,
    next_day: tuple[int, int, int],
    next_month: tuple[int, int, int],
) -> None:
    found = calendar(datetime(*moment, tzinfo=UTC).timestamp())
    assert (found.day, found.month) == (day, month)
    assert found.next_day == datetime(*next_day, tzinfo=UTC).timestamp()
    assert found.next_month == datetime(*next_month, tzinfo=UTC).timestamp()


@given(second=st.integers(0, 250_000_000_000))
def test_a_time_is_written_as_rfc_3339(second: int) -> None:
    assert rfc3339(second) == datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

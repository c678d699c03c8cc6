"""Pauses before retries: their bounds, and the headers by which upstreams set them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman_server.routing.backoff import RetryHints, backoff, retry_hints

NOW = 1_800_000_000.0
SHARES = st.floats(0, 1)


@given(st.integers(1, 10_000), st.floats(0, 60), st.floats(0, 60), SHARES)
def test_a_pause_is_at_least_half_of_its_limit_and_never_above_it(
    retry: int, first: float, longest: float, share: float
) -> None:
    pause = backoff(retry, first, longest, lambda: share)
    limit = min(longest, first * 2.0 ** min(retry - 1, 60))
    assert limit / 2 <= pause <= limit


@given(st.integers(1, 20), SHARES)
def test_pauses_double_until_the_longest(retry: int, share: float) -> None:
    one, next_one = (backoff(number, 0.5, 8.0, lambda: share) for number in (retry, retry + 1))
    assert next_one == pytest.approx(min(2 * one, 8.0 * (0.5 + share / 2)))


@pytest.mark.parametrize(
    ("headers", "after"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"Retry-After-Ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "7", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": "Fri, 15 Jan 2027 08:00:30 GMT"}, 30.0),
        ({"retry-after": "Fri, 15 Jan 2021 08:00:30 GMT"}, 0.0),
        ({"retry-after": "-7"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "soon", "retry-after": "7"}, 7.0),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_every_form(headers: dict[str, str], after: float | None) -> None:
    assert retry_hints(headers, NOW).after == after


@given(st.text(max_size=30))
def test_no_value_of_a_header_fails(value: str) -> None:
    after = retry_hints({"retry-after": value, "retry-after-ms": value, "x-should-retry": value}, NOW).after
    assert after is None or after >= 0


@pytest.mark.parametrize(("value", "again"), [("true", True), ("False", False), ("maybe", None)])
def test_x_should_retry(value: str, again: bool | None) -> None:
    assert retry_hints({"X-Should-Retry": value}, NOW) == RetryHints(None, again)

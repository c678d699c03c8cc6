"""The error of a request that a limit rejects."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from dragoman import Dialect
from dragoman_server.accounts.limits.claim import Claim, Outcome
from dragoman_server.accounts.limits.decision import SCALE
from dragoman_server.accounts.limits.key_limits import KeyLimits
from dragoman_server.accounts.limits.prices import UNITS
from dragoman_server.accounts.limits.rejection import no_price, rejection

CHAT = Dialect.CHAT
NOW = datetime(2026, 11, 22, 21, 30, tzinfo=UTC).timestamp()
LIMITS = KeyLimits(
    requests_per_minute=60, tokens_per_minute=1200, concurrent_requests=4, daily_tokens=5000, monthly_cost=20.0
)
assert LIMITS.active is not None
CLAIM = Claim("k", "l", LIMITS.active, (1, 100, UNITS))


def outcome(*rejected: str, levels: tuple[int, int] = (0, 0), spent: tuple[int, int] = (0, 0)) -> Outcome:
    return Outcome(rejected, 4, (levels[0] * SCALE, levels[1] * SCALE), spent)


@pytest.mark.parametrize(
    ("rejected", "seconds", "code", "message"),
    [
        (("concurrent",), 1, "rate_limit_exceeded", "may have 4 requests open at the same time, and has 4"),
        (("requests",), 1, "rate_limit_exceeded", "may use 60 requests per minute; try again in 1 s"),
        (("tokens",), 5, "rate_limit_exceeded", "may use 1200 tokens per minute; try again in 5 s"),
        (("requests", "tokens", "concurrent"), 5, "rate_limit_exceeded", "tokens per minute"),
        (
            ("tokens", "daily_tokens"),
            9000,
            "insufficient_quota",
            "has used 4950 tokens of 5000 for this day (UTC), and the request needs about 100; "
            "try again in the next day",
        ),
        (
            ("monthly_cost", "daily_tokens"),
            8 * 86400 + 9000,
            "insufficient_quota",
            "has used 19.50 of 20.00 for this month (UTC), and the request needs about 1.00",
        ),
    ],
)
def test_the_limit_that_takes_the_longest_is_named(
    rejected: tuple[str, ...], seconds: int, code: str, message: str
) -> None:
    found = outcome(*rejected, spent=(4950, 19_500_000_000))
    failure = rejection(CLAIM, found, CHAT, NOW).failure
    assert (failure.status, failure.code) == (429, code)
    assert failure.headers["retry-after"] == str(seconds)
    assert message in failure.message
    assert failure.headers.get("x-should-retry") == ("false" if code == "insufficient_quota" else None)


def test_a_debt_is_waited_for() -> None:
    failure = rejection(CLAIM, outcome("tokens", levels=(60, -1200)), CHAT, NOW).failure
    assert failure.headers["retry-after"] == "65"


def test_a_model_without_a_price_is_a_403_that_names_it() -> None:
    failure = no_price("gpt\u20ac").failure
    assert (failure.status, failure.code) == (403, "model_without_price")
    assert "the model 'gpt\\u20ac' has no price" in failure.message


def reserving(*, held: int, spent: int = 4000, less: bool = False) -> tuple[str | None, str, str, str | None]:
    claim = replace(CLAIM, holds=(0, 800, 0), holds_less=less)
    found = Outcome(("daily_tokens",), 4, (0, 0), (spent, 0), (held, 0))
    failure = rejection(claim, found, CHAT, NOW).failure
    return failure.code, failure.message, failure.headers["retry-after"], failure.headers.get("x-should-retry")


def test_reservations_of_others_end_soon() -> None:
    code, message, seconds, retry = reserving(held=500)
    assert (code, seconds, retry) == ("rate_limit_exceeded", "1", None)
    assert message == (
        "this API key has used 4000 tokens of 5000 for this day (UTC), its open requests reserve 500, "
        "and the request needs up to 900; try again when one of them has ended"
    )


def test_an_own_reservation_that_does_not_fit_needs_a_lower_limit() -> None:
    code, message, _, retry = reserving(held=0, spent=4500)
    assert (code, retry) == ("insufficient_quota", "false")
    assert message.endswith(
        "and the request needs up to 900, 800 of them for its longest reply; lower its output limit, "
        "or try again in the next day"
    )
    assert reserving(held=10, spent=4500)[0] == "insufficient_quota", "it would not fit without the others either"


def test_a_request_for_which_less_suffices_waits_for_others_only() -> None:
    assert reserving(held=10, spent=4500, less=True)[0] == "rate_limit_exceeded"
    code, message, _, _ = reserving(held=0, spent=4900, less=True)
    assert (code, message.endswith("the request needs about 100; try again in the next day")) == (
        "insufficient_quota",
        True,
    )


def test_a_budget_ends_by_the_clock_of_the_store() -> None:
    store = datetime(2026, 11, 22, 23, 59, tzinfo=UTC).timestamp()
    found = Outcome(("daily_tokens",), 4, (0, 0), (5000, 0), (0, 0), int(store * 1000))
    assert rejection(CLAIM, found, CHAT, NOW).failure.headers["retry-after"] == "60"

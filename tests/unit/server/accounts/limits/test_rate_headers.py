"""The headers with the limits per minute of a key."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dragoman import Dialect
from dragoman_server.accounts.limits.decision import SCALE
from dragoman_server.accounts.limits.key_limits import KeyLimits
from dragoman_server.accounts.limits.rate_headers import RateHeaders

CHAT, MESSAGES = Dialect.CHAT, Dialect.MESSAGES
NOW = datetime(2026, 11, 22, 21, 30, tzinfo=UTC).timestamp()
HEADERS = KeyLimits(requests_per_minute=60, tokens_per_minute=1200).rate_headers


@pytest.mark.parametrize(
    ("level", "remaining", "reset", "moment"),
    [
        (1200, "1200", "0s", "2026-11-22T21:30:00Z"),
        (1199, "1199", "50ms", "2026-11-22T21:30:01Z"),
        (1180, "1180", "1s", "2026-11-22T21:30:01Z"),
        (0, "0", "1m0s", "2026-11-22T21:31:00Z"),
        (-120_000, "0", "1h41m0s", "2026-11-22T23:11:00Z"),
    ],
)
def test_headers_have_the_vendors_forms(level: int, remaining: str, reset: str, moment: str) -> None:
    levels = 60 * SCALE, level * SCALE
    chat, messages = HEADERS.write(levels, CHAT, NOW), HEADERS.write(levels, MESSAGES, NOW)
    assert chat["x-ratelimit-limit-tokens"] == messages["anthropic-ratelimit-tokens-limit"] == "1200"
    assert chat["x-ratelimit-remaining-tokens"] == messages["anthropic-ratelimit-tokens-remaining"] == remaining
    assert chat["x-ratelimit-reset-tokens"] == reset
    assert messages["anthropic-ratelimit-tokens-reset"] == moment
    assert HEADERS.write(levels, Dialect.RESPONSES, NOW) == chat
    assert len(chat) == len(messages) == 6


def test_a_key_without_limits_per_minute_has_no_headers() -> None:
    assert RateHeaders(()).write((), CHAT, NOW) == {}


def test_the_headers_are_in_the_order_of_the_limits() -> None:
    assert list(HEADERS.write((0, 0), MESSAGES, NOW)) == [
        f"anthropic-ratelimit-{name}-{fact}"
        for name in ("requests", "tokens")
        for fact in ("limit", "remaining", "reset")
    ]


def test_headers_do_not_change_those_of_the_next_request() -> None:
    first = HEADERS.write((0, 0), CHAT, NOW)
    first["x-other"] = "1"
    full = HEADERS.write((60 * SCALE, 1200 * SCALE), CHAT, NOW)
    assert full["x-ratelimit-remaining-tokens"] == "1200"
    assert "x-other" not in full

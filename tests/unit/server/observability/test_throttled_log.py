"""One warning in a while of each kind of trouble with each upstream, and how many there were besides."""

from __future__ import annotations

from logging import INFO, WARNING

import pytest

from dragoman.dialects import Dialect
from dragoman.errors import Failure, FailureKind, FailureOrigin, StreamTruncated, UpstreamTimeout, UpstreamUnreachable
from dragoman_server.config.provider import Auth, Provider
from dragoman_server.observability.throttled_log import WARNING_INTERVAL, LinesPerMinute, UpstreamWarnings
from support.clocks import Clock

AWAY = UpstreamUnreachable("cannot connect to the upstream: Connection refused").failure
AT = "; upstream at up.test:443"
REFUSED = Failure(FailureKind.AUTHENTICATION, "words of the upstream's", 401)


@pytest.fixture
def clock() -> Clock:
    return Clock(5.0)


@pytest.fixture
def upstream_warnings(clock: Clock) -> UpstreamWarnings:
    url = "https://up.test/v1"
    providers = {
        "one": Provider("one", Dialect.CHAT, url),
        "two": Provider("two", Dialect.CHAT, url),
        "theirs": Provider("theirs", Dialect.CHAT, url, auth=Auth.PASSTHROUGH),
    }
    return UpstreamWarnings(providers, clock)


def test_the_first_is_a_warning_and_then_one_in_a_while_with_the_number_of_the_others(
    upstream_warnings: UpstreamWarnings, clock: Clock
) -> None:
    assert upstream_warnings.level("one", AWAY) == (WARNING, AT)
    for _ in range(3):
        clock.now += WARNING_INTERVAL / 4
        assert upstream_warnings.level("one", AWAY) == (INFO, AT)
    clock.now += WARNING_INTERVAL / 4
    assert upstream_warnings.level("one", AWAY) == (WARNING, f"{AT}; 3 more since the last warning")
    clock.now += WARNING_INTERVAL
    assert upstream_warnings.level("one", AWAY) == (WARNING, AT)


def test_each_upstream_and_each_kind_has_its_own(upstream_warnings: UpstreamWarnings) -> None:
    slow = UpstreamTimeout("connect", 10.0).failure
    for provider in ("one", "two"):
        for failure, note in ((AWAY, AT), (slow, AT), (REFUSED, ""), (Failure(FailureKind.PERMISSION, "", 403), "")):
            assert upstream_warnings.level(provider, failure) == (WARNING, note)
            assert upstream_warnings.level(provider, failure) == (INFO, note)


@pytest.mark.parametrize(
    "failure",
    [
        Failure(FailureKind.RATE_LIMIT, "", 429),
        Failure(FailureKind.OVERLOADED, "", 503),
        Failure(FailureKind.INVALID_REQUEST, "", 400),
        UpstreamTimeout("first_byte", 10.0).failure,
        StreamTruncated().failure,
    ],
    ids=lambda failure: f"{failure.kind}",
)
def test_what_passes_by_itself_or_is_the_clients_is_none(upstream_warnings: UpstreamWarnings, failure: Failure) -> None:
    assert upstream_warnings.level("one", failure) == (INFO, "")


def test_a_client_s_own_key_is_its_own_business(upstream_warnings: UpstreamWarnings) -> None:
    assert upstream_warnings.level("theirs", REFUSED) == (INFO, "")
    assert upstream_warnings.level("theirs", AWAY) == (WARNING, AT)


def test_a_client_that_is_refused_here_is_none(upstream_warnings: UpstreamWarnings) -> None:
    assert upstream_warnings.level(None, REFUSED) == (INFO, "")
    for origin in (FailureOrigin.CLIENT, FailureOrigin.PROXY):
        for kind in FailureKind:
            for reason in (None, "unreachable"):
                own = Failure(kind, "", 403, origin=origin, reason=reason)
                assert upstream_warnings.level("one", own) == (INFO, "")


def test_lines_in_one_minute(clock: Clock) -> None:
    lines = LinesPerMinute(2, clock)
    assert [lines.take() for _ in range(5)] == [True, True, False, False, False]
    clock.now += 60
    assert (lines.take(), lines.suppressed(), lines.suppressed()) == (True, 3, 0)

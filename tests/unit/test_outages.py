"""One warning in a while of each kind of trouble with each upstream, and how many there were besides."""

from __future__ import annotations

from logging import INFO, WARNING

import pytest

from dragoman.dialects import Dialect
from dragoman.errors import Failure, FailureKind, StreamTruncated, UpstreamTimeout, UpstreamUnreachable
from dragoman_server.config.providers import Auth, Provider
from dragoman_server.observability.upstream_warnings import PAUSE, Outages
from support.clocks import Clock

AWAY = UpstreamUnreachable("cannot connect to the upstream: Connection refused").failure
AT = "; upstream at up.test:443"
REFUSED = Failure(FailureKind.AUTHENTICATION, "words of the upstream's", 401)


@pytest.fixture
def clock() -> Clock:
    return Clock(5.0)


@pytest.fixture
def outages(clock: Clock) -> Outages:
    url = "https://up.test/v1"
    providers = {
        "one": Provider("one", Dialect.CHAT, url),
        "two": Provider("two", Dialect.CHAT, url),
        "theirs": Provider("theirs", Dialect.CHAT, url, auth=Auth.PASSTHROUGH),
    }
    return Outages(providers, clock)


def test_the_first_is_a_warning_and_then_one_in_a_while_with_the_number_of_the_others(
    outages: Outages, clock: Clock
) -> None:
    assert outages.level("one", AWAY) == (WARNING, AT)
    for _ in range(3):
        clock.now += PAUSE / 4
        assert outages.level("one", AWAY) == (INFO, AT)
    clock.now += PAUSE / 4
    assert outages.level("one", AWAY) == (WARNING, f"{AT}; 3 more since the last warning")
    clock.now += PAUSE
    assert outages.level("one", AWAY) == (WARNING, AT)


def test_each_upstream_and_each_kind_has_its_own(outages: Outages) -> None:
    slow = UpstreamTimeout("connect", 10.0).failure
    for provider in ("one", "two"):
        for failure, note in ((AWAY, AT), (slow, AT), (REFUSED, ""), (Failure(FailureKind.PERMISSION, "", 403), "")):
            assert outages.level(provider, failure) == (WARNING, note)
            assert outages.level(provider, failure) == (INFO, note)


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
def test_what_passes_by_itself_or_is_the_clients_is_none(outages: Outages, failure: Failure) -> None:
    assert outages.level("one", failure) == (INFO, "")


def test_a_client_s_own_key_is_its_own_business(outages: Outages) -> None:
    assert outages.level("theirs", REFUSED) == (INFO, "")
    assert outages.level("theirs", AWAY) == (WARNING, AT)


def test_a_client_that_is_refused_here_is_none(outages: Outages) -> None:
    assert outages.level(None, REFUSED) == (INFO, "")

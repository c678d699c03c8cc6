"""Providers that are down, by the counters of requests."""

from __future__ import annotations

import pytest

from dragoman_server.observability.metric_families import PROVIDER_DOWN, REQUESTS, UPSTREAM_ERRORS, Totals
from dragoman_server.observability.provider_health import FAILURES, FORGET, INTERVAL, ProviderHealth
from support.clocks import Clock


class Providers:
    """Counters, and the health that follows from them."""

    def __init__(self) -> None:
        self.totals, self.clock = Totals(), Clock()
        self.health = ProviderHealth(self.totals, self.clock)

    def ended(self, ended: str, status: str, kind: str = "", *, times: int = 1, provider: str = "a") -> None:
        self.totals.add(REQUESTS, ("chat", provider, "*", ended, status), times)
        if kind:
            self.totals.add(UPSTREAM_ERRORS, (provider, kind), times)

    def down(self, seconds: float = INTERVAL) -> set[str]:
        self.clock.now += seconds
        self.health.update()
        return set(self.health.down())


@pytest.mark.parametrize("kind", ["upstream_unreachable", "timeout", "overloaded", "api", "upstream_protocol"])
def test_a_provider_that_only_fails_is_down_until_it_succeeds(kind: str) -> None:
    seen = Providers()
    seen.ended("completed", "2xx", times=50, provider="b")
    seen.ended("failed", "5xx", kind, times=FAILURES - 1)
    assert seen.down() == set()
    seen.ended("failed", "5xx", kind)
    assert seen.down(INTERVAL / 2) == set(), "not before the interval"
    assert seen.down() == {"a"}
    assert seen.down() == {"a"}
    totals = Totals()
    seen.health.add_gauges(totals)
    assert totals.values[PROVIDER_DOWN.name] == {("a",): [1], ("b",): [0]}
    seen.ended("completed", "2xx")
    assert seen.down() == set()


@pytest.mark.parametrize(
    ("ended", "status", "kind"),
    [
        ("refused", "4xx", "invalid_request"),
        ("refused", "4xx", "rate_limit"),
        ("failed", "2xx", "stream_truncated"),
        ("abandoned", "4xx", ""),
        ("rejected", "4xx", ""),
    ],
)
def test_other_ends_do_not_make_a_provider_down(ended: str, status: str, kind: str) -> None:
    seen = Providers()
    seen.ended(ended, status, kind, times=FAILURES * 3)
    assert seen.down() == set()


def test_without_requests_a_provider_is_forgotten() -> None:
    seen = Providers()
    seen.ended("failed", "5xx", "timeout", times=FAILURES)
    assert seen.down() == {"a"}
    assert seen.down(FORGET - 1) == {"a"}
    assert seen.down() == set()


def test_failures_next_to_successes_do_not_add_up() -> None:
    seen = Providers()
    for _ in range(FAILURES * 2):
        seen.ended("failed", "5xx", "timeout")
        seen.ended("completed", "2xx")
        assert seen.down() == set()

"""The providers that are down, as far as their last requests show: nothing is sent to find out.

The counters of requests are compared every few seconds, so that single requests cost nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from dragoman_server.observability.metric_families import PROVIDER_DOWN, REQUESTS, UPSTREAM_ERRORS, Totals

INTERVAL = 5.0
"""Seconds between two comparisons."""
FAILURES = 3
"""Failures without a success after which a provider is down."""
FORGET = 60.0
"""Seconds without a failure after which a provider does not count as down any longer, as its state is not known."""
_UNREACHABLE = "upstream_unreachable"
_OUTAGES = frozenset({"api", "overloaded", "timeout", "upstream_protocol", _UNREACHABLE})
"""Kinds of errors of a provider that is not there. A broken stream does not show that."""


@dataclass(slots=True)
class _State:
    succeeded: float = 0
    failed: float = 0
    lost: float = 0
    failures: float = 0
    """Failures since the last success."""
    unreached: float = 0
    """Those of them that no client can have caused: there was no connection."""
    failed_at: float = 0.0


class ProviderHealth:
    """The health of providers by the counters in `totals`. `clock` returns seconds from any origin."""

    def __init__(self, totals: Totals, clock: Callable[[], float]) -> None:
        self._totals = totals
        self._clock = clock
        self._next = clock() + INTERVAL
        self._states: dict[str, _State] = {}

    def update(self) -> None:
        """Compare the counters with those of the last time, if `INTERVAL` has passed."""
        now = self._clock()
        if now >= self._next:
            self._next = now + INTERVAL
            self.compare(now)

    def compare(self, now: float) -> None:
        """Compare the counters with those of the last time."""
        succeeded: Counter[str] = Counter()
        failed: Counter[str] = Counter()
        lost: Counter[str] = Counter()
        for (_, provider, _, ended, status), count in self._totals.series(REQUESTS).items():
            # A provider that refuses a request as wrong is there.
            if ended == "completed" or (ended == "refused" and status == "4xx"):
                succeeded[provider] += int(count[0])
        for (provider, kind), count in self._totals.series(UPSTREAM_ERRORS).items():
            if kind in _OUTAGES:
                failed[provider] += int(count[0])
                lost[provider] += int(count[0]) if kind == _UNREACHABLE else 0
        for provider in {*succeeded, *failed}:
            state = self._states.setdefault(provider, _State())
            if succeeded[provider] > state.succeeded:
                state.failures = state.unreached = 0
            elif failed[provider] > state.failed:
                state.failures += failed[provider] - state.failed
                state.unreached += lost[provider] - state.lost
            if failed[provider] > state.failed:
                state.failed_at = now
            elif now - state.failed_at >= FORGET:
                state.failures = state.unreached = 0
            state.succeeded, state.failed, state.lost = succeeded[provider], failed[provider], lost[provider]

    def down(self) -> frozenset[str]:
        """Return the names of the providers that are down."""
        return frozenset(provider for provider, state in list(self._states.items()) if state.failures >= FAILURES)

    def unreachable(self) -> frozenset[str]:
        """Return the names of those that cannot be reached. Other failures may be caused by what one client sends."""
        return frozenset(provider for provider, state in list(self._states.items()) if state.unreached >= FAILURES)

    def add_gauges(self, totals: Totals) -> None:
        """Add a number for each provider that was asked at all."""
        down = self.down()
        for provider in list(self._states):  # a copy, as a collector may run in another thread
            totals.put(PROVIDER_DOWN, (provider,), provider in down)

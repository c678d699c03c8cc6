"""Rates of the hosts of a gateway, from the counters of several statuses."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from dragoman.wire import Json

WINDOW: Final = 10.0
"""Seconds over which a rate is taken. A host writes its counters every two seconds."""
_NAMES: Final = ("requests", "tokens", "errors")


class Rates(NamedTuple):
    """Rates per second."""

    requests: float = 0.0
    tokens: float = 0.0
    errors: float = 0.0

    def plus(self, other: Rates) -> Rates:
        """Return the sum of both."""
        return Rates(*(one + two for one, two in zip(self, other, strict=True)))


class HostRates:
    """The rates of each host, by its name and its start: after a restart it counts from zero."""

    def __init__(self) -> None:
        self._samples: dict[tuple[str, int], deque[tuple[float, Rates]]] = {}

    def add(self, now: float, status: Json) -> None:
        """Add the counters of a status at `now`, in seconds."""
        found = {}
        for host in status["hosts"]:
            name = host["host"], host["started"]
            samples = found[name] = self._samples.get(name, deque())
            samples.append((now, Rates(*(float(host[each]) for each in _NAMES))))
            while len(samples) > 2 and samples[1][0] <= now - WINDOW:
                samples.popleft()
        self._samples = found

    def of(self, host: Json) -> Rates:
        """Return the rates of a host; zero before there are two statuses."""
        samples = self._samples.get((host["host"], host["started"]), deque())
        if len(samples) < 2 or samples[-1][0] <= samples[0][0]:
            return Rates()
        (first_at, first), (last_at, last) = samples[0], samples[-1]
        seconds = last_at - first_at
        # The counters of a worker that has ended are gone.
        return Rates(*(max(0.0, after - before) / seconds for before, after in zip(first, last, strict=True)))

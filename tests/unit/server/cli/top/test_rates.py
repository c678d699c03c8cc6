"""Rates of hosts."""

from __future__ import annotations

from typing import Any

from dragoman_server.cli.top.rates import WINDOW, HostRates, Rates


def status(requests: int, started: int = 100) -> dict[str, Any]:
    host = {"host": "gw-1", "started": started, "requests": requests, "tokens": 10 * requests, "errors": 0}
    return {"hosts": [host]}


def test_a_rate_is_that_of_the_last_seconds() -> None:
    rates = HostRates()
    (host,) = status(0)["hosts"]
    assert rates.of(host) == Rates()
    rates.add(0.0, status(0))
    assert rates.of(host) == Rates()
    rates.add(2.0, status(10))
    assert rates.of(host) == Rates(5.0, 50.0, 0.0)
    for second in range(3, 30):
        rates.add(float(second), status(10))
    assert rates.of(host) == Rates(0.0, 0.0, 0.0)
    assert rates.of(host).plus(Rates(1.0, 2.0, 3.0)) == Rates(1.0, 2.0, 3.0)
    assert WINDOW < 27


def test_a_host_that_began_again_counts_from_zero() -> None:
    rates = HostRates()
    rates.add(0.0, status(1000))
    rates.add(1.0, status(5, started=200))
    (host,) = status(0, started=200)["hosts"]
    assert rates.of(host) == Rates()
    rates.add(2.0, status(6, started=200))
    assert rates.of(host).requests == 1.0
    rates.add(3.0, status(2, started=200))  # a worker has ended, and its counters are gone
    assert rates.of(host).requests == 0.0

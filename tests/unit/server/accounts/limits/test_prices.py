"""Costs in the units of the stores."""

from __future__ import annotations

from decimal import Decimal

from dragoman import Usage
from dragoman.gateway import ServiceReport
from dragoman_server.accounts.limits.prices import UNITS, cost_units, money


def test_costs_are_rounded_up_to_whole_units() -> None:
    class Prices:
        def cost(
            self, usage: Usage, model: str, provider: str | None = None, service: ServiceReport | None = None
        ) -> Decimal | None:
            return Decimal("0.0000000001") * (usage.input_total or 0) if model == "m" else None

    assert cost_units(Prices(), Usage(input_total=1), "m") == 1
    assert cost_units(Prices(), Usage(input_total=20), "m") == 2
    assert cost_units(Prices(), Usage(input_total=0), "m") == 0
    assert cost_units(Prices(), Usage(input_total=1), "other") is None
    assert cost_units(None, Usage(input_total=1), "m") is None


def test_costs_are_shown_with_two_digits() -> None:
    assert money(12 * UNITS + UNITS // 2) == "12.50"
    assert money(0) == "0.00"
    assert money(UNITS // 2) == "0.50"
    assert money(282_000) == "0.000282"

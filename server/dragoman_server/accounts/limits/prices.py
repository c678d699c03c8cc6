"""The cost of a request, by a price table that this package does not own."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from dragoman import Usage
from dragoman.gateway import ServiceReport

if TYPE_CHECKING:
    from decimal import Decimal  # 0.5 MB of memory, needed only for budgets of cost

UNITS = 10**9
"""Units in which stores count cost: a token at 0.05 per million costs 50 of them."""


class Prices(Protocol):
    """A price table."""

    def cost(
        self, usage: Usage, model: str, provider: str | None = None, service: ServiceReport | None = None
    ) -> Decimal | None:
        """Return the cost of these tokens at a provider's model, or None if the model has no price.

        `service` is what the upstream stated about its service, such as the tier and its searches.
        """
        ...


def cost_units(
    prices: Prices | None,
    usage: Usage,
    model: str,
    provider: str | None = None,
    service: ServiceReport | None = None,
) -> int | None:
    """Return the cost in `UNITS`, rounded up; None if there is no price."""
    cost = prices.cost(usage, model, provider, service) if prices is not None else None
    return None if cost is None else math.ceil(cost * UNITS)


def money(units: int) -> str:
    """Return a cost for messages, such as `12.50`, or `0.000282` where two digits would show nothing."""
    from decimal import Decimal

    cost = Decimal(units) / UNITS
    return f"{cost:.2f}" if not 0 < cost < 1 else f"{cost:.6f}".rstrip("0").ljust(4, "0")

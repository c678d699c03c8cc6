"""The prices of upstream models: the tables `[prices."PATTERN"]` of the configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TYPE_CHECKING

from dragoman import Usage
from dragoman.gateway import ServiceReport
from dragoman_server.accounts.usage.price import Price
from dragoman_server.accounts.usage.rates import Rates

if TYPE_CHECKING:
    from decimal import Decimal  # 0.5 MB of memory, needed only with prices

_CACHED_MODELS = 1024
"""Most models whose price is remembered: clients may choose their names."""
_COUNTS = ("input_total", "cache_read", "cache_write", "output_total", "cache_write_1h")
"""The counts of a usage that have a price."""


class PriceTable:
    """Prices by a pattern of the upstream's model, in which `*` and `?` match.

    An exact name comes before patterns, a longer pattern before a shorter one. `providers` has the prices of single
    providers by their names; they come before all others. `rest` has those of models without a price here.
    """

    def __init__(
        self,
        prices: Mapping[str, Price],
        providers: Mapping[str, Mapping[str, Price]] = MappingProxyType({}),
        rest: PriceTable | None = None,
    ) -> None:
        self._exact = {pattern: Rates(price) for pattern, price in prices.items() if not _is_pattern(pattern)}
        patterns = sorted((each for each in prices if _is_pattern(each)), key=lambda each: (-len(each), each))
        self._patterns = [(pattern, Rates(prices[pattern])) for pattern in patterns]
        self._providers = {name: PriceTable(own) for name, own in providers.items() if own}
        self._known: dict[tuple[str, str | None], Rates | None] = {}
        """Model and provider → the price there."""
        self._rest = rest if rest else None
        self._any = bool(self._exact or self._patterns or self._providers or self._rest)

    def __bool__(self) -> bool:
        return self._any

    def has(self, model: str, provider: str) -> bool:
        """True if an upstream's model has a price at a provider."""
        return self._rates_at(model, provider) is not None

    def cost(
        self, usage: Usage, model: str, provider: str | None = None, service: ServiceReport | None = None
    ) -> Decimal | None:
        """Return the cost of these tokens at a provider's model, or None if the model has no price.

        Tokens that other models used have the price of those models, if it is known, else that of `model`. `service`
        is what the upstream stated: its tier, the speed, and the calls of its tools.
        """
        rates = self._rates_at(model, provider)
        if rates is None:
            return None
        cost = rates.cost(_without(usage, usage.other_models) if usage.other_models else usage, service)
        for other, part in usage.other_models:
            own = self._rates_at(other, provider) if other else None
            cost += rates.cost(part, service) if own is None else own.cost(part, _at_any_speed(service))
        return cost + rates.cost_of_calls(service) if rates.calls and service is not None else cost

    def _rates_at(self, model: str, provider: str | None) -> Rates | None:
        try:
            return self._known[model, provider]
        except KeyError:
            return self._find(model, provider)

    def _find(self, model: str, provider: str | None) -> Rates | None:
        own = self._providers.get(provider) if provider is not None else None
        found = own._rates_at(model, None) if own is not None else None
        if found is None:
            found = self._exact.get(model)
        if found is None:
            found = next((rates for pattern, rates in self._patterns if fnmatchcase(model, pattern)), None)
        if found is None and self._rest is not None:
            found = self._rest._rates_at(model, provider)
        if len(self._known) < _CACHED_MODELS:
            self._known[model, provider] = found
        return found


def _without(usage: Usage, parts: Sequence[tuple[str, Usage]]) -> Usage:
    """Return the counts that are left without some parts, of which none is below 0."""
    left = Usage()
    for name in _COUNTS:
        counted = sum(getattr(part, name) or 0 for _, part in parts)
        setattr(left, name, max(0, (getattr(usage, name) or 0) - counted))
    return left


def _at_any_speed(service: ServiceReport | None) -> ServiceReport | None:
    """Return the report for another model than that of the reply, whose speed it was."""
    return None if service is None or service.tier is None else ServiceReport(service.tier)


def _is_pattern(text: str) -> bool:
    return "*" in text or "?" in text

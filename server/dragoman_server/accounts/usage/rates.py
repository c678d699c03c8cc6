"""The rates by which a model's cost is computed: the numbers of a price as exact decimals of one token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dragoman import Usage
from dragoman.gateway import AUDIO_TOKENS, ServiceReport
from dragoman_server.accounts.usage.price import TOKEN_PRICES, Price, TierPrice

if TYPE_CHECKING:
    from decimal import Decimal  # 0.5 MB of memory, needed only with prices

_MILLION = 1_000_000
_WEB_SEARCH = "web_search"
TokenRates = tuple["Decimal", ...]
"""The rates of fresh input, output, cache reads, cache writes, and cache writes for an hour."""
_Prices = list["Decimal | None"]
"""Prices per million tokens in the order of `TOKEN_PRICES`; None for one that is not set."""


@dataclass(slots=True)
class _Tariff:
    """The rates of one tier: `base`, and from the longest on those of longer requests."""

    base: TokenRates
    steps: Sequence[tuple[int, TokenRates]]

    def cost(self, usage: Usage) -> Decimal:
        """Return the cost of the tokens of one request."""
        rates, total = self.base, usage.input_total or 0
        for above, longer in self.steps:
            if total > above:
                rates = longer
                break
        read, written = usage.cache_read or 0, usage.cache_write or 0
        fresh = total - read - written
        cost = rates[0] * (fresh if fresh > 0 else 0) + rates[1] * (usage.output_total or 0)
        if read or written:
            hour = min(written, usage.cache_write_1h or 0)
            cost += rates[2] * read + rates[3] * (written - hour) + rates[4] * hour
        return cost


class Rates:
    """The rates of one model, of a price whose values have no problems. `calls` has those of tools with a price."""

    def __init__(self, price: Price) -> None:
        base = _prices_of(price)
        if price.minute is not None:
            base[0] = _exact(price.minute) * _MILLION / (60 * AUDIO_TOKENS)
        steps = [(step.above, _over(step, base)) for step in price.steps]
        self._base = _tariff(base, steps)
        self._tiers = {name: _tier(tier, base, steps) for name, tier in price.tiers.items()}
        self.calls = {tool: _exact(amount) for tool, amount in price.calls.priced()}

    def cost(self, usage: Usage, service: ServiceReport | None = None) -> Decimal:
        """Return the cost of the tokens of one request at the tier and the speed of its report."""
        tariff = self._base
        if service is not None and self._tiers:
            tariff = self._tiers.get(service.speed or "") or self._tiers.get(service.tier or "") or tariff
        return tariff.cost(usage)

    def cost_of_calls(self, service: ServiceReport) -> Decimal | int:
        """Return the cost of the calls that a report counts."""
        counts = {_WEB_SEARCH: service.searches or 0, **(service.calls or {})}
        return sum(price * counts.get(tool, 0) for tool, price in self.calls.items())


def _tier(tier: TierPrice, base: _Prices, steps: Sequence[tuple[int, _Prices]]) -> _Tariff:
    factor = _exact(tier.factor)
    prices = _over(tier, _times(base, factor))
    if tier.has_own_prices or tier.steps:
        return _tariff(prices, [(step.above, _over(step, prices)) for step in tier.steps])
    return _tariff(prices, [(above, _times(longer, factor)) for above, longer in steps])


def _tariff(base: _Prices, steps: Sequence[tuple[int, _Prices]]) -> _Tariff:
    ordered = sorted(steps, key=lambda step: -step[0])
    return _Tariff(_rates(base), [(above, _rates(prices)) for above, prices in ordered])


def _exact(price: float) -> Decimal:
    """Return a price as the decimal that its shortest form writes."""
    from decimal import Decimal

    return Decimal(str(price))


def _prices_of(price: object) -> _Prices:
    values = [getattr(price, name) for name in TOKEN_PRICES]
    return [None if value is None else _exact(value) for value in values]


def _over(price: object, base: _Prices) -> _Prices:
    """Return the prices of `price`, and those of `base` for what it does not name."""
    return [other if own is None else own for own, other in zip(_prices_of(price), base, strict=True)]


def _times(prices: _Prices, factor: Decimal) -> _Prices:
    return [None if price is None else price * factor for price in prices]


def _rates(prices: _Prices) -> TokenRates:
    """Return the rates of a token. A cache costs what fresh input does, unless it has a price."""
    from decimal import Decimal

    fresh, output, read, written, hour = prices
    fresh, output = fresh or Decimal(0), output or Decimal(0)
    read = fresh if read is None else read
    written = fresh if written is None else written
    hour = written if hour is None else hour
    return tuple(each / _MILLION for each in (fresh, output, read, written, hour))

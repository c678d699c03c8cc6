"""The prices of upstream models: the tables `[prices."PATTERN"]` of the configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING

from dragoman import Usage
from dragoman.gateway import AUDIO_TOKENS
from dragoman_server.config.setting import setting
from dragoman_server.config.toml_reader import Problem, join

if TYPE_CHECKING:
    from decimal import Decimal  # 0.5 MB of memory, needed only with prices

_MILLION = 1_000_000
_CACHED_MODELS = 1024
"""Most models whose price is remembered: clients may choose their names."""
_UNKNOWN: tuple[Decimal, ...] = ()
"""The price of a model that is not remembered."""


@dataclass(frozen=True, slots=True)
class Price:
    """Prices per million tokens, in the currency of all budgets. Reasoning is part of the output."""

    input: float = setting(0.0)
    """Fresh input."""
    output: float = setting(0.0)
    """Output, with reasoning."""
    cache_read: float | None = setting(None)
    """Input that was read from a cache (default: that of input)."""
    cache_write: float | None = setting(None)
    """Input that was written to a cache (default: that of input)."""
    cache_write_1h: float | None = setting(None)
    """Input that was written to a cache for an hour (default: that of cache_write)."""
    minute: float | None = setting(None)
    """A minute of audio, in place of input, for models that count no tokens."""

    def problems(self, path: str) -> Iterator[Problem]:
        """Yield the problems of these prices."""
        for spec in fields(self):
            value = getattr(self, spec.name)
            if value is not None and not (isfinite(value) and value >= 0):
                yield join(path, spec.name), f"expected 0 or more per million tokens; got {value:g}"
        if self.minute is not None and self.input:
            yield join(path, "minute"), "is a price in place of `input`: set one of them"


class PriceTable:
    """Prices by a pattern of the upstream's model, in which `*` and `?` match.

    An exact name comes before patterns, a longer pattern before a shorter one. `providers` has the prices of single
    providers by their names; they come before all others.
    """

    def __init__(
        self, prices: Mapping[str, Price], providers: Mapping[str, Mapping[str, Price]] = MappingProxyType({})
    ) -> None:
        self._exact = {pattern: _decimals(price) for pattern, price in prices.items() if not _is_pattern(pattern)}
        patterns = sorted((each for each in prices if _is_pattern(each)), key=lambda each: (-len(each), each))
        self._patterns = [(pattern, _decimals(prices[pattern])) for pattern in patterns]
        self._providers = {name: PriceTable(own) for name, own in providers.items() if own}
        self._known: dict[tuple[str, str | None], tuple[Decimal, ...] | None] = {}
        """Model and provider → the price there."""
        self._any = bool(self._exact or self._patterns or self._providers)

    def __bool__(self) -> bool:
        return self._any

    def has(self, model: str, provider: str) -> bool:
        """True if an upstream's model has a price at a provider."""
        return self._price_at(model, provider) is not None

    def cost(self, usage: Usage, model: str, provider: str | None = None) -> Decimal | None:
        """Return the cost of these tokens at a provider's model, or None if the model has no price.

        Tokens that other models used have the price of those models, if it is known, else that of `model`.
        """
        price = self._price_at(model, provider)
        if price is None:
            return None
        cost = _cost(price, usage)
        for other, part in usage.other_models:
            own = self._price_at(other, provider)
            if own is not None:
                cost += _cost(own, part) - _cost(price, part)
        return cost

    def _price_at(self, model: str, provider: str | None) -> tuple[Decimal, ...] | None:
        price = self._known.get((model, provider), _UNKNOWN)
        return price if price is not _UNKNOWN else self._find(model, provider)

    def _find(self, model: str, provider: str | None) -> tuple[Decimal, ...] | None:
        own = self._providers.get(provider) if provider is not None else None
        price = own._price_at(model, None) if own is not None else None
        if price is None:
            price = self._exact.get(model)
        if price is None:
            price = next((price for pattern, price in self._patterns if fnmatchcase(model, pattern)), None)
        if len(self._known) < _CACHED_MODELS:
            self._known[model, provider] = price
        return price


def _cost(price: tuple[Decimal, ...], usage: Usage) -> Decimal:
    """Return the cost of these tokens by a price of `_decimals`."""
    read, written = usage.cache_read or 0, usage.cache_write or 0
    fresh = (usage.input_total or 0) - read - written
    cost = price[0] * (fresh if fresh > 0 else 0) + price[1] * (usage.output_total or 0)
    if read or written:
        hour = min(written, usage.cache_write_1h or 0)
        cost += price[2] * read + price[3] * (written - hour) + price[4] * hour
    return cost


def _is_pattern(text: str) -> bool:
    return "*" in text or "?" in text


def _decimals(price: Price) -> tuple[Decimal, ...]:
    """Return the prices of a token: fresh input, output, cache reads, cache writes, and those for an hour."""
    from decimal import Decimal  # half a megabyte, for gateways that have prices

    fresh = Decimal(str(price.input))
    if price.minute is not None:
        fresh = Decimal(str(price.minute)) * _MILLION / (60 * AUDIO_TOKENS)
    read = fresh if price.cache_read is None else price.cache_read
    written = fresh if price.cache_write is None else price.cache_write
    hour = written if price.cache_write_1h is None else price.cache_write_1h
    return tuple(Decimal(str(each)) / _MILLION for each in (fresh, price.output, read, written, hour))

"""The prices of a public list: one model of one vendor, and its table for the configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from dragoman_server.accounts.usage.price import TOKEN_PRICES
from dragoman_server.config.config_error import join

Amounts = dict[str, Decimal]
"""Prices per million tokens, by their keys (`TOKEN_PRICES`)."""
_DECIMALS = 12
"""Decimals of a price per million tokens that are kept: lists have numbers such as 0.39999999999999997."""


@dataclass(slots=True)
class ListedTier:
    """The prices of a tier: `factor` times the model's, or else its own. `steps` are those of longer requests."""

    prices: Amounts = field(default_factory=dict)
    steps: dict[int, Amounts] = field(default_factory=dict)
    factor: Decimal | None = None


@dataclass(slots=True)
class ListedPrice:
    """The price of a model at a vendor, as the list names both. `left_out` are the keys of the list without a use."""

    vendor: str
    model: str
    prices: Amounts = field(default_factory=dict)
    steps: dict[int, Amounts] = field(default_factory=dict)
    tiers: dict[str, ListedTier] = field(default_factory=dict)
    calls: Amounts = field(default_factory=dict)
    minute: Decimal | None = None
    left_out: list[str] = field(default_factory=list)

    @property
    def is_priced(self) -> bool:
        """True if there is a price for tokens or for audio."""
        return bool({"input", "output"} & self.prices.keys()) or self.minute is not None

    def tier(self, name: str) -> ListedTier:
        """Return the prices of a tier, which is added to the price if it has no such one."""
        return self.tiers.setdefault(name, ListedTier())

    def lines(self, table: str) -> Iterator[str]:
        """Yield the lines of the table for the configuration; `table` is its path."""
        yield f"[{table}]"
        minute = {} if self.minute is None else {"minute": self.minute}
        yield from _pairs(minute or self.prices)
        yield from _steps(f"{table}.steps", self.steps)
        for name, tier in self.tiers.items():
            at = join(f"{table}.tiers", name)
            factor = _common_factor(self, tier) if tier.factor is None else tier.factor
            yield f"[{at}]"
            yield from _pairs(tier.prices if factor is None else {"factor": factor})
            yield from _steps(f"{at}.steps", tier.steps) if factor is None else ()
        if self.calls:
            yield f"[{table}.calls]"
            yield from _pairs(self.calls)


def amount_of(value: Any) -> Decimal | None:
    """Return a price of a list, which was read with `Decimal` for its numbers; None for what is no price."""
    if type(value) not in (int, Decimal):
        return None
    found = Decimal(value)
    return found if found.is_finite() and found >= 0 else None


def _common_factor(price: ListedPrice, tier: ListedTier) -> Decimal | None:
    """Return the factor by which all prices of a tier differ from the model's, or None if there is no such one.

    A key that the list leaves out at the tier, such as that of a cache, follows the others then.
    """
    if not {"input", "output"} <= tier.prices.keys() or tier.steps.keys() != price.steps.keys():
        return None
    pairs = [(tier.prices, price.prices), *((own, price.steps[above]) for above, own in tier.steps.items())]
    factors = set()
    for own, base in pairs:
        for key, amount in own.items():
            if not base.get(key):
                return None
            factors.add(amount / base[key])
    found = factors.pop()
    return found if not factors and found == round(found, 6) else None


def _steps(table: str, steps: Mapping[int, Amounts]) -> Iterator[str]:
    for above, prices in sorted(steps.items()):
        yield f"[[{table}]]"
        yield f"above = {above}"
        yield from _pairs(prices)


def _pairs(amounts: Mapping[str, Decimal]) -> Iterator[str]:
    order = {key: place for place, key in enumerate(TOKEN_PRICES)}
    for key in sorted(amounts, key=lambda key: order.get(key, len(order))):
        yield f"{key} = {_number(amounts[key])}"


def _number(amount: Decimal) -> str:
    """Return a number without an exponent and without zeros at its end."""
    text = f"{round(amount, _DECIMALS):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text

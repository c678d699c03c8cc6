"""A listed price as a table of the configuration."""

from __future__ import annotations

import tomllib
from decimal import Decimal
from typing import Any

import pytest

from dragoman_server.cli.imports.price_list import ListedPrice, ListedTier, amount_of


def amounts(**prices: str) -> dict[str, Decimal]:
    return {key: Decimal(price) for key, price in prices.items()}


def table(price: ListedPrice) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads("\n".join(price.lines('prices."m.1"')))["prices"]["m.1"]
    return found


BASE = amounts(input="2.5", output="15", cache_read="0.25")


@pytest.mark.parametrize(
    ("tier", "written"),
    [
        (ListedTier(amounts(input="1.25", output="7.5", cache_read="0.125")), {"factor": 0.5}),
        # The cache follows the other prices if the list leaves it out.
        (ListedTier(amounts(input="5", output="30")), {"factor": 2}),
        (ListedTier(amounts(input="1.25", output="7.5", cache_read="0.13")), None),
        (ListedTier(amounts(input="5", output="15")), None),
        (ListedTier(amounts(input="5")), None),
        (ListedTier(amounts(input="5", output="30", cache_write="1")), None),
        (ListedTier(factor=Decimal(6)), {"factor": 6}),
    ],
)
def test_a_tier_is_a_factor_where_all_its_prices_have_one(tier: ListedTier, written: dict[str, float] | None) -> None:
    own = {key: float(price) for key, price in tier.prices.items()}
    assert table(ListedPrice("v", "m", BASE, tiers={"t": tier}))["tiers"] == {"t": own if written is None else written}


def test_a_factor_holds_for_the_steps_too() -> None:
    steps = {272_000: amounts(input="5", output="22.5")}
    same = ListedTier(amounts(input="5", output="30"), {272_000: amounts(input="10", output="45")})
    other = ListedTier(amounts(input="5", output="30"), {272_000: amounts(input="10", output="40")})
    without = ListedTier(amounts(input="5", output="30"))
    found = table(ListedPrice("v", "m", BASE, steps, {"same": same, "other": other, "without": without}))
    assert found["steps"] == [{"above": 272_000, "input": 5, "output": 22.5}]
    assert found["tiers"]["same"] == {"factor": 2}
    assert found["tiers"]["other"] == {
        "input": 5,
        "output": 30,
        "steps": [{"above": 272_000, "input": 10, "output": 40}],
    }
    assert found["tiers"]["without"] == {"input": 5, "output": 30}


def test_numbers_have_neither_exponents_nor_the_rounding_errors_of_programs() -> None:
    price = ListedPrice("v", "m", amounts(input="1E-7", output="0.39999999999999997", cache_read="3.0E+2"))
    assert [*price.lines("t")] == ["[t]", "input = 0.0000001", "output = 0.4", "cache_read = 300"]


def test_calls_and_minutes_have_their_keys() -> None:
    price = ListedPrice("v", "m", calls=amounts(web_search="0.01"), minute=Decimal("0.006"))
    assert table(price) == {"minute": 0.006, "calls": {"web_search": 0.01}}
    assert price.is_priced
    assert not ListedPrice("v", "m", amounts(cache_read="1")).is_priced


@pytest.mark.parametrize(
    ("value", "amount"),
    [(3, Decimal(3)), (Decimal("0.1"), Decimal("0.1")), (-1, None), (True, None), ("1", None), (Decimal("NaN"), None)],
)
def test_what_is_a_price(value: Any, amount: Decimal | None) -> None:
    assert amount_of(value) == amount

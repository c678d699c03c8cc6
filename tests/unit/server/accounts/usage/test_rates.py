"""The cost of tokens and calls: by tier, speed, length and what the cache keeps."""

from __future__ import annotations

from decimal import Decimal

import pytest

from dragoman import Usage
from dragoman.gateway import ServiceReport
from dragoman_server.accounts.usage.price import CallPrices, Price, StepPrice, TierPrice
from dragoman_server.accounts.usage.rates import Rates

MILLION = 10**6
USAGE = Usage(1_000, cache_read=200, cache_write=100, output_total=50, cache_write_1h=40)
PRICE = Price(
    input=3.0,
    output=15.0,
    cache_read=0.3,
    cache_write=3.75,
    cache_write_1h=6.0,
    steps=(StepPrice(2_000, 6.0, 22.5, 0.6, 7.5, 12.0), StepPrice(9_000, output=100.0)),
    tiers={
        "flex": TierPrice(0.5),
        "priority": TierPrice(input=7.0, output=31.0),
        "fast": TierPrice(6.0, output=80.0, steps=(StepPrice(2_000, output=90.0),)),
        "batch": TierPrice(0.5, steps=(StepPrice(2_000, 4.0),)),
    },
    calls=CallPrices(web_search=0.01, file_search=0.0025),
)


def cost(usage: Usage, service: ServiceReport | None = None) -> Decimal:
    return Rates(PRICE).cost(usage, service) * MILLION


def of(*prices: str, usage: Usage = USAGE) -> Decimal:
    """The cost by prices of fresh input, output, cache reads, writes, and writes for an hour."""
    read, written, hour = usage.cache_read or 0, usage.cache_write or 0, usage.cache_write_1h or 0
    counts = ((usage.input_total or 0) - read - written, usage.output_total or 0, read, written - hour, hour)
    return sum((Decimal(price) * count for price, count in zip(prices, counts, strict=True)), Decimal(0))


BASE = ("3", "15", "0.3", "3.75", "6")


@pytest.mark.parametrize(
    ("service", "prices"),
    [
        (None, BASE),
        (ServiceReport(), BASE),
        (ServiceReport("default"), BASE),
        (ServiceReport("novel", "standard"), BASE),
        (ServiceReport("flex"), ("1.5", "7.5", "0.15", "1.875", "3")),
        # What a tier does not name costs its factor times the model's price.
        (ServiceReport("priority"), ("7", "31", "0.3", "3.75", "6")),
        (ServiceReport("priority", "fast"), ("18", "80", "1.8", "22.5", "36")),
        (ServiceReport("default", "fast"), ("18", "80", "1.8", "22.5", "36")),
        (ServiceReport("fast"), ("18", "80", "1.8", "22.5", "36")),
    ],
)
def test_the_tier_and_the_speed_that_served_have_their_prices(
    service: ServiceReport | None, prices: tuple[str, ...]
) -> None:
    assert cost(USAGE, service) == of(*prices)


@pytest.mark.parametrize(
    ("tier", "total", "prices"),
    [
        (None, 2_000, BASE),
        (None, 2_001, ("6", "22.5", "0.6", "7.5", "12")),
        # The step of a longer request, which names one price.
        (None, 9_001, ("3", "100", "0.3", "3.75", "6")),
        ("flex", 2_001, ("3", "11.25", "0.3", "3.75", "6")),
        # With prices of its own, a tier has only its own steps.
        ("priority", 9_001, ("7", "31", "0.3", "3.75", "6")),
        ("fast", 9_001, ("18", "90", "1.8", "22.5", "36")),
        ("batch", 2_001, ("4", "7.5", "0.15", "1.875", "3")),
    ],
)
def test_a_step_is_for_the_whole_request(tier: str | None, total: int, prices: tuple[str, ...]) -> None:
    usage = Usage(total, cache_read=200, cache_write=100, output_total=50, cache_write_1h=40)
    assert cost(usage, ServiceReport(tier)) == of(*prices, usage=usage)


def test_an_unset_price_of_the_cache_follows_the_input_of_the_tier_and_the_step() -> None:
    bare = Rates(Price(1.0, steps=(StepPrice(100, 2.0),), tiers={"flex": TierPrice(input=0.4)}))
    usage = Usage(100, cache_read=50, cache_write=30)
    assert bare.cost(usage) == 100 / Decimal(MILLION)
    assert bare.cost(usage, ServiceReport("flex")) == 40 / Decimal(MILLION)
    assert bare.cost(Usage(101, cache_read=50)) == 202 / Decimal(MILLION)


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        (ServiceReport(), "0"),
        (ServiceReport(searches=3), "0.03"),
        (ServiceReport("flex", searches=3, calls={"file_search": 2, "mcp": 9}), "0.035"),
    ],
)
def test_calls_have_their_price_at_every_tier(service: ServiceReport, expected: str) -> None:
    assert Rates(PRICE).cost_of_calls(service) == Decimal(expected)
    assert Rates(Price(1.0)).cost_of_calls(service) == 0


def test_a_minute_of_audio_costs_a_factor_too() -> None:
    rates = Rates(Price(minute=0.006, tiers={"flex": TierPrice(0.5)}))
    assert rates.cost(Usage(600), ServiceReport("flex")) == Decimal("0.003")

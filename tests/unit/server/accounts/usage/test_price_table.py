"""Prices by model, and the cost of tokens."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from dragoman import Usage
from dragoman.gateway import ServiceReport
from dragoman_server.accounts.usage.price import CallPrices, Price, StepPrice, TierPrice
from dragoman_server.accounts.usage.price_table import PriceTable

USAGE = Usage(input_total=1_000, cache_read=200, cache_write=100, output_total=50, reasoning=20)


def test_each_kind_of_token_has_its_price() -> None:
    table = PriceTable({"m": Price(input=3.0, output=15.0, cache_read=0.3, cache_write=3.75)})
    assert (
        table.cost(USAGE, "m")
        == (Decimal("3.0") * 700 + 15 * 50 + Decimal("0.3") * 200 + Decimal("3.75") * 100) / 10**6
    )


def test_the_cache_costs_as_much_as_fresh_input_by_default() -> None:
    assert PriceTable({"m": Price(input=2.0)}).cost(USAGE, "m") == Decimal(2) * 1000 / 10**6


def test_a_model_without_a_price_has_no_cost() -> None:
    table = PriceTable({"m": Price(1.0, 1.0)})
    assert table.cost(USAGE, "other") is None
    assert not PriceTable({})
    assert table


@pytest.mark.parametrize(
    ("model", "cost"), [("gpt-5", 1), ("gpt-5-mini", 3), ("gpt-5-pro", 2), ("gpt-4", 4), ("claude", 5)]
)
def test_the_exact_name_is_first_then_the_longest_pattern(model: str, cost: int) -> None:
    prices = {"*": 5, "gpt-*": 4, "gpt-5-*": 2, "gpt-5-min?": 3, "gpt-5": 1}
    table = PriceTable({pattern: Price(output=price) for pattern, price in prices.items()})
    for _ in range(2):  # the second time from memory
        assert table.cost(Usage(output_total=10**6), model) == cost


def test_more_cached_tokens_than_input_cost_no_negative_amount() -> None:
    assert PriceTable({"m": Price(input=1.0, cache_read=0.0)}).cost(Usage(input_total=5, cache_read=9), "m") == 0


def test_negative_prices_are_problems() -> None:
    problems = [*Price(input=-1.0, cache_read=float("nan")).problems('prices."m"')]
    assert [path for path, _ in problems] == ['prices."m".input', 'prices."m".cache_read']


def test_models_of_clients_do_not_fill_the_memory() -> None:
    table = PriceTable({"*": Price(output=1.0)})
    for number in range(3000):
        table.cost(USAGE, f"m{number}")
    assert len(table._known) == 1024


def test_writes_that_a_cache_keeps_for_an_hour_have_their_price() -> None:
    usage = Usage(input_total=100, cache_write=60, cache_write_1h=20)
    price = Price(input=1.0, cache_write=1.25, cache_write_1h=2.0)
    assert PriceTable({"m": price}).cost(usage, "m") == (40 + Decimal("1.25") * 40 + 2 * 20) / 10**6
    assert PriceTable({"m": replace(price, cache_write_1h=None)}).cost(usage, "m") == (40 + 75) / Decimal(10**6)
    # More of a part than of the whole is no negative amount.
    odd = Usage(input_total=10, cache_write=5, cache_write_1h=50)
    assert PriceTable({"m": price}).cost(odd, "m") == Decimal(5 + 10) / 10**6


def test_the_price_of_a_provider_is_before_that_of_all() -> None:
    table = PriceTable({"m": Price(1.0), "n": Price(2.0)}, {"a": {"m*": Price(10.0)}, "b": {}})
    usage = Usage(input_total=10**6)
    costs = {(model, name): table.cost(usage, model, name) for model in "mn" for name in ("a", "b", None)}
    assert costs == {("m", "a"): 10, ("m", "b"): 1, ("m", None): 1, ("n", "a"): 2, ("n", "b"): 2, ("n", None): 2}
    assert table.has("m2", "a")
    assert not table.has("m2", "b")
    assert PriceTable({}, {"a": {"m": Price()}})
    assert not PriceTable({}, {"a": {}})


def test_a_minute_of_audio_is_600_tokens() -> None:
    usage = Usage(input_total=600, cache_read=300)
    assert PriceTable({"m": Price(minute=0.006)}).cost(usage, "m") == Decimal("0.006")
    assert [*Price(minute=0.006).problems("prices.m")] == []
    assert [path for path, _ in Price(input=1.0, minute=0.006).problems("prices.m")] == ["prices.m.minute"]


def test_other_models_have_their_own_price() -> None:
    table = PriceTable({"main": Price(input=1.0, output=2.0), "opus": Price(input=10.0, output=20.0)})
    advisor = Usage(1000, output_total=100)
    usage = Usage(1500, output_total=300, other_models=(("opus", advisor),))
    assert table.cost(usage, "main") == Decimal("0.012") + Decimal("0.0009")
    unknown = Usage(1500, output_total=300, other_models=(("novel", advisor),))
    assert table.cost(unknown, "main") == Decimal("0.0021")
    assert table.cost(usage, "novel") is None


def test_a_compaction_is_no_part_of_the_length_of_a_request() -> None:
    price = Price(input=1.0, output=2.0, steps=(StepPrice(100, input=10.0),))
    table = PriceTable({"main": price})
    compaction = Usage(90, output_total=10)
    usage = Usage(90 + 60, output_total=30, other_models=(("", compaction),))
    assert table.cost(usage, "main") == Decimal(150 + 60) / 10**6
    assert table.cost(Usage(150, output_total=30), "main") == Decimal(1500 + 60) / 10**6
    longer = Usage(300, output_total=0, other_models=(("", Usage(180)),))
    assert table.cost(longer, "main") == Decimal(3000) / 10**6


def test_another_model_has_the_tier_and_not_the_speed_of_the_reply() -> None:
    tiers = {"fast": TierPrice(6.0), "priority": TierPrice(2.0)}
    table = PriceTable({name: Price(1.0, tiers=tiers, calls=CallPrices(web_search=1.0)) for name in ("main", "opus")})
    usage = Usage(1500, other_models=(("opus", Usage(1000)),))
    service = ServiceReport("priority", "fast", searches=1)
    assert table.cost(usage, "main", None, service) == Decimal(500 * 6 + 1000 * 2) / 10**6 + 1
    # Its price is not known: the requested model's, with the speed.
    other = Usage(1500, other_models=(("novel", Usage(1000)),))
    assert table.cost(other, "main", None, service) == Decimal(1500 * 6) / 10**6 + 1


def test_unknown_counts_beside_parts_cost_nothing() -> None:
    table = PriceTable({"main": Price(1.0, 1.0)})
    usage = Usage(None, output_total=None, other_models=(("", Usage(5, output_total=3)),))
    assert table.cost(usage, "main") == Decimal(8) / 10**6

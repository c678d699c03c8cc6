"""Tiers, steps and calls of a price: which values are problems."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman_server import ConfigError, parse_config
from dragoman_server.accounts.usage.price import CallPrices, StepPrice, TierPrice

PROVIDER = {"providers": {"p": {"dialect": "chat", "base_url": "http://127.0.0.1:1/v1"}}}


def problems(price: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        parse_config({**PROVIDER, "prices": {"m.1": price}}, {})
    return dict(caught.value.problems)


def test_all_parts_are_read_from_tables() -> None:
    price = {
        "input": 2,
        "output": 8.0,
        "steps": [{"above": 200_000, "input": 4, "output": 12.0}],
        "tiers": {"flex": {"factor": 0.5}, "fast": {"input": 12.0, "steps": [{"above": 10, "input": 24.0}]}},
        "calls": {"web_search": 0.01},
    }
    found = parse_config({**PROVIDER, "prices": {"m": price}}, {}).prices["m"]
    assert found.steps == (StepPrice(200_000, 4.0, 12.0),)
    assert found.tiers == {"flex": TierPrice(0.5), "fast": TierPrice(input=12.0, steps=(StepPrice(10, 24.0),))}
    assert found.calls == CallPrices(web_search=0.01)
    assert [*found.calls.priced()] == [("web_search", 0.01)]


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
@pytest.mark.parametrize(
    ("price", "path"),
    [
        (lambda value: {"input": value}, "input"),
        (lambda value: {"steps": [{"above": 5, "output": 1.0}, {"above": 9, "output": value}]}, "steps[1].output"),
        (lambda value: {"tiers": {"flex": {"factor": value}}}, "tiers.flex.factor"),
        (lambda value: {"tiers": {"a.b": {"cache_read": value}}}, 'tiers."a.b".cache_read'),
        (lambda value: {"tiers": {"x": {"steps": [{"above": 1, "input": value}]}}}, "tiers.x.steps[0].input"),
        (lambda value: {"calls": {"file_search": value}}, "calls.file_search"),
    ],
)
def test_a_price_that_is_negative_or_no_number_stops_the_start(price: Any, path: str, value: float) -> None:
    ((where, message),) = problems(price(value)).items()
    assert where == f'prices."m.1".{path}'
    assert message.startswith("expected 0 or more ")
    assert ("without the minus sign" in message) == (value < 0)


@pytest.mark.parametrize(
    ("price", "path", "part"),
    [
        ({"steps": [{"input": 1.0}]}, "steps[0].above", "expected 1 tokens or more; got 0"),
        ({"steps": [{"above": 5}, {"above": 5}]}, "steps[1].above", "another step above 5"),
        ({"tiers": {"flex": {"facto": 1}}}, "tiers.flex.facto", 'did you mean "factor"'),
        ({"calls": {"websearch": 1}}, "calls.websearch", 'did you mean "web_search"'),
        ({"minute": 1.0, "tiers": {"flex": {"input": 1.0}}}, "minute", "in place of `input`"),
    ],
)
def test_other_problems_name_the_key_and_the_cure(price: dict[str, Any], path: str, part: str) -> None:
    found = problems(price)
    assert [*found] == [f'prices."m.1".{path}']
    assert part in found[f'prices."m.1".{path}']

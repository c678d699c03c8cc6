"""The prices of models.dev, in the forms that it has."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from dragoman_server.cli.imports.models_dev_prices import read_models_dev
from dragoman_server.cli.imports.price_list import ListedPrice


def read(model: dict[str, Any]) -> list[ListedPrice]:
    text = json.dumps({"v": {"id": "v", "models": {"m": {"id": "m", **model}}}})
    return [*read_models_dev(json.loads(text, parse_float=Decimal))]


def exact(**prices: str) -> dict[str, Decimal]:
    return {key: Decimal(price) for key, price in prices.items()}


STEP = {"input": 5, "output": 22.5, "tier": {"type": "context", "size": 272_000}}


@pytest.mark.parametrize(
    ("more", "steps"),
    [
        ({}, {}),
        ({"context_over_200k": {"input": 6, "output": 22.5}}, {200_000: exact(input="6", output="22.5")}),
        # The newer form comes first.
        (
            {"tiers": [STEP], "context_over_200k": {"input": 9, "output": 9}},
            {272_000: exact(input="5", output="22.5")},
        ),
    ],
)
def test_prices_per_million_and_their_steps(more: dict[str, Any], steps: dict[int, Any]) -> None:
    cost = {"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75, "reasoning": 15, **more}
    (found,) = read({"cost": cost})
    assert (found.vendor, found.model) == ("v", "m")
    assert found.prices == exact(input="3", output="15", cache_read="0.3", cache_write="3.75")
    assert (found.steps, found.left_out) == (steps, [])


@pytest.mark.parametrize(
    ("provider", "tier"),
    [
        ({"body": {"service_tier": "priority"}}, "priority"),
        ({"body": {"speed": "fast"}, "headers": {}}, "fast"),
        ({"body": {"service_tier": 3}}, "quick"),
        (None, "quick"),
    ],
)
def test_a_mode_is_the_tier_that_it_requests(provider: Any, tier: str) -> None:
    mode = {"cost": {"input": 6, "output": 30, "tiers": [STEP], "novel": 1}, "provider": provider}
    (found,) = read({"cost": {"input": 3, "output": 15}, "experimental": {"modes": {"quick": mode, "odd": 3}}})
    assert {*found.tiers} == {tier}
    assert found.tiers[tier].prices == exact(input="6", output="30")
    assert found.tiers[tier].steps == {272_000: exact(input="5", output="22.5")}
    assert found.left_out == ["experimental.modes.quick.cost.novel"]


def test_what_has_no_use_is_named() -> None:
    (found,) = read({"cost": {"input": 3, "output": 15, "reasoning": 20, "input_audio": 1, "tiers": [{"tier": 3}]}})
    assert sorted(found.left_out) == ["cost.input_audio", "cost.reasoning", "cost.tiers"]


@pytest.mark.parametrize("model", [{}, {"cost": None}, {"cost": {"input": "3"}}, {"experimental": True}])
def test_models_without_a_price_are_left_out(model: dict[str, Any]) -> None:
    assert read(model) == []


def test_the_catalogue_has_the_vendors_inside() -> None:
    data = {"models": {}, "providers": {"v": {"models": {"m": {"cost": {"input": 1}}}, "name": "V"}, "w": 3}}
    assert [(price.vendor, price.model) for price in read_models_dev(data)] == [("v", "m")]

"""The prices of models.dev: its `api.json` or `catalog.json`, per million tokens in US dollars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dragoman_server.cli.imports.price_list import Amounts, ListedPrice, ListedTier, amount_of

_KEYS = ("input", "output", "cache_read", "cache_write")
_OLD_STEP = 200_000
"""The step of `context_over_200k`, which newer lists have in addition to `tiers`."""


def vendors_of(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the vendors of a list by their names."""
    inner = data.get("providers")
    return inner if isinstance(inner, dict) else data


def read_models_dev(data: Mapping[str, Any]) -> Iterator[ListedPrice]:
    """Yield the prices of the list. Models without any are left out."""
    for vendor, entry in vendors_of(data).items():
        models = entry.get("models") if isinstance(entry, dict) else None
        for model, facts in models.items() if isinstance(models, dict) else ():
            if isinstance(facts, dict):
                found = _read(vendor, model, facts)
                if found.is_priced:
                    yield found


def _read(vendor: str, model: str, facts: Mapping[str, Any]) -> ListedPrice:
    found = ListedPrice(vendor, model)
    cost = facts.get("cost")
    if isinstance(cost, dict):
        found.left_out += [f"cost.{key}" for key in _read_cost(found, cost)]
    experimental = facts.get("experimental")
    modes = experimental.get("modes") if isinstance(experimental, dict) else None
    for name, mode in modes.items() if isinstance(modes, dict) else ():
        own = mode.get("cost") if isinstance(mode, dict) else None
        if isinstance(own, dict):
            rest = _read_cost(found.tier(_tier_of(name, mode)), own)
            found.left_out += [f"experimental.modes.{name}.cost.{key}" for key in rest]
    return found


def _read_cost(place: ListedPrice | ListedTier, cost: Mapping[str, Any]) -> list[str]:
    """Read the prices of a model or of a tier. Return the keys without a use."""
    place.prices.update(_amounts(cost))
    left_out = [key for key in cost if key not in _KEYS]
    tiers = cost.get("tiers")
    for tier in tiers if isinstance(tiers, list) else ():
        kind = tier.get("tier") if isinstance(tier, dict) else None
        size = kind.get("size") if isinstance(kind, dict) and kind.get("type") == "context" else None
        if type(size) is not int or size < 1:
            return left_out
        place.steps[size] = _amounts(tier)
    over = cost.get("context_over_200k")
    if not place.steps and isinstance(over, dict):
        place.steps[_OLD_STEP] = _amounts(over)
    if place.steps:
        left_out = [key for key in left_out if key not in ("tiers", "context_over_200k")]
    if cost.get("reasoning") is not None and cost["reasoning"] == cost.get("output"):
        left_out.remove("reasoning")  # it costs what other output does
    return left_out


def _amounts(cost: Mapping[str, Any]) -> Amounts:
    return {key: amount for key in _KEYS if (amount := amount_of(cost.get(key))) is not None}


def _tier_of(name: str, mode: Mapping[str, Any]) -> str:
    """Return the tier or the speed that a mode requests, which is the one that the upstream states then."""
    provider = mode.get("provider")
    body = provider.get("body") if isinstance(provider, dict) else None
    words = (body.get("service_tier"), body.get("speed")) if isinstance(body, dict) else ()
    return next((word for word in words if isinstance(word, str) and word), name)

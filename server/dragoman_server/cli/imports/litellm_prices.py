"""LiteLLM's table of prices, `model_prices_and_context_window.json`, per token in US dollars.

Keys of prices have a stem and suffixes: `cache_creation_input_token_cost_above_1hr_above_200k_tokens_priority`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from dragoman_server.cli.imports.price_list import Amounts, ListedPrice, amount_of

_MILLION = 10**6
_STEMS = {
    "input_cost_per_token": "input",
    "output_cost_per_token": "output",
    "cache_read_input_token_cost": "cache_read",
    "cache_creation_input_token_cost": "cache_write",
}
_KEY = re.compile(
    rf"({'|'.join(_STEMS)})(?P<hour>_above_1hr)?(?:_above_(?P<above>\d+)k_tokens)?"
    r"(?:_(?P<tier>flex|priority|batches|ultrafast))?"
)
_TIERS = {"batches": "batch"}
"""Word of LiteLLM → the tier as the upstream states it."""
_PRICE = re.compile(r"cost|pric")
_SEARCH_SIZES = tuple(f"search_context_size_{size}" for size in ("medium", "low", "high"))
"""Prices of a web search by the size of its context. OpenAI's default is `medium`."""


def read_litellm(data: Mapping[str, Any]) -> Iterator[ListedPrice]:
    """Yield the prices of LiteLLM's table. Models without any are left out."""
    for name, entry in data.items():
        vendor = entry.get("litellm_provider") if isinstance(entry, dict) else None
        if isinstance(vendor, str) and name != "sample_spec":
            prefix, _, model = name.partition("/")
            # `vertex_ai/claude-haiku-4-5` is of `vertex_ai-anthropic_models`.
            within = bool(model) and vendor.partition("-")[0] == prefix.partition("-")[0]
            found = _read(prefix, model, entry) if within else _read(vendor, name, entry)
            if found.is_priced:
                yield found


def _read(vendor: str, model: str, entry: Mapping[str, Any]) -> ListedPrice:
    found = ListedPrice(vendor, model)
    for key, value in entry.items():
        if _PRICE.search(key) and not _read_key(found, key, value):
            found.left_out.append(key)
    reasoning = amount_of(entry.get("output_cost_per_reasoning_token"))
    if reasoning is not None and reasoning * _MILLION == found.prices.get("output"):
        found.left_out.remove("output_cost_per_reasoning_token")  # it costs what other output does
    hit = amount_of(entry.get("input_cost_per_token_cache_hit"))
    if hit is not None:
        found.left_out.remove("input_cost_per_token_cache_hit")
        found.prices.setdefault("cache_read", hit * _MILLION)
    extra = entry.get("provider_specific_entry")
    if isinstance(extra, dict) and (fast := amount_of(extra.get("fast"))):
        found.tier("fast").factor = fast
    _read_audio(found, entry)
    return found


def _read_key(found: ListedPrice, key: str, value: Any) -> bool:
    """Read a key of a price. Return False if it has no use here."""
    amount = amount_of(value)
    if match := _KEY.fullmatch(key):
        if amount is None:
            return False
        name = _STEMS[match[1]]
        if match["hour"]:
            if name != "cache_write":
                return False
            name = "cache_write_1h"
        _amounts(found, match["tier"], match["above"])[name] = amount * _MILLION
        return True
    if key == "search_context_cost_per_query" and isinstance(value, dict):
        return _read_search(found, value)
    if key == "tiered_pricing" and isinstance(value, list):
        return _read_ranges(found, value)
    if key == "code_interpreter_cost_per_session" and amount is not None:
        found.calls["code_interpreter"] = amount
        return True
    if key == "file_search_cost_per_1k_calls" and amount is not None:
        found.calls["file_search"] = amount / 1000
        return True
    return False


def _amounts(found: ListedPrice, tier: str | None, above: str | None) -> Amounts:
    """Return the prices of the model, or those of a tier or a step."""
    place = found.tier(_TIERS.get(tier, tier)) if tier else found
    return place.prices if above is None else place.steps.setdefault(int(above) * 1000, {})


def _read_search(found: ListedPrice, sizes: Mapping[str, Any]) -> bool:
    """Read the price of a web search. Return False if it depends on the size of the context: medium is taken then."""
    amounts = [amount for size in _SEARCH_SIZES if (amount := amount_of(sizes.get(size))) is not None]
    if amounts and amounts[0]:
        found.calls["web_search"] = amounts[0]
    return len(set(amounts)) == 1


def _read_ranges(found: ListedPrice, ranges: list[Any]) -> bool:
    """Read prices by ranges of input: the first is the model's, and the others are steps. Return False for others."""
    read = [_read_range(each) for each in ranges]
    if not read or any(each is None for each in read):
        return False
    for start, prices in [each for each in read if each is not None]:
        (found.steps.setdefault(start, {}) if start else found.prices).update(prices)
    return True


def _read_range(entry: Any) -> tuple[int, Amounts] | None:
    bounds = entry.get("range") if isinstance(entry, dict) else None
    start = amount_of(bounds[0]) if isinstance(bounds, list) and bounds else None
    if start is None:
        return None
    amounts = {name: amount_of(entry.get(key)) for key, name in _STEMS.items()}
    return int(start), {name: amount * _MILLION for name, amount in amounts.items() if amount is not None}


def _read_audio(found: ListedPrice, entry: Mapping[str, Any]) -> None:
    """Read the price of a second of audio, where tokens have none."""
    second = amount_of(entry.get("input_cost_per_second"))
    if second and not found.prices.get("input") and entry.get("mode") == "audio_transcription":
        found.minute, found.prices, found.steps, found.tiers = second * 60, {}, {}, {}
        found.left_out = [key for key in found.left_out if not key.endswith("_cost_per_second")]

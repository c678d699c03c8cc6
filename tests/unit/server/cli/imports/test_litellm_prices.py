"""LiteLLM's table of prices, in the forms that it has."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from dragoman_server.cli.imports.litellm_prices import read_litellm
from dragoman_server.cli.imports.price_list import ListedPrice


def read(entry: dict[str, Any], name: str = "m", vendor: str = "openai") -> ListedPrice:
    text = json.dumps({"sample_spec": {"litellm_provider": "x"}, name: {"litellm_provider": vendor, **entry}})
    (found,) = read_litellm(json.loads(text, parse_float=Decimal))
    return found


TOKENS = {"input_cost_per_token": 2.5e-06, "output_cost_per_token": 1.5e-05}


def test_prices_of_a_token_are_exact_per_million() -> None:
    found = read({**TOKENS, "cache_read_input_token_cost": 1.3e-07, "cache_creation_input_token_cost": 3.125e-06})
    exact = {"input": "2.5", "output": "15", "cache_read": "0.13", "cache_write": "3.125"}
    assert found.prices == {key: Decimal(price) for key, price in exact.items()}
    assert found.left_out == []


def test_suffixes_are_tiers_steps_and_the_hour_of_a_cache() -> None:
    found = read(
        {
            **TOKENS,
            "cache_creation_input_token_cost_above_1hr": 6e-06,
            "cache_creation_input_token_cost_above_1hr_above_200k_tokens": 1.2e-05,
            "input_cost_per_token_above_200k_tokens": 5e-06,
            "input_cost_per_token_flex": 1.25e-06,
            "output_cost_per_token_batches": 7.5e-06,
            "output_cost_per_token_ultrafast": 9e-05,
            "input_cost_per_token_above_272k_tokens_priority": 1e-05,
        }
    )
    assert found.prices["cache_write_1h"] == 6
    assert found.steps == {200_000: {"input": Decimal(5), "cache_write_1h": Decimal(12)}}
    assert {name: (tier.prices, tier.steps) for name, tier in found.tiers.items()} == {
        "flex": ({"input": Decimal("1.25")}, {}),
        "batch": ({"output": Decimal("7.5")}, {}),
        "ultrafast": ({"output": Decimal(90)}, {}),
        "priority": ({}, {272_000: {"input": Decimal(10)}}),
    }


def test_calls_the_fast_mode_and_cache_hits() -> None:
    sizes = dict.fromkeys(("search_context_size_low", "search_context_size_medium"), 0.01)
    found = read(
        {
            **TOKENS,
            "search_context_cost_per_query": sizes,
            "code_interpreter_cost_per_session": 0.03,
            "file_search_cost_per_1k_calls": 2.5,
            "input_cost_per_token_cache_hit": 1e-06,
            "provider_specific_entry": {"us": 1.1, "fast": 6.0},
        }
    )
    exact = {"web_search": "0.01", "code_interpreter": "0.03", "file_search": "0.0025"}
    assert found.calls == {key: Decimal(price) for key, price in exact.items()}
    assert found.prices["cache_read"] == 1
    assert found.tiers["fast"].factor == 6
    assert found.left_out == []


def test_ranges_of_input_are_steps() -> None:
    ranges = [
        {"range": [0, 256000.0], "input_cost_per_token": 5e-08, "output_cost_per_token": 4e-07},
        {"range": [256000.0, 1e6], "input_cost_per_token": 2.5e-07, "output_cost_per_token": 2e-06},
    ]
    found = read({"tiered_pricing": ranges})
    assert found.prices == {"input": Decimal("0.05"), "output": Decimal("0.4")}
    assert found.steps == {256_000: {"input": Decimal("0.25"), "output": Decimal(2)}}
    odd = read({**TOKENS, "tiered_pricing": [{"input_cost_per_token": 1}]})
    assert (odd.steps, odd.left_out) == ({}, ["tiered_pricing"])


def test_what_has_no_use_is_named() -> None:
    sizes = {"search_context_size_low": 0.03, "search_context_size_medium": 0.035, "search_context_size_high": 0.05}
    found = read(
        {
            **TOKENS,
            "search_context_cost_per_query": sizes,
            "output_cost_per_reasoning_token": 1.5e-05,
            "input_cost_per_audio_token": 1e-06,
            "cache_creation_input_token_cost_above_12hr": 1e-06,
            "cache_read_input_token_cost_above_1hr": 1e-06,
            "input_cost_per_token_flex": "free",
            "off_peak_pricing": {},
            "max_tokens": 5,
        }
    )
    assert found.calls == {"web_search": Decimal("0.035")}
    assert sorted(found.left_out) == [
        "cache_creation_input_token_cost_above_12hr",
        "cache_read_input_token_cost_above_1hr",
        "input_cost_per_audio_token",
        "input_cost_per_token_flex",
        "off_peak_pricing",
        "search_context_cost_per_query",
    ]
    assert read({**TOKENS, "output_cost_per_reasoning_token": 4e-05}).left_out == ["output_cost_per_reasoning_token"]


def test_audio_costs_by_the_minute() -> None:
    second = {"mode": "audio_transcription", "input_cost_per_second": 0.0001, "output_cost_per_second": 0.0001}
    found = read(second)
    assert (found.minute, found.left_out) == (Decimal("0.006"), [])
    assert read({**TOKENS, **second}).minute is None


def test_the_vendor_is_no_part_of_the_model() -> None:
    places = [
        ("groq/openai/gpt-oss-120b", "groq"),
        ("vertex_ai/claude-haiku-4-5", "vertex_ai-anthropic_models"),
        ("gemini-2.5-pro", "vertex_ai-language-models"),
        ("openai/m", "wandb"),
    ]
    found = [read(TOKENS, name, vendor) for name, vendor in places]
    assert [(price.vendor, price.model) for price in found] == [
        ("groq", "openai/gpt-oss-120b"),
        ("vertex_ai", "claude-haiku-4-5"),
        ("vertex_ai-language-models", "gemini-2.5-pro"),
        ("wandb", "openai/m"),
    ]


def test_entries_without_a_price_are_left_out() -> None:
    odd = {"a": 3, "b": {}, "c": {"litellm_provider": 1}, "d": {"litellm_provider": "x", "mode": "chat"}}
    assert [*read_litellm(odd)] == []

"""Claude Code Router's configuration."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest

from dragoman.dialects import Dialect
from dragoman_server.cli.imports.claude_code_router import import_router, read_json5
from dragoman_server.cli.imports.imported import Imported
from dragoman_server.config.load import parse_config
from dragoman_server.routing.router import Router
from support.paths import TESTS

FULL = (TESTS / "fixtures/imports/ccr_full.json").read_text("utf-8")


def full() -> Imported:
    return import_router(read_json5(FULL))


def test_providers() -> None:
    found = full()
    assert {name: (each.dialect, each.base_url, each.api_key) for name, each in found.providers.items()} == {
        "openrouter": ("chat", "https://openrouter.ai/api/v1", "${OPENROUTER_API_KEY}"),
        "deepseek": ("chat", "https://api.deepseek.com", "${DEEPSEEK_API_KEY}"),
        "ollama": ("chat", "http://localhost:11434/v1", None),
        "gemini": ("chat", "https://generativelanguage.googleapis.com/v1beta/openai", "${GEMINI_API_KEY}"),
        "model-scope": ("chat", "https://api-inference.modelscope.cn/v1", None),
        "claude": ("messages", "https://api.anthropic.com", "${ANTHROPIC_API_KEY}"),
    }
    assert found.providers["openrouter"].headers == {"http-referer": "https://example.com", "x-title": "router"}
    assert found.providers["model-scope"].max_output_tokens == 65536
    assert found.server == {
        "host": "0.0.0.0",
        "port": 3456,
        "keys": ["${CCR_API_KEY}"],
        "transport": "aiohttp",
    }
    assert found.timeouts == {"first_byte": 600}
    assert found.problems() == []


@pytest.mark.parametrize(
    ("name", "provider", "upstream"),
    [
        ("claude-sonnet-4-5", "deepseek", "deepseek-chat"),
        ("claude-haiku-4-5-20251001", "ollama", "qwen2.5-coder:latest"),
        ("openrouter,anthropic/claude-sonnet-4", "openrouter", "anthropic/claude-sonnet-4"),
        ("openrouter/anthropic/claude-haiku", "openrouter", "anthropic/claude-haiku"),
        ("model scope,Qwen/Qwen3", "model-scope", "Qwen/Qwen3"),
    ],
)
def test_names_lead_where_the_router_sent_them(name: str, provider: str, upstream: str) -> None:
    found = full()
    config = parse_config(tomllib.loads(found.toml()), dict.fromkeys(found.variables(), "x"))
    target = Router(config).resolve(name, Dialect.MESSAGES)
    assert (target.provider.name, target.upstream_model) == (provider, upstream)


def test_what_has_no_counterpart_is_listed() -> None:
    assert [path for path, _ in full().unmatched] == [
        "Providers[0].transformer openrouter.provider",
        "Providers[1].transformer.deepseek-chat",
        "Providers[4].transformer enhancetool",
        "Providers[6] (vertex)",
        "Router.think",
        "Router.longContext",
        "Router.longContextThreshold",
        "Router.webSearch",
        "LOG",
        "LOG_LEVEL",
        "NON_INTERACTIVE_MODE",
        "CUSTOM_ROUTER_PATH",
        "transformers",
    ]


def test_no_key_is_copied() -> None:
    assert FULL.count("canary") == 2
    found = full()
    assert "canary" not in found.toml()
    assert "canary" not in str([*found.notes, *found.unmatched])


def test_json5_as_far_as_the_router_writes_it() -> None:
    text = '{"a": "x // \\" , ]", /* , */ "b": [1, 2, /* end */ ], // last\n "c": {"d": 1,},}'
    assert read_json5(text) == {"a": 'x // " , ]', "b": [1, 2], "c": {"d": 1}}
    with pytest.raises(json.JSONDecodeError):
        read_json5("{'a': 1}")


@pytest.mark.parametrize(
    "data",
    [
        {"Providers": 5, "Router": 6},
        {"Providers": [5, {"name": 1}, {"name": "a", "api_base_url": " "}]},
        {"Providers": [{"name": "a", "api_base_url": "http://h/v1", "models": 5, "transformer": [1], "api_key": 5}]},
        {"Providers": [{"name": "a[", "api_base_url": "http://h/responses", "transformer": {"use": [[], {}, 5]}}]},
        {"Router": {"default": "nowhere,x", "background": 5}, "PORT": "x", "API_TIMEOUT_MS": -1, "HOST": None},
    ],
)
def test_values_of_other_types_do_no_harm(data: dict[str, Any]) -> None:
    found = import_router(data)
    assert found.toml()
    assert not found.providers or not found.problems()

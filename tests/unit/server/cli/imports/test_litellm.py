"""LiteLLM's configuration."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from dragoman_server.cli.imports.imported import Imported
from dragoman_server.cli.imports.litellm import import_litellm
from support.paths import TESTS

TEAM = (TESTS / "fixtures/imports/litellm_team.yaml").read_text("utf-8")


def team() -> Imported:
    return import_litellm(yaml.safe_load(TEAM))


def one(params: dict[str, Any], name: str = "m", **more: Any) -> Imported:
    """The import of one deployment."""
    return import_litellm({"model_list": [{"model_name": name, "litellm_params": params, **more}]})


def test_deployments_become_providers_and_routes() -> None:
    found = team()
    assert {name: (each.dialect, each.base_url, each.api_key) for name, each in found.providers.items()} == {
        "azure": ("chat", "https://team-eu.openai.azure.com/openai/v1", "${AZURE_API_KEY_EU}"),
        "azure-2": ("chat", "https://team-ca.openai.azure.com/openai/v1", "${AZURE_API_KEY_CA}"),
        "openai-responses": ("responses", "https://api.openai.com/v1", "${OPENAI_API_KEY}"),
        "openai": ("chat", "https://api.openai.com/v1", "${GPT_5_MINI_OPENAI_API_KEY}"),
        "anthropic": ("messages", "https://api.anthropic.com", "${ANTHROPIC_API_KEY}"),
        "hosted_vllm": ("chat", "http://vllm:8000/v1", None),
        "ollama": ("chat", "http://ollama:11434/v1", None),
        "azure-3": ("chat", "${AZURE_API_BASE_SHARED}/openai/v1", "${AZURE_API_KEY_SHARED}"),
        "openrouter": ("chat", "https://openrouter.ai/api/v1", "${OPENROUTER_API_KEY}"),
        "openai-2": ("chat", "https://api.openai.com/v1", "${OPENAI_API_KEY}"),
    }
    assert found.providers["openai-responses"].headers == {"openai-organization": "org-team"}
    assert found.providers["anthropic"].headers == {
        "anthropic-beta": "context-1m-2025-08-07",
        "x-api-token": "${CLAUDE_SONNET_ANTHROPIC_X_API_TOKEN}",
    }
    assert [(route.model, route.provider, route.upstream_model) for route in found.routes] == [
        ("gpt-4", "azure", "gpt-4o-eu"),
        ("gpt-4o", "azure", "gpt-4o-eu"),
        ("gpt-5", "openai-responses", None),
        ("gpt-5-mini", "openai", None),
        ("claude-sonnet", "anthropic", "claude-sonnet-4-5"),
        ("mistral-7b", "ollama", "mistral"),
        ("shared", "azure-3", "gpt-4.1"),
        (r"/vllm:\ qwen\ \[big\]\?/", "hosted_vllm", "Qwen/Qwen3-32B"),
        ("openrouter/*", "openrouter", "*"),
        ("*", "openai-2", None),
    ]
    assert found.server == {"host": "127.0.0.1", "port": 4000, "keys": ["${LITELLM_MASTER_KEY}"]}
    assert found.timeouts == {"first_byte": 600}
    assert found.problems() == []


def test_further_deployments_and_fallbacks_are_further_providers() -> None:
    routes = {route.model: route for route in team().routes}
    assert routes["gpt-4o"].settings() == {
        "model": "gpt-4o",
        "providers": [
            {"provider": "azure", "upstream_model": "gpt-4o-eu", "priority": 1, "weight": 6.0},
            {"provider": "azure-2", "upstream_model": "gpt-4o-ca", "priority": 1, "weight": 6.0},
            {"provider": "anthropic", "upstream_model": "claude-sonnet-4-5"},
        ],
    }
    assert routes["gpt-4"].settings()["providers"] == routes["gpt-4o"].settings()["providers"]
    assert not routes["claude-sonnet"].further
    found = team()
    assert found.retries == {"attempts": 4}
    assert found.toml().count('balance = "weighted"') == 2


def test_what_has_no_counterpart_is_listed() -> None:
    assert [path for path, _ in team().unmatched] == [
        "model_list[3].litellm_params.temperature",
        "model_list[4].litellm_params.timeout",
        "model_list[5] (bedrock-claude)",
        "model_list[8] (text-embedding-3-small)",
        "general_settings.database_url",
        "general_settings.alerting",
        "litellm_settings.success_callback",
        "litellm_settings.cache",
        "litellm_settings.cache_params",
        "router_settings.redis_host",
        "router_settings.redis_password",
        "router_settings.model_group_alias.lost",
        "environment_variables",
    ]


def test_no_key_is_copied() -> None:
    assert TEAM.count("canary") > 5
    found = team()
    assert "canary" not in found.toml()
    assert "canary" not in str([*found.notes, *found.unmatched])


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"model": "claude-opus-4-5"}, ("messages", "https://api.anthropic.com", "${ANTHROPIC_API_KEY}")),
        ({"model": "my-model", "api_base": "http://h/v1", "api_key": "none"}, ("chat", "http://h/v1", None)),
        (
            {"model": "gpt-5", "custom_llm_provider": "groq"},
            ("chat", "https://api.groq.com/openai/v1", "${GROQ_API_KEY}"),
        ),
        (
            {"model": "anthropic/x", "api_base": "https://proxy/v1/messages"},
            ("messages", "https://proxy", "${ANTHROPIC_API_KEY}"),
        ),
        (
            {
                "model": "azure/x",
                "api_base": "https://r.openai.azure.com/openai/deployments/x",
                "api_key": "os.environ/K",
            },
            ("chat", "https://r.openai.azure.com/openai/v1", "${K}"),
        ),
        ({"model": "ollama/x"}, ("chat", "http://localhost:11434/v1", None)),
    ],
    ids=["name", "address", "vendor", "endpoint", "azure", "ollama"],
)
def test_the_vendor_is_found(params: dict[str, Any], expected: tuple[str, str, str | None]) -> None:
    (provider,) = one(params).providers.values()
    assert (provider.dialect, provider.base_url, provider.api_key) == expected


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({}, "no litellm_params.model"),
        ({"model": 5}, "no litellm_params.model"),
        ({"model": "nowhere/x"}, "a provider that is not known here"),
        ({"model": "hosted_vllm/x"}, "has no api_base"),
        ({"model": "vertex_ai/gemini-2.5-pro"}, "Vertex AI needs"),
    ],
)
def test_other_deployments_are_left_out(params: dict[str, Any], why: str) -> None:
    found = one(params)
    assert not found.providers
    assert not found.routes
    assert why in found.unmatched[0][1]


def test_a_model_of_the_responses_mode_uses_that_api() -> None:
    (provider,) = one({"model": "openai/gpt-5"}, model_info={"mode": "responses"}).providers.values()
    assert provider.dialect == "responses"


def test_a_pattern_and_its_upstream_name() -> None:
    assert one({"model": "anthropic/claude-*"}, "claude-*").routes[0].upstream_model is None
    assert one({"model": "anthropic/*"}, "claude/*").routes[0].upstream_model == "*"
    assert one({"model": "anthropic/claude-x"}, "*").routes[0].upstream_model == "claude-x"
    routed = one({"model": "anthropic/*"}, "[x]*")
    assert (routed.routes[0].model, routed.routes[0].upstream_model) == (r"/\[x\](.*)/", r"\1")
    assert routed.problems() == []


def test_refused_parameters_become_refused_losses() -> None:
    assert import_litellm({"litellm_settings": {"drop_params": False}}).knobs == {"on_loss": "reject"}


@pytest.mark.parametrize(
    "data",
    [
        {"model_list": 5},
        {"model_list": [5, {"model_name": ["a"], "litellm_params": "x"}]},
        {"model_list": [{"model_name": "m", "litellm_params": {"model": "openai/m", "extra_headers": {"a": 1}}}]},
        {"general_settings": [], "router_settings": {"model_group_alias": 3, "timeout": "x"}},
        {"credential_list": [{"credential_name": "a"}, 7], "litellm_settings": {"request_timeout": True}},
    ],
)
def test_values_of_other_types_do_no_harm(data: dict[str, Any]) -> None:
    found = import_litellm(data)
    assert found.toml()
    assert not found.providers or not found.problems()

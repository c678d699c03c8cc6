"""A provider without a `profile` gets the one of its host; a vendor's key goes to that vendor only."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman import direction, translate
from dragoman.dialects import Dialect
from dragoman.profiles.profile import BUILTIN_PROFILES
from dragoman_server.cli.main import main
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.environment import config_from_environment
from dragoman_server.config.host_profiles import HOSTS, default_profile, is_vendor
from dragoman_server.config.load import parse_config
from dragoman_server.config.provider import Provider
from dragoman_server.endpoints.explain import as_text, explanation

HOSTED = [
    ("chat", "https://api.deepseek.com", "deepseek"),
    ("messages", "https://api.deepseek.com/anthropic", "deepseek"),
    ("chat", "https://api.moonshot.ai/v1", "kimi"),
    ("messages", "https://api.kimi.com/coding", "kimi"),
    ("chat", "https://api.z.ai/api/paas/v4", "glm"),
    ("messages", "https://open.bigmodel.cn/api/anthropic", "glm"),
    ("chat", "https://api.minimax.io/v1", "minimax"),
    ("chat", "https://openrouter.ai/api/v1", "openrouter"),
    ("messages", "https://openrouter.ai/api", "openrouter"),
    ("responses", "https://openrouter.ai/api/v1", "openrouter"),
    ("chat", "https://api.groq.com/openai/v1", "groq"),
    ("chat", "https://api.cerebras.ai/v1", "cerebras"),
    ("chat", "https://api.mistral.ai/v1", "mistral"),
    ("responses", "https://api.mistral.ai/v1", "compatible"),
    ("chat", "https://api.cohere.ai/compatibility/v1", "cohere"),
    ("responses", "https://api.x.ai/v1", "xai"),
    ("chat", "https://api.x.ai/v1", "compatible"),
    ("responses", "https://api.fireworks.ai/inference/v1", "fireworks"),
    ("chat", "https://api.together.xyz/v1", "together"),
    ("chat", "https://integrate.api.nvidia.com/v1", "nvidia"),
    ("chat", "https://generativelanguage.googleapis.com/v1beta/openai", "gemini"),
    ("chat", "https://aiplatform.googleapis.com/v1/projects/p/locations/global/endpoints/openapi", "gemini"),
    ("chat", "https://us-central1-aiplatform.googleapis.com/v1/projects/p/endpoints/openapi", "gemini"),
    ("chat", "https://aiplatform.eu.rep.googleapis.com/v1/projects/p/endpoints/openapi", "gemini"),
    ("messages", "https://us-east5-aiplatform.googleapis.com/v1", "vertex"),
    ("messages", "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/anthropic", "vertex"),
    ("responses", "https://aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/openai/v1", "compatible"),
    ("chat", "https://aiplatform.googleapis.com.evil.example", "compatible"),
    ("chat", "https://mine.openai.azure.com/openai/v1", "azure"),
    ("responses", "https://mine.openai.azure.com/openai/v1", "azure"),
    ("messages", "https://mine.services.ai.azure.com/anthropic", "azure"),
    ("messages", "https://bedrock-runtime.eu-west-1.amazonaws.com/anthropic", "amazon-bedrock"),
    ("messages", "https://bedrock-mantle.us-east-1.api.aws/anthropic", "amazon-bedrock"),
    ("responses", "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1", "amazon-bedrock"),
    ("chat", "https://bedrock-mantle.us-east-1.api.aws/v1", "compatible"),
    ("messages", "https://aws-external-anthropic.us-east-1.api.aws", "anthropic"),
    ("messages", "https://claude.googleapis.com/v1/projects/p/locations/global/workspaces/w/invoke", "anthropic"),
    ("messages", "https://api.business.githubcopilot.com", "copilot"),
    ("messages", "https://bedrock-runtime.eu-west-1.amazonaws.com.evil.example/anthropic", "compatible"),
    ("responses", "https://chatgpt.com/backend-api/codex", "chatgpt"),
    ("chat", "http://192.168.1.5:11434/v1", "ollama"),
    ("responses", "http://192.168.1.5:11434/v1", "compatible"),
    ("chat", "https://api.deepseek.com.evil.example", "compatible"),
    ("chat", "https://deepseek.evil.example", "compatible"),
    ("chat", "http://[::1", "compatible"),
    ("chat", "http://127.0.0.1:99999999/v1", "compatible"),
]


@pytest.mark.parametrize(("dialect", "url", "name"), HOSTED)
def test_the_host_decides_where_nothing_is_stated(dialect: str, url: str, name: str) -> None:
    assert default_profile(Dialect(dialect), url) == name
    provider = Provider("p", Dialect(dialect), url)
    assert provider.profile_name == name
    assert provider.profile == BUILTIN_PROFILES[dialect, name].replace({"family": "p"})


def test_every_host_has_a_profile() -> None:
    assert {name for _, name in BUILTIN_PROFILES} >= set(HOSTS.values())


def test_a_configured_profile_goes_before_the_host() -> None:
    up = {"dialect": "chat", "base_url": "https://api.deepseek.com", "profile": "vllm"}
    provider = parse_config({"providers": {"up": up}}, {}).providers["up"]
    assert (provider.profile_name, provider.profile.reasoning_key) == ("vllm", "reasoning")


@pytest.mark.parametrize("url", ["https://api.deepseek.com", "http://127.0.0.1:11434/v1"])
def test_a_vendors_key_goes_to_that_vendor_only(url: str) -> None:
    assert not is_vendor(Dialect.CHAT, url)
    assert not is_vendor(Dialect.MESSAGES, "https://aws-external-anthropic.us-east-1.api.aws")
    assert not is_vendor(Dialect.MESSAGES, "https://claude.googleapis.com")
    assert is_vendor(Dialect.MESSAGES, "https://api.anthropic.com")
    config = config_from_environment({"OPENAI_API_KEY": "sk-secret"}, base_url=url)
    assert config.providers["upstream"].api_key is None
    own = config_from_environment({"OPENAI_API_KEY": "sk-secret"}, base_url="https://api.openai.com/v1")
    assert own.providers["upstream"].api_key is not None


def test_the_profile_is_reported_at_the_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "dragoman.toml"
    file.write_text('[providers.ds]\ndialect = "chat"\nbase_url = "https://api.deepseek.com"\n')
    assert main(["check", str(file)]) == 0
    assert "provider ds: chat at https://api.deepseek.com, without a key, profile deepseek" in capsys.readouterr().err


def test_an_explanation_names_the_profile() -> None:
    provider = Provider("ds", Dialect.CHAT, "https://api.deepseek.com")
    body = b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}'
    noted = explanation(translate(direction("messages", "chat"), body, profile=provider.profile), provider)
    assert noted["profile"] == "deepseek"
    assert "provider ds, profile deepseek" in as_text(noted)


def test_an_earlier_name_of_a_profile_is_an_error_with_the_new_one() -> None:
    up = {"dialect": "messages", "base_url": "https://gateway.example", "profile": "bedrock"}
    with pytest.raises(ConfigError, match=r'it is now "bedrock-invoke".*needs no profile'):
        parse_config({"providers": {"up": up}}, {})

"""Hosts with an addressing of their own: URLs, the header of the key, fields of the body."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from dragoman import Dialect
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.door import AUTH_HEADERS, PLAIN, Door
from dragoman_server.config.host_doors import BEDROCK, DOORS, host_door
from dragoman_server.config.load import parse_config
from dragoman_server.config.provider import Provider

PLACE = "projects/p/locations/us-east5/publishers/anthropic"
VERTEX = f"https://us-east5-aiplatform.googleapis.com/v1/{PLACE}"
AZURE = "https://r.openai.azure.com/openai"
KEY, COMMAND = {"api_key": "key-of-ours"}, {"credential": {"command": ["token"]}}
ENTRA, SIGNED = {"credential": {"kind": "azure"}}, {"credential": {"kind": "aws"}}


def parsed(dialect: str, base_url: str, **table: Any) -> Provider:
    provider = {"dialect": dialect, "base_url": base_url, **table}
    return parse_config({"providers": {"p": provider}}, {}).providers["p"]


ADDRESSES = [
    ("messages", VERTEX, f"{VERTEX}/models/m%2F1:streamRawPredict"),
    (
        "messages",
        f"https://aiplatform.eu.rep.googleapis.com/v1/{PLACE}/",
        f"https://aiplatform.eu.rep.googleapis.com/v1/{PLACE}/models/m%2F1:streamRawPredict",
    ),
    ("messages", "https://r.services.ai.azure.com/anthropic", "https://r.services.ai.azure.com/anthropic/v1/messages"),
    ("chat", f"{AZURE}?api-version=v", f"{AZURE}/deployments/m%2F1/chat/completions?api-version=v"),
    ("chat", f"{AZURE}/deployments/d?api-version=v", f"{AZURE}/deployments/d/chat/completions?api-version=v"),
    ("chat", f"{AZURE}/v1", f"{AZURE}/v1/chat/completions"),
    ("responses", f"{AZURE}?api-version=v", f"{AZURE}/responses?api-version=v"),
    ("chat", "https://api.githubcopilot.com", "https://api.githubcopilot.com/chat/completions"),
    ("responses", "https://api.business.githubcopilot.com/", "https://api.business.githubcopilot.com/responses"),
    ("messages", "https://api.githubcopilot.com", "https://api.githubcopilot.com/v1/messages"),
    ("chat", "https://api.vendor.example", "https://api.vendor.example/v1/chat/completions"),
]


@pytest.mark.parametrize(("dialect", "base_url", "url"), ADDRESSES)
def test_the_url_of_a_stream(dialect: str, base_url: str, url: str) -> None:
    assert parsed(dialect, base_url).main_endpoint("m/1", stream=True) == url


GOOGLE = "https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5/publishers/google"


def test_gemini_at_vertex() -> None:
    provider = parsed("generate", GOOGLE, credential={"kind": "google"})
    assert provider.main_endpoint("gemini-x", stream=False) == f"{GOOGLE}/models/gemini-x:generateContent"
    assert provider.main_endpoint("models/x", stream=True) == f"{GOOGLE}/models/x:streamGenerateContent?alt=sse"
    assert provider.endpoint("models") == f"{GOOGLE}/models"
    assert provider.profile_name == "gemini"
    express = parsed("generate", "https://aiplatform.googleapis.com/v1/publishers/google", **KEY)
    assert express.key_header == "x-goog-api-key"


@pytest.mark.parametrize(
    ("base_url", "before"),
    [
        ("https://generativelanguage.googleapis.com", "https://generativelanguage.googleapis.com/v1beta"),
        ("https://generativelanguage.googleapis.com/v1alpha/", "https://generativelanguage.googleapis.com/v1alpha"),
        ("http://relay.example/gemini", "http://relay.example/gemini/v1beta"),
        ("http://relay.example/v1beta", "http://relay.example/v1beta"),
    ],
)
def test_gemini_has_its_version_once(base_url: str, before: str) -> None:
    provider = parsed("generate", base_url, **KEY)
    assert provider.main_endpoint("m", stream=False) == f"{before}/models/m:generateContent"
    assert provider.key_header == "x-goog-api-key"


def test_whole_replies_and_counts_at_vertex() -> None:
    provider = parsed("messages", VERTEX)
    assert provider.main_endpoint("m", stream=False) == f"{VERTEX}/models/m:rawPredict"
    assert provider.count_endpoint("messages/count_tokens", "m") == f"{VERTEX}/models/count-tokens:rawPredict"
    # Google rejects parameters that it does not know.
    assert provider.main_endpoint("m", stream=False, query="beta=true") == f"{VERTEX}/models/m:rawPredict"
    assert provider.count_endpoint("messages/count_tokens", "m", "beta=true") == provider.count_endpoint("", "m")
    assert provider.door.body == {"anthropic_version": "vertex-2023-10-16"}
    assert provider.door.omit == ("model",)


def test_model_lists_of_copilot_have_no_version() -> None:
    assert parsed("chat", "https://api.githubcopilot.com").endpoint("models") == "https://api.githubcopilot.com/models"


HEADERS = [
    ("messages", VERTEX, KEY, "bearer"),
    ("messages", VERTEX, COMMAND, "bearer"),
    ("messages", "https://r.services.ai.azure.com/anthropic", KEY, "x-api-key"),
    ("messages", "https://r.services.ai.azure.com/anthropic", COMMAND, "bearer"),
    ("messages", "https://r.services.ai.azure.com/anthropic", ENTRA, "bearer"),
    ("generate", GOOGLE, COMMAND, "bearer"),
    ("generate", GOOGLE, {"credential": {"kind": "google"}}, "bearer"),
    ("chat", f"{AZURE}/v1", KEY, "bearer"),
    ("chat", AZURE, KEY, "api-key"),
    ("chat", AZURE, COMMAND, "bearer"),
    ("chat", AZURE, ENTRA, "bearer"),
    ("responses", AZURE, KEY, "api-key"),
    ("messages", "https://bedrock-runtime.us-east-1.amazonaws.com/anthropic", KEY, "bearer"),
    ("messages", "https://bedrock-mantle.us-east-1.api.aws/anthropic", COMMAND, "bearer"),
    ("messages", "https://api.githubcopilot.com", COMMAND, "bearer"),
    ("messages", "https://api.vendor.example", COMMAND, "x-api-key"),
]


@pytest.mark.parametrize(("dialect", "base_url", "key", "word"), HEADERS)
def test_the_header_of_a_key_and_of_a_token(dialect: str, base_url: str, key: dict[str, Any], word: str) -> None:
    assert parsed(dialect, base_url, **key).key_header == word
    assert parsed(dialect, base_url, **key, auth_header="x-goog-api-key").key_header == "x-goog-api-key"


def test_a_signed_request_has_no_other_header() -> None:
    assert parsed("messages", "https://bedrock-runtime.us-east-1.amazonaws.com/anthropic", **SIGNED).door is PLAIN


def test_what_is_configured_goes_before_the_default() -> None:
    settings: dict[str, Any] = {"body": {"x": 1, "anthropic_version": "v"}, "omit": ["y"], "betas": "header"}
    door = parsed("messages", VERTEX, **settings).door
    assert door.body == {"x": 1, "anthropic_version": "v"}
    assert (door.omit, door.betas) == (("model", "y"), "header")
    own = parsed("messages", VERTEX, path="own/{model}").door
    assert (own.path, own.stream_path, own.count_path, own.omit) == ("own/{model}", "", "", ())
    assert own.body == {"anthropic_version": "vertex-2023-10-16"}
    kept = parsed("responses", "https://chatgpt.com/backend-api/codex", body={"top_p": 1}).door
    assert "top_p" not in kept.omit
    assert kept.body == {"store": False, "top_p": 1}


@pytest.mark.parametrize("dialect", Dialect)
def test_other_paths_of_these_hosts_are_addressed_as_usual(dialect: Dialect) -> None:
    for url in (
        "https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/l/endpoints/openapi",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "https://us-east5-aiplatform.googleapis.com.evil.example/publishers/anthropic",
        "https://chatgpt.com",
        "http://[::1",
    ):
        assert host_door(dialect, url) is None
        assert Provider("p", dialect, url).door is PLAIN


def test_each_default_is_a_valid_setting_with_a_source() -> None:
    names = {spec.name for spec in fields(Door)}
    for door in (*DOORS, BEDROCK):
        assert door.settings.keys() <= names
        assert {door.key, door.token} <= {"", *AUTH_HEADERS}
        assert door.key or door.token or door.settings
        assert door.source.startswith("https://")
        for dialect in door.dialects:
            assert not [*Door(**door.settings).problems("p", dialect)]


def test_betas_are_of_messages_only() -> None:
    with pytest.raises(ConfigError, match=r"p\.betas: has no effect"):
        parsed("chat", "http://h/v1", betas="body")


def test_a_base_url_at_which_a_cloud_does_not_serve_the_dialect() -> None:
    with pytest.raises(ConfigError, match=r"p\.base_url: is not where Vertex AI .*/publishers/anthropic; got "):
        parsed("messages", "https://us-east5-aiplatform.googleapis.com/v1")
    with pytest.raises(ConfigError, match=r"p\.base_url: is not where Vertex AI .*/publishers/google; got "):
        parsed("generate", "https://us-east5-aiplatform.googleapis.com/v1")
    with pytest.raises(
        ConfigError, match=r"p\.base_url: is not where Bedrock serves this dialect: write .*/anthropic; "
    ):
        parsed("messages", "https://bedrock-runtime.us-east-1.amazonaws.com")
    for url in ("https://us-east5-aiplatform.googleapis.com/v1", "https://bedrock-runtime.us-east-1.amazonaws.com"):
        assert parsed("messages", url, path="own/{model}").door.path == "own/{model}"

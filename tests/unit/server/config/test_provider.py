"""Providers: URLs, default profiles, and keys that are not shown."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from typing import Any

import pytest

from dragoman.dialects import Dialect
from dragoman.profiles.profile import BUILTIN_PROFILES, Profile
from dragoman_server.config.load import parse_config
from dragoman_server.config.provider import Auth, Provider, Secret
from dragoman_server.config.schema import Server

CANARY = "sk-canary-7f3a"


def provider(**more: Any) -> dict[str, Any]:
    return {"providers": {"local": {"dialect": "chat", "base_url": "http://127.0.0.1:9000/v1", **more}}}


def test_secrets_compare_and_copy() -> None:
    secret = Secret(CANARY)
    assert secret == Secret(CANARY)
    assert secret != Secret("other")
    assert secret != CANARY
    assert copy.deepcopy(secret) == pickle.loads(pickle.dumps(secret)) == secret
    assert len({secret, Secret(CANARY)}) == 1
    given: Any = CANARY
    assert CANARY not in repr(Provider("a", Dialect.CHAT, "http://x", given))
    assert CANARY not in repr(Server(keys=(given,)))


@pytest.mark.parametrize(
    ("dialect", "base_url", "path", "url"),
    [
        ("chat", "http://h:9000/v1", "chat/completions", "http://h:9000/v1/chat/completions"),
        ("chat", "http://h:9000/v1/", "/chat/completions", "http://h:9000/v1/chat/completions"),
        ("chat", "http://h:9000", "models", "http://h:9000/v1/models"),
        ("chat", "http://h:9000/", "models", "http://h:9000/v1/models"),
        ("chat", "https://h/api/paas/v4", "chat/completions", "https://h/api/paas/v4/chat/completions"),
        ("chat", "https://h/v1beta/openai/", "chat/completions", "https://h/v1beta/openai/chat/completions"),
        ("responses", "https://api.openai.com/v1", "responses", "https://api.openai.com/v1/responses"),
        ("responses", "https://h/o/v1?api-version=7", "responses", "https://h/o/v1/responses?api-version=7"),
        ("responses", "https://h?api-version=7", "responses", "https://h/v1/responses?api-version=7"),
        ("messages", "https://api.anthropic.com", "messages", "https://api.anthropic.com/v1/messages"),
        ("messages", "https://api.anthropic.com/v1/", "messages", "https://api.anthropic.com/v1/messages"),
        ("messages", "https://h/anthropic", "messages/count_tokens", "https://h/anthropic/v1/messages/count_tokens"),
        ("messages", "http://[::1]:80", "models", "http://[::1]:80/v1/models"),
    ],
)
def test_endpoint_urls(dialect: str, base_url: str, path: str, url: str) -> None:
    upstream = Provider("p", Dialect(dialect), base_url)
    assert upstream.endpoint(path) == url
    assert upstream.endpoint(path, "beta=true") == url + ("&" if "?" in url else "?") + "beta=true"


@pytest.mark.parametrize(
    ("dialect", "base_url", "profile"),
    [
        ("chat", "https://api.openai.com/v1", "openai"),
        ("chat", "https://API.OpenAI.com/v1", "openai"),
        ("responses", "https://api.openai.com/v1", "openai"),
        ("messages", "https://api.anthropic.com", "anthropic"),
        ("chat", "https://api.anthropic.com/v1", "compatible"),
        ("messages", "https://api.openai.com", "compatible"),
        ("chat", "https://api.openai.com.evil.example/v1", "compatible"),
        ("chat", "http://127.0.0.1:9000/v1", "compatible"),
    ],
)
def test_the_default_profile_is_the_vendors_for_its_host_only(dialect: str, base_url: str, profile: str) -> None:
    expected = replace(BUILTIN_PROFILES[dialect, profile], family="p")
    assert Provider("p", Dialect(dialect), base_url).profile == expected
    data = {"providers": {"p": {"dialect": dialect, "base_url": base_url}}}
    assert parse_config(data, {}).providers["p"].profile == expected


def test_a_family_is_the_providers_name_unless_it_is_configured() -> None:
    """So that what one upstream sealed goes back to it only, or to those that share its keys."""
    data: dict[str, Any] = {"providers": {name: dict(provider()["providers"]["local"]) for name in ("a", "b", "c")}}
    for name in ("b", "c"):
        data["providers"][name]["profile_flags"] = {"family": "account"}
    config = parse_config(data, {})
    assert {name: p.profile.family for name, p in config.providers.items()} == {
        "a": "a",
        "b": "account",
        "c": "account",
    }
    assert Provider("p", Dialect.CHAT, "http://x", profile=Profile(family="own")).profile.family == "own"
    assert Provider("p", Dialect.CHAT, "http://x", profile=Profile()).profile.family == "p"


@pytest.mark.parametrize(
    ("dialect", "auth", "problem"),
    [
        ("responses", Auth.CONFIGURED, ""),
        ("chat", Auth.CONFIGURED, "needs an upstream of the Responses API, and this one is chat"),
        ("messages", Auth.CONFIGURED, "needs an upstream of the Responses API, and this one is messages"),
        ("responses", Auth.PASSTHROUGH, "needs a key of the configuration: no other process has the keys of clients"),
    ],
)
def test_background_responses_need_the_responses_api_and_a_key(dialect: str, auth: Auth, problem: str) -> None:
    made = Provider("up", Dialect(dialect), "http://x/v1", auth=auth, background=True)
    assert [*made.problems("providers.up")] == ([("providers.up.background", problem)] if problem else [])

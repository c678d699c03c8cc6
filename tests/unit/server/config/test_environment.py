"""A configuration made of environment variables or of the command line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dragoman.dialects import Dialect
from dragoman.profiles.profile import BUILTIN_PROFILES
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.environment import config_from_environment
from dragoman_server.config.load import NothingConfigured, parse_config
from dragoman_server.config.provider import Secret
from dragoman_server.config.schema import Models
from dragoman_server.routing.router import Router

CANARY = "sk-canary-7f3a"


def provider(**more: Any) -> dict[str, Any]:
    return {"providers": {"local": {"dialect": "chat", "base_url": "http://127.0.0.1:9000/v1", **more}}}


def test_big_and_small_come_from_the_environment_too() -> None:
    env = {"BIG_MODEL_NAME": "b", "SMALL_MODEL_NAME": "s"}
    assert parse_config(provider(), env).models == Models("b", "s")
    assert parse_config({**provider(), "models": {"big": "file"}}, env).models == Models("file", "s")


def test_nothing_configured_is_an_error() -> None:
    for env in ({}, {"OPENAI_API_KEY": " "}, {"OPENAI_BASE_URL": "http://x"}, {"BIG_MODEL_NAME": "m"}):
        with pytest.raises(NothingConfigured, match="OPENAI_API_KEY"):
            config_from_environment(env)


def test_vendor_keys_make_vendor_providers() -> None:
    config = config_from_environment({"ANTHROPIC_API_KEY": "a"})
    assert list(config.providers) == ["anthropic"]
    assert config.models.policy == "pass"

    both = {"OPENAI_API_KEY": "o", "ANTHROPIC_API_KEY": "a", "ANTHROPIC_BASE_URL": "http://proxy:1"}
    config = config_from_environment(both)
    assert list(config.providers) == ["openai", "openai-responses", "anthropic"]
    assert config.providers["anthropic"].endpoint("messages") == "http://proxy:1/v1/messages"
    assert config.providers["anthropic"].profile == replace(
        BUILTIN_PROFILES["messages", "compatible"], family="anthropic"
    )

    assert config_from_environment(both, dialect="responses").providers["openai"].dialect is Dialect.RESPONSES
    assert list(config_from_environment(both, dialect="responses").providers) == ["openai"]
    assert list(config_from_environment(both, dialect="messages").providers) == ["anthropic"]
    with pytest.raises(ConfigError, match=r"^dialect: messages needs a base URL, or ANTHROPIC_API_KEY"):
        config_from_environment({"OPENAI_API_KEY": "o"}, dialect="messages")


def test_geminis_key_makes_a_provider_of_its_own_api() -> None:
    config = config_from_environment({"GEMINI_API_KEY": "g"})
    [(name, gemini)] = config.providers.items()
    assert (name, gemini.dialect, gemini.profile_name) == ("gemini", Dialect.GENERATE, "gemini")
    assert Router(config).resolve("anything", Dialect.CHAT).provider is gemini
    assert config_from_environment({"GEMINI_API_KEY": "g"}, dialect="generate").providers["gemini"] == gemini
    with pytest.raises(ConfigError, match=r"^dialect: generate needs a base URL, or GEMINI_API_KEY"):
        config_from_environment({"OPENAI_API_KEY": "o"}, dialect="generate")


@pytest.mark.parametrize(
    ("others", "model"),
    [(("OPENAI",), "gpt-x"), (("ANTHROPIC",), "claude-x"), (("OPENAI", "ANTHROPIC"), "claude-x")],
)
def test_gemini_beside_other_vendors_gets_its_own_models(others: tuple[str, ...], model: str) -> None:
    env = {f"{vendor}_API_KEY": "k" for vendor in (*others, "GEMINI")}
    router = Router(config_from_environment(env))
    for client in (Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES):
        assert router.resolve("gemini-3-pro", client).provider.name == "gemini"
        assert router.resolve(model, client).provider.name != "gemini"
    sized = Router(config_from_environment({**env, "BIG_MODEL_NAME": "gemini-x", "SMALL_MODEL_NAME": model}))
    assert sized.resolve("claude-opus-5", Dialect.MESSAGES).provider.name == "gemini"
    assert sized.resolve("claude-haiku-5", Dialect.MESSAGES).provider.name != "gemini"


def test_openais_key_makes_both_of_its_surfaces() -> None:
    config = config_from_environment({"OPENAI_API_KEY": "o"})
    chat, responses = config.providers["openai"], config.providers["openai-responses"]
    assert list(config.providers) == ["openai", "openai-responses"]
    assert (chat.dialect, chat.base_url, chat.api_key) == ("chat", "https://api.openai.com/v1", Secret("o"))
    assert (responses.dialect, responses.base_url, responses.api_key) == ("responses", chat.base_url, chat.api_key)
    assert chat.profile == replace(BUILTIN_PROFILES["chat", "openai"], family="openai")
    assert responses.profile == replace(BUILTIN_PROFILES["responses", "openai"], family="openai")
    # Of a server that is not OpenAI's, only Chat is known.
    other = config_from_environment({"OPENAI_API_KEY": "o", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"})
    assert list(other.providers) == ["openai"]
    assert other.models.policy == "pass"
    assert list(config_from_environment({"OPENAI_API_KEY": "o"}, dialect="chat").providers) == ["openai"]


def test_the_command_lines_upstream_stands_alone() -> None:
    env = {"OPENAI_API_KEY": CANARY, "ANTHROPIC_API_KEY": CANARY, "MY_KEY": "mine"}
    config = config_from_environment(env, base_url="http://127.0.0.1:9000/v1", api_key="${MY_KEY}")
    assert list(config.providers) == ["upstream"]
    assert config.providers["upstream"].api_key == Secret("mine")
    assert config.providers["upstream"].dialect is Dialect.CHAT
    assert config.models.policy == "pass"
    # No vendor's key leaves for another host; a neutral variable keeps keys out of the process list.
    assert config_from_environment(env, base_url="http://evil/v1").providers["upstream"].api_key is None
    neutral = config_from_environment({**env, "UPSTREAM_API_KEY": "u"}, base_url="http://h/v1", dialect="responses")
    assert neutral.providers["upstream"].api_key == Secret("u")
    assert neutral.providers["upstream"].dialect is Dialect.RESPONSES
    claude = config_from_environment(env, base_url="https://api.anthropic.com").providers["upstream"]
    assert (claude.dialect, claude.api_key) == ("messages", Secret(CANARY))
    keyed = config_from_environment({}, dialect="messages", api_key="k").providers["upstream"]
    assert keyed.endpoint("messages") == "https://api.anthropic.com/v1/messages"


@pytest.mark.parametrize(
    ("env", "more", "path"),
    [
        ({"OPENAI_API_KEY": "o", "OPENAI_BASE_URL": "nowhere"}, {}, "OPENAI_BASE_URL"),
        ({"OPENAI_API_KEY": "o\nx"}, {}, "OPENAI_API_KEY"),
        ({}, {"base_url": "nowhere"}, "base_url"),
        ({}, {"base_url": "http://h", "api_key": "${NONE}"}, "api_key"),
        ({}, {"base_url": "http://h", "dialect": "mesages"}, "dialect"),
        ({}, {"api_key": "k"}, "api_key"),
    ],
)
def test_environment_problems_name_the_variable_or_option(env: dict[str, str], more: dict[str, Any], path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config_from_environment(env, **more)
    assert [where for where, _ in caught.value.problems] == [path]


@pytest.mark.parametrize(
    ("env", "more", "expected"),
    [
        ({}, {"base_url": "http://127.0.0.1:9/v1"}, [("upstream", "m")] * 3),
        ({"BIG_MODEL_NAME": "big"}, {"base_url": "http://127.0.0.1:9/v1"}, [("upstream", "m")] * 3),
        ({"OPENAI_API_KEY": "k"}, {}, [("openai", "m"), ("openai-responses", "m"), ("openai-responses", "m")]),
        ({"ANTHROPIC_API_KEY": "k"}, {}, [("anthropic", "m")] * 3),
        ({"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}, {"model": "claude-x"}, [("anthropic", "claude-x")] * 3),
    ],
)
def test_one_model_gets_all_requests(
    env: dict[str, str], more: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    config = config_from_environment(env, **{"model": "m", **more})
    router = Router(config)
    for name in ("claude-sonnet-5-5", "gpt-5.5", "anything"):
        targets = [router.resolve(name, client) for client in (Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES)]
        assert [(target.provider.name, target.upstream_model) for target in targets] == expected
    assert [name for name, _ in router.known_models()] == [expected[0][1]]

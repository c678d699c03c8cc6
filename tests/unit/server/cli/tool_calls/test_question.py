"""The models to ask, and the requests."""

from __future__ import annotations

import pytest

from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman.profiles.profile import builtin_profile
from dragoman_server.cli.command_error import CommandError
from dragoman_server.cli.tool_calls.question import models_to_ask, request_for, unasked
from dragoman_server.config.provider import Auth, Provider
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RouteTarget
from dragoman_server.config.schema import Config, Models
from oracles.requests import check

CHAT, MESSAGES, RESPONSES, *_ = Dialect
LOCAL = Provider("local", CHAT, "http://h/v1")
OTHER = Provider("other", MESSAGES, "http://h")
THEIRS = Provider("theirs", RESPONSES, "http://h/v1", auth=Auth.PASSTHROUGH)
PROVIDERS = {each.name: each for each in (LOCAL, OTHER, THEIRS)}


def names(config: Config, *asked: str) -> list[str]:
    return [f"{model.provider.name}/{model.name}" for model in models_to_ask(config, asked)]


def test_the_models_that_the_configuration_names() -> None:
    routes = [
        Route("exact", "local"),
        Route("claude-*", "other", "big"),
        Route("gpt-*", "local", "*"),
        Route("/llama-(.*)/", "local", "\\1"),
        Route("pair", targets=(RouteTarget("local", "one"), RouteTarget("other", "two"))),
        Route("pairs-*", targets=(RouteTarget("local", "three"), RouteTarget("other"))),
        Route("theirs", "theirs"),
    ]
    config = Config(providers=PROVIDERS, routes=routes, models=Models(big="other/opus"))
    assert sorted(names(config)) == [
        *("local/exact", "local/one", "local/three"),
        *("other/big", "other/opus", "other/two"),
    ]
    assert list(unasked(config, models_to_ask(config, []))) == [(THEIRS, "clients send their own keys")]


def test_a_provider_without_a_named_model_is_reported() -> None:
    config = Config(providers={"local": LOCAL}, routes=[Route("*", "local")])
    assert names(config) == []
    assert list(unasked(config, [])) == [(LOCAL, "no route names a model of it: add --ask local/MODEL")]


def test_models_are_named_by_the_command_line() -> None:
    config = Config(providers=PROVIDERS)
    assert names(config, "local/org/model", "other/b", "local/org/model") == ["local/org/model", "other/b"]
    assert names(Config(providers={"local": LOCAL}), "org/model") == ["local/org/model"]
    with pytest.raises(CommandError, match="PROVIDER/MODEL"):
        names(config, "org/model")
    with pytest.raises(CommandError, match="no key of its own"):
        names(config, "theirs/model")


@pytest.mark.parametrize("client", CLIENT_DIALECTS)
def test_the_real_apis_take_the_requests(client: Dialect) -> None:
    vendor = "anthropic" if client is MESSAGES else "openai"
    own = Provider("own", client, "http://h/v1", profile=builtin_profile(client, vendor))
    headers = {"anthropic-version": "2023-06-01"}
    for provider in (own, LOCAL if client is not CHAT else OTHER):
        check(client.value, request_for(client, "m", provider), headers, counting=False)


def test_a_request_of_the_own_dialect_has_what_the_profile_takes() -> None:
    profile = LOCAL.profile.replace(
        {"parallel_tool_calls": False, "strict_tools": False, "stream_usage": False, "tool_choice": "auto"}
    )
    body = request_for(CHAT, "m", Provider("local", CHAT, "http://h/v1", profile=profile))
    assert body["max_tokens"] > 0
    assert body["tool_choice"] == "auto"
    assert not {"parallel_tool_calls", "stream_options", "max_completion_tokens"} & body.keys()
    assert "strict" not in body["tools"][0]["function"]

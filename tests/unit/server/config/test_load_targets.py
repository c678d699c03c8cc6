"""Routes with several providers, keys and limits of providers, and retries in the file."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import Dialect
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.load import parse_config
from dragoman_server.config.routing_options import RetryOptions, RouteTarget
from dragoman_server.config.schema import Config
from dragoman_server.routing.router import Router

BASE = {"dialect": "chat", "base_url": "http://127.0.0.1:9/v1"}


def parsed(*, provider: dict[str, Any] | None = None, route: dict[str, Any] | None = None, **root: Any) -> Config:
    providers = {"a": {**BASE, **(provider or {})}, "b": BASE}
    routes = [{"model": "m-*", **(route or {"provider": "a"})}]
    return parse_config({"providers": providers, "routes": routes, **root}, {"ONE": "key-one", "TWO": "key-two"})


def problems(**given: Any) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        parsed(**given)
    return dict(caught.value.problems)


def test_names_are_tried_in_their_order() -> None:
    (route,) = parsed(route={"providers": ["b", "a"], "upstream_model": "x"}).routes
    assert route.targets == (RouteTarget("b", priority=1), RouteTarget("a", priority=2))
    assert (route.provider, route.provider_names) == ("b", ["b", "a"])
    assert (route.balance, route.attempts) == ("sticky", None)


def test_a_target_has_weight_priority_and_model() -> None:
    second = {"provider": "b", "upstream_model": "x-*", "priority": 1}
    providers = [{"provider": "a", "weight": 3, "priority": 2}, second]
    (route,) = parsed(route={"providers": providers, "balance": "weighted", "attempts": 2}).routes
    assert route.targets == (RouteTarget("a", None, 3.0, 2), RouteTarget("b", "x-*", 1.0, 1))
    assert (route.provider, route.balance, route.attempts) == ("b", "weighted", 2)


def test_keys_and_limits_of_a_provider() -> None:
    given = {"api_keys": ["${ONE}", "${TWO}"], "concurrent": 4, "queue": 8, "queue_seconds": 2}
    provider = parsed(provider=given).providers["a"]
    assert [key.reveal() for key in provider.api_keys] == ["key-one", "key-two"]
    assert provider.api_key == provider.api_keys[0]
    assert (provider.concurrent, provider.queue, provider.queue_seconds) == (4, 8, 2.0)


def test_the_table_of_retries() -> None:
    assert parsed(retries={"attempts": 4, "budget": 0.5}).retries == RetryOptions(attempts=4, budget=0.5)
    assert parsed().retries == RetryOptions()


@pytest.mark.parametrize(
    ("route", "path"),
    [
        ({"providers": []}, "routes[0].providers"),
        ({"providers": ["a"], "provider": "b"}, "routes[0].providers"),
        ({"providers": ["a", "c"]}, "routes[0].providers[1].provider"),
        ({"providers": ["a", 7]}, "routes[0].providers[1]"),
        ({"providers": [{"name": "a"}]}, "routes[0].providers[0].name"),
        ({"providers": [{"provider": "a", "upstream_model": "*-*"}]}, "routes[0].providers[0].upstream_model"),
        ({"providers": [{"provider": "a", "upstream_model": ""}]}, "routes[0].providers[0].upstream_model"),
        ({"providers": ["a"], "balance": "random"}, "routes[0].balance"),
        ({"provider": "a", "attempts": 0}, "routes[0].attempts"),
    ],
)
def test_a_wrong_route_is_reported(route: dict[str, Any], path: str) -> None:
    assert path in problems(route=route)


@pytest.mark.parametrize(
    ("provider", "path"),
    [
        ({"api_keys": []}, "providers.a.api_keys"),
        ({"api_keys": ["${ONE}"], "api_key": "x"}, "providers.a.api_keys"),
        ({"api_keys": ["${ONE}", "${ONE}"]}, "providers.a.api_keys[1]"),
        ({"api_keys": ["${ONE}", ""]}, "providers.a.api_keys[1]"),
        ({"api_keys": ["${ONE}", "${TWO}"], "auth": "passthrough"}, "providers.a.api_keys"),
        ({"concurrent": -1}, "providers.a.concurrent"),
        ({"queue": 3}, "providers.a.queue"),
        ({"queue_seconds": 0}, "providers.a.queue_seconds"),
    ],
)
def test_a_wrong_provider_is_reported(provider: dict[str, Any], path: str) -> None:
    assert path in problems(provider=provider)


def test_wrong_retries_are_reported() -> None:
    assert set(problems(retries={"attempts": 21, "budget": "all", "more": 1})) == {
        "retries.attempts",
        "retries.budget",
        "retries.more",
    }


def test_a_regex_fills_the_models_of_all_targets() -> None:
    route = {
        "model": "/(?P<family>gpt|o)-(.+)/",
        "upstream_model": r"\g<family>/\2",
        "providers": ["a", {"provider": "b", "upstream_model": r"mirror-\2"}],
    }
    plan = Router(parsed(route=route)).resolve("gpt-5", Dialect.CHAT).plan
    assert plan is not None
    assert [each.upstream_model for each in plan.candidates] == ["gpt/5", "mirror-5"]

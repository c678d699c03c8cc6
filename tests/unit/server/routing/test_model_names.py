"""Names by which clients can ask for what an upstream lists: found from the routes, and each of them leads there."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.dialects import Dialect
from dragoman_server.config.environment import config_from_environment
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RouteTarget
from dragoman_server.config.schema import Config, Models
from dragoman_server.routing.model_names import ModelNames
from dragoman_server.routing.router import Router

CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES


def found(config: Config, provider: str, model: str, *clients: Dialect) -> list[str]:
    return ModelNames(Router(config)).of(config.providers[provider], model, clients or (CHAT, RESPONSES))


def one(*routes: Route, **models: Any) -> Config:
    providers = {name: Provider(name, CHAT, f"http://{name}/v1") for name in ("up", "other")}
    return Config(providers, routes, Models(**models))


@pytest.mark.parametrize(
    ("routes", "model", "names"),
    [
        # A pattern passes the name on.
        ([Route("*", "up")], "qwen3", ["qwen3"]),
        ([Route("qwen*", "up")], "qwen3", ["qwen3"]),
        ([Route("/qwen.*/", "up")], "qwen3", ["qwen3"]),
        # A pattern renames.
        ([Route("my-*", "up", "qwen-*")], "qwen-8b", ["my-8b"]),
        ([Route("my-*-x", "up", "*")], "qwen3", ["my-qwen3-x"]),
        ([Route("my-*", "up", "qwen-*"), Route("*", "up")], "qwen-8b", ["qwen-8b", "my-8b"]),
        # What a route takes from it has its provider in front.
        ([Route("qwen3", "other"), Route("*", "up")], "qwen3", ["up/qwen3"]),
        ([Route("*", "other")], "qwen3", ["up/qwen3"]),
        ([Route("*", "up", "fixed")], "qwen3", ["up/qwen3"]),
        ([Route("up/*", "other")], "qwen3", []),
        # One with the provider in front stands in for none.
        ([Route("up/*", "up", "*"), Route("*", "up")], "qwen3", ["qwen3"]),
        ([Route("up/*", "up", "*")], "qwen3", ["up/qwen3"]),
        ([Route("claude-*", "up", "qwen3")], "qwen3", ["up/qwen3"]),
        ([], "qwen3", ["up/qwen3"]),
        # Exact names only: the operator's own choice.
        ([Route("fast", "up", "qwen3")], "qwen3", []),
    ],
)
def test_names_by_routes(routes: list[Route], model: str, names: list[str]) -> None:
    assert found(one(*routes), "up", model) == names


def test_names_hold_for_the_clients_that_ask() -> None:
    config = one(Route("*", "up", client=MESSAGES), Route("*", "other"))
    assert found(config, "up", "m", MESSAGES) == ["m"]
    assert found(config, "up", "m", CHAT, RESPONSES) == ["up/m"]
    assert found(config, "other", "m", CHAT, RESPONSES) == ["m"]


def test_a_single_vendor_of_the_environment() -> None:
    config = config_from_environment({"OPENAI_API_KEY": "k"})
    assert found(config, "openai", "gpt-5") == ["gpt-5"]
    assert found(config, "openai-responses", "gpt-5") == ["gpt-5"]
    assert found(config, "openai", "gpt-5", MESSAGES) == []
    assert found(config, "openai-responses", "gpt-5", MESSAGES) == ["gpt-5"]


def test_both_vendors_of_the_environment() -> None:
    config = config_from_environment({"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"})
    assert found(config, "openai", "gpt-5") == ["gpt-5"]
    assert found(config, "anthropic", "claude-opus-5", MESSAGES) == ["claude-opus-5"]
    assert found(config, "openai", "whisper-1") == ["openai/whisper-1"]


def test_a_base_url_with_and_without_sizes() -> None:
    assert found(config_from_environment({}, base_url="http://h/v1"), "upstream", "qwen3") == ["qwen3"]
    sized = config_from_environment({"BIG_MODEL_NAME": "qwen3"}, base_url="http://h/v1")
    assert found(sized, "upstream", "qwen3") == ["qwen3"]
    assert found(sized, "upstream", "qwen3-mini") == ["upstream/qwen3-mini"]


_NAME = st.text("ab-/*?[]", min_size=1, max_size=6)


@given(
    st.lists(st.tuples(_NAME, st.sampled_from(["up", "other"]), st.none() | _NAME), max_size=4),
    st.text("ab-/", min_size=1, max_size=6),
    st.sampled_from([None, "pass", "reject"]),
)
def test_every_name_leads_to_its_model(
    routes: list[tuple[str, str, str | None]], model: str, unknown: str | None
) -> None:
    config = one(*(Route(*route) for route in routes), unknown=unknown)
    if config.problems():
        return
    router = Router(config)
    for name in found(config, "up", model):
        target = router.resolve(name, CHAT)
        assert (target.provider.name, target.upstream_model) == ("up", model)


def test_every_provider_of_a_route_lends_its_names() -> None:
    targets = RouteTarget("up"), RouteTarget("other", "mirror/*")
    config = one(Route("my-*", upstream_model="*", targets=targets))
    assert found(config, "up", "qwen3") == ["my-qwen3"]
    assert found(config, "other", "mirror/qwen3") == ["my-qwen3"]
    assert found(config, "other", "qwen3") == ["other/qwen3"]

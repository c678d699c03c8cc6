"""LiteLLM's settings besides its models."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman_server.cli.imports.imported import Imported
from dragoman_server.cli.imports.litellm import import_litellm
from dragoman_server.cli.imports.litellm_settings import import_settings, is_positive, list_of, table_of, text_of


def models(*names: str, **groups: Any) -> Imported:
    """The import of models of Ollama, and of settings."""
    entries = [{"model_name": name, "litellm_params": {"model": f"ollama/{name}"}} for name in names]
    return import_litellm({"model_list": entries, **groups})


def providers(found: Imported, model: str) -> list[tuple[str, str | None]]:
    """The providers of a route with the names of the model there."""
    route = next(route for route in found.routes if route.model == model)
    targets = [(each.provider, each.upstream_model) for each in route.further]
    return [(route.provider, route.upstream_model), *targets]


@pytest.mark.parametrize("group", ["litellm_settings", "router_settings"])
def test_fallbacks(group: str) -> None:
    found = models("a", "b", "c", **{group: {"fallbacks": [{"a": ["b", "c"]}, {"b": ["a", "a"]}]}})
    assert providers(found, "a") == [("ollama", None), ("ollama", "b"), ("ollama", "c")]
    # That of b is not followed by those of a.
    assert providers(found, "b") == [("ollama", None), ("ollama", "a")]
    assert providers(found, "c") == [("ollama", None)]
    assert found.unmatched == []
    assert found.problems() == []


def test_fallbacks_of_all_models() -> None:
    found = models("a", "b", litellm_settings={"default_fallbacks": ["b"]})
    assert providers(found, "a") == [("ollama", None), ("ollama", "b")]
    assert providers(found, "b") == [("ollama", None)]
    assert providers(models("a", "b", router_settings={"fallbacks": [{"*": ["b"]}]}), "a")[1:] == [("ollama", "b")]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ([{"nowhere": ["a"]}], "is for a model that is not imported"),
        ([{"a": ["nowhere"]}], "names a model that is not imported, or a pattern"),
        ([{"a": ["*"]}], "names a model that is not imported, or a pattern"),
        ([{"a": [5]}], "names a model that is not imported, or a pattern"),
    ],
)
def test_fallbacks_that_lead_nowhere_are_listed(value: Any, why: str) -> None:
    found = models("a", "*", router_settings={"fallbacks": value})
    assert ("router_settings.fallbacks[0]", why) in found.unmatched
    assert found.problems() == []


def test_retries_and_pauses() -> None:
    settings = {"num_retries": 2, "cooldown_time": 30, "allowed_fails": 3, "routing_strategy": "least-busy"}
    found = models("a", router_settings=settings)
    assert found.retries == {"attempts": 3, "cooldown": 30.0, "failures": 4}
    assert found.balance == "least-busy"
    assert found.problems() == []
    assert models("a", router_settings={"num_retries": 500}).problems() == []
    unmatched = models("a", router_settings={"routing_strategy": "latency-based-routing", "num_retries": "x"}).unmatched
    assert [path for path, _ in unmatched] == ["router_settings.routing_strategy", "router_settings.num_retries"]


def test_an_alias_has_the_fallbacks_of_its_model() -> None:
    settings = {"model_group_alias": {"x": "a", "y": {"model": "a", "hidden": True}}, "fallbacks": [{"a": ["b"]}]}
    found = models("a", "b", router_settings=settings)
    for alias in ("x", "y"):
        assert providers(found, alias) == [("ollama", "a"), ("ollama", "b")]
    assert found.problems() == []


def test_weights() -> None:
    params = [
        {"model": "ollama/a", "api_base": f"http://{host}", "weight": weight} for host, weight in (("h", 2), ("i", 1))
    ]
    found = import_litellm({"model_list": [{"model_name": "a", "litellm_params": each} for each in params]})
    assert [
        (each["provider"], each["priority"], each["weight"]) for each in found.routes[0].settings()["providers"]
    ] == [("ollama", 1, 2.0), ("ollama-2", 1, 1.0)]
    assert found.problems() == []


def test_values_of_the_file() -> None:
    assert text_of(" os.environ/KEY ") == "${KEY}"
    assert table_of({"a": [1]}, "a") == {}
    assert table_of({"a": {1: 2}}, "a") == {"1": 2}
    assert list_of("ab") == []
    assert [is_positive(value) for value in (1, 0.5, 0, -1, True, "1", None)] == [True, True, *[False] * 5]
    found = Imported("a test")
    import_settings(found, {"general_settings": 5, "mcp_servers": {}})
    assert found.unmatched == [("mcp_servers", "has no counterpart")]

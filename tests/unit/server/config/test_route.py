"""A route's pattern, and the model that it sends upstream."""

from __future__ import annotations

import pytest

from dragoman import Dialect
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RouteTarget

PROVIDERS = {"p": Provider("p", Dialect.CHAT, "http://127.0.0.1:9000/v1")}


@pytest.mark.parametrize(
    ("model", "upstream", "name", "sent"),
    [
        ("claude-*", "c-*", "claude-opus", "c-opus"),
        ("gpt-[!4]?*", None, "gpt-5.2", "gpt-5.2"),
        ("[a.]*", "x", ".b", "x"),
        (r"/(o\d)-(?P<size>mini|pro)/", r"\g<size>-\1", "o3-mini", "mini-o3"),
        ("exact", "other", "exact", "other"),
    ],
)
def test_a_name_is_matched_and_replaced(model: str, upstream: str | None, name: str, sent: str) -> None:
    route = Route(model, "p", upstream)
    assert list(route.problems("routes[0]", PROVIDERS)) == []
    pattern = route.pattern()
    match = pattern.fullmatch(name) if pattern is not None else None
    assert (match is not None) == (pattern is not None)
    assert route.expanded(route.upstream_model, name, match) == sent


@pytest.mark.parametrize(("model", "all_of_them"), [("*", True), ("/.+/", True), ("", False), ("a*", False)])
def test_a_route_may_take_every_name(model: str, all_of_them: bool) -> None:
    assert Route(model, "p").takes_all is all_of_them


@pytest.mark.parametrize(
    ("route", "path", "message"),
    [
        (Route("/(/", "p"), "model", "bad pattern"),
        (Route("a*b*", "p", "x-*"), "upstream_model", "exactly one"),
        (Route("/(a)/", "p", r"\2"), "upstream_model", "bad template"),
        (Route("a", "q"), "provider", "provider"),
        (Route("a", "p", knobs={"no": 1}), "knobs.no", "unknown key"),
    ],
)
def test_problems_name_the_field(route: Route, path: str, message: str) -> None:
    ((found, text),) = route.problems("routes[0]", PROVIDERS)
    assert found == f"routes[0].{path}"
    assert message in text


def test_the_first_of_several_providers_is_that_of_the_route() -> None:
    route = Route("a", targets=(RouteTarget("b", priority=2), RouteTarget("p")))
    assert route.provider_names == ["b", "p"]
    assert [target.priority for target in route.targets] == [2, 2]
    assert route.provider == "b"

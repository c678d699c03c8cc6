"""Remarks on settings without effect, and none on a configuration whose settings all have one."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from aiohttp import web

from dragoman.dialects import Dialect
from dragoman_server import setup
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.accounts.keys.secret import KeyHash, new_key
from dragoman_server.accounts.limits.key_limits import KeyLimits
from dragoman_server.accounts.store.options import StoreOptions
from dragoman_server.accounts.usage.price import Price
from dragoman_server.config.capture_options import CaptureOptions
from dragoman_server.config.environment import config_from_environment
from dragoman_server.config.lint import models_without_price, remarks, warn_if_exposed
from dragoman_server.config.load import simulated_config
from dragoman_server.config.provider import Auth, Provider, Secret
from dragoman_server.config.route import Route
from dragoman_server.config.routing_options import RouteTarget
from dragoman_server.config.schema import Config, Models, Server
from dragoman_server.config.state_options import StateOptions
from dragoman_server.config.telemetry import Telemetry
from support.named_keys import made

UP = Provider("up", Dialect.CHAT, "http://127.0.0.1:9")
NO_ROUTE = "there is no route, so models are known as PROVIDER/MODEL only, such as up/…: write [[routes]]"


def _routed(*routes: Route) -> list[str]:
    return list(remarks(Config({"up": UP}, routes)))


def test_nothing_to_do() -> None:
    assert list(remarks(Config())) == [
        "there is no provider, so every model is refused (404): write a [providers.NAME]"
    ]
    assert list(remarks(Config({"up": UP}))) == [NO_ROUTE]


def test_captures_with_texts_and_captures_of_nothing_are_reported() -> None:
    config = Config({"up": UP}, [Route("*", "up")], capture=CaptureOptions("d"))
    _, record = made("ada")
    captured = {"ada": replace(record, capture=True)}
    assert list(remarks(replace(config, keys=captured))) == []
    off = replace(config, keys=captured, capture=CaptureOptions())
    assert list(remarks(off)) == ["keys.ada.capture has no effect without capture.directory"]
    with_texts = replace(config, capture=CaptureOptions("d", texts=True))
    assert list(remarks(with_texts)) == ["capture.texts = true writes the texts of prompts and replies to d"]


def test_a_listed_name_without_a_route_is_reported() -> None:
    other = Provider("other", Dialect.CHAT, "http://127.0.0.1:9")
    config = Config({"up": UP, "other": other}, [Route("g*", "up")], models_listed=["gpt", "other/x", "claude"])
    assert list(remarks(config)) == ["models.listed: claude is not listed, as no route leads from it"]


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        (Server(ui=True), []),
        (Server(ui=True, receipts=0), ["the console of server.ui shows no request while server.receipts is 0"]),
        (Server(ui=True, host="0.0.0.0", keys=(Secret("key"),)), []),
        (
            Server(ui=True, host="0.0.0.0"),
            ["the console of server.ui answers only on this machine, as no key is required: set server.keys"],
        ),
    ],
)
def test_a_console_that_shows_nothing_is_reported(server: Server, expected: list[str]) -> None:
    assert list(remarks(replace(simulated_config(), server=server))) == expected


def test_a_collector_that_gets_nothing_is_reported() -> None:
    config = Config({"up": UP}, [Route("*", "up")])
    off = replace(config, telemetry=Telemetry(endpoint="http://collector:4318"))
    assert list(remarks(off)) == [
        "telemetry.endpoint has no effect without telemetry.traces = true or telemetry.metrics = true"
    ]
    for used in (replace(off.telemetry, traces=True), replace(off.telemetry, metrics=True)):
        assert list(remarks(replace(config, telemetry=used))) == []


@pytest.mark.parametrize("models", [Models(big="b"), Models(small="s"), Models(unknown="pass")])
def test_models_do_without_a_route(models: Models) -> None:
    assert list(remarks(Config({"up": UP}, models=models))) == []


def test_a_route_behind_its_like_is_never_reached() -> None:
    assert _routed(Route("a", "up", "x"), Route("b", "up"), Route("a", "up", "y")) == [
        "routes[2] (a) is never reached: routes[0] (a) is before it"
    ]
    assert _routed(Route("*", "up"), Route("claude-*", "up"), Route("/gpt/", "up", client=Dialect.CHAT)) == [
        "routes[1] (claude-*) is never reached: routes[0] (*) is before it",
        "routes[2] (/gpt/) is never reached: routes[0] (*) is before it",
    ]


@pytest.mark.parametrize(
    "routes",
    [
        (Route("*", "up"), Route("exact", "up")),
        (Route("claude-*", "up"), Route("*", "up")),
        (Route("*", "up", client=Dialect.CHAT), Route("claude-*", "up")),
        (Route("a", "up", client=Dialect.CHAT), Route("a", "up", client=Dialect.MESSAGES), Route("a", "up")),
    ],
)
def test_routes_that_are_reached(routes: tuple[Route, ...]) -> None:
    assert _routed(*routes) == []


@pytest.mark.parametrize(
    "config",
    [
        simulated_config(),
        config_from_environment({"OPENAI_API_KEY": "k"}),
        config_from_environment({"ANTHROPIC_API_KEY": "k", "BIG_MODEL_NAME": "m"}),
        config_from_environment({"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}),
    ],
)
def test_configurations_of_our_own_need_no_remark(config: Config) -> None:
    assert [*remarks(config), *warn_if_exposed(config)] == []


@pytest.mark.parametrize(
    ("host", "keys", "key", "expected"),
    [
        ("0.0.0.0", (), "k", True),
        ("::", (), "k", True),
        ("", (), "k", True),
        ("gate.example", (), "k", True),
        ("0.0.0.0", ("in",), "k", False),
        ("0.0.0.0", (), None, False),
        ("127.0.0.2", (), "k", False),
        ("::1", (), "k", False),
        ("localhost", (), "k", False),
    ],
)
def test_keys_that_are_exposed(host: str, keys: tuple[str, ...], key: str | None, expected: bool) -> None:
    provider = replace(UP, api_key=Secret(key) if key else None)
    server = Server(host=host, keys=tuple(Secret(given) for given in keys))
    sentences = list(warn_if_exposed(Config({"up": provider}, (Route("*", "up"),), server=server)))
    assert bool(sentences) is expected
    assert all(sentence.endswith("uses the providers' keys: set server.keys") for sentence in sentences)


def test_who_mounts_a_gateway_without_a_route_reads_it_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "dragoman"):
        setup(web.Application(), Config({"up": UP}))
    assert [record.getMessage() for record in caplog.records] == [NO_ROUTE]


def test_a_clients_own_key_that_is_sent_to_several_hosts_is_reported() -> None:
    urls = {"one": "http://one", "two": "http://two", "same": "http://one"}
    providers = {name: Provider(name, Dialect.CHAT, url, auth=Auth.PASSTHROUGH) for name, url in urls.items()}

    def sentences(*names: str) -> list[str]:
        return list(remarks(Config(providers, [Route("*", targets=tuple(map(RouteTarget, names)))])))

    assert sentences("one", "two") == ["routes[0] (*) sends the client's own key to several hosts: one, two"]
    assert sentences("one", "same") == []


def test_a_model_without_a_price_is_reported_for_a_key_with_a_budget_of_cost() -> None:
    first, second = replace(UP, prices={"big": Price(1.0)}), replace(UP, name="second")
    routes = [
        Route("a", targets=(RouteTarget("up", "big"), RouteTarget("second", "small"))),
        Route("b", "up", "big"),
        Route("c", "up", "huge"),
        Route("d-*", "up"),
    ]
    record = KeyRecord("alice", KeyHash.of(new_key()), ("a", "b"), KeyLimits(daily_cost=1.0))
    config = Config(
        {"up": first, "second": second}, routes, keys={"alice": record}, store=StoreOptions("sqlite"), prices={}
    )
    sentence = "key alice has a budget of cost, and the model small of provider second has no price (403)"
    assert list(remarks(config)) == [sentence]
    assert list(remarks(replace(config, prices={"s*": Price(1.0)}))) == []
    assert list(remarks(replace(config, keys={"alice": replace(record, limits=KeyLimits(daily_tokens=5))}))) == []
    unpriced = replace(config, providers={"up": UP, "second": second})
    assert list(remarks(unpriced)) == [
        'key alice has a budget of cost and no model has a price, so it can use none: write [prices."*"], or run'
        " `dragoman prices import`"
    ]


def test_models_that_were_reported_for_another_key_are_left_out() -> None:
    routes = [Route("a", "up"), Route("b", "up"), Route("c", "up", "priced")]
    limits = KeyLimits(monthly_cost=1.0)
    first, second = (
        KeyRecord(name, KeyHash.of(new_key()), models, limits) for name, models in (("x", ("a",)), ("y", ()))
    )
    config = Config({"up": UP}, routes, prices={"priced": Price(1.0)})
    rest = "has a budget of cost, and the model {} of provider up has no price (403)"
    assert list(models_without_price(config, [second], [first])) == [f"key y {rest.format('b')}"]
    assert list(models_without_price(config, [second])) == [f"key y {rest.format(model)}" for model in "ab"]
    unpriced = replace(config, prices={})
    assert list(models_without_price(unpriced, [second], [first])) == []
    (sentence,) = models_without_price(unpriced, [second])
    assert sentence.startswith("key y has a budget of cost and no model has a price")


@pytest.mark.parametrize(
    ("pattern", "sample"),
    [
        ("*", None),
        ("/.*/", None),
        ("gpt*", None),
        ("up/*", None),
        ("up*", None),
        ("other/*", "other/MODEL"),
        ("oth*", "other/MODEL"),
        ("*haiku*", "other/haiku"),
        ("/.*mini/", "other/mini"),
        ("/other.+/", "other/MODEL"),
    ],
)
def test_a_pattern_that_takes_the_names_of_another_provider_is_reported(pattern: str, sample: str | None) -> None:
    """The route leads to `up`; `other/MODEL` would mean the other provider without it."""
    providers = {"up": UP, "other": Provider("other", Dialect.CHAT, "http://127.0.0.1:9")}
    found = list(remarks(Config(providers, [Route(pattern, "up")])))
    expected = f"routes[0] ({pattern}) also takes names of provider other, such as {sample}:"
    assert found == ([] if sample is None else [f"{expected} a route for other/* before it prevents that"])
    before = Config(providers, [Route("other/*", "other", "*"), Route(pattern, "up")])
    assert not [remark for remark in remarks(before) if "also takes names" in remark]


def test_background_responses_need_a_store_that_processes_share() -> None:
    up = Provider("up", Dialect.RESPONSES, "http://127.0.0.1:9", background=True)
    remark = "providers.up.background has no effect, as no run is in a store that processes share"
    assert remark in remarks(Config({"up": up}))
    assert remark not in remarks(Config({"up": up}, state=StateOptions("sqlite", "/x.db")))

"""Keys of a configuration and the rules between them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from dragoman.aio.timeouts import Timeouts
from dragoman.dialects import Dialect
from dragoman.knobs import Knobs
from dragoman.limits import Limits
from dragoman.profiles.profile import PROFILE_FIELDS, Profile
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.load import parse_config
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.config.schema import Config, Server
from support.paths import ROOT


def provider(**more: Any) -> dict[str, Any]:
    return {"providers": {"local": {"dialect": "chat", "base_url": "http://127.0.0.1:9000/v1", **more}}}


def problems(data: dict[str, Any], env: dict[str, str] | None = None) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        parse_config(data, env or {})
    assert len(caught.value.problems) == len(dict(caught.value.problems)), "one problem told twice"
    return dict(caught.value.problems)


@pytest.mark.parametrize(("given", "count"), [(3, 3), (0, 0), ("auto", 0), ("${N}", 4), ("${M}", 0)])
def test_workers_are_a_number_or_auto(given: Any, count: int) -> None:
    config = parse_config({"server": {"workers": given}}, {"N": "4", "M": "auto"})
    assert config.server.workers == count


@pytest.mark.parametrize(
    ("key", "wrong", "message"),
    [
        ("workers", -1, "expected 0 (one for each core) to 256; got -1"),
        ("workers", 257, "expected 0 (one for each core) to 256; got 257"),
        ("workers", "many", 'expected an integer or "auto"; got "many"'),
        ("reload_drain", -1, "expected 0 seconds or more; got -1"),
        ("reload_drain", "auto", 'expected an integer; got "auto"'),
    ],
)
def test_what_workers_cannot_be(key: str, wrong: Any, message: str) -> None:
    assert problems({"server": {key: wrong}})[f"server.{key}"] == message


def test_hosts_origins_and_counts_of_connections_are_read() -> None:
    message = {
        "allowed_hosts": ["llm.example.com", "*.example.org", "*", "${NAME}", "192.0.2.1", "[::1]"],
        "cors_origins": ["https://x.example:8443", "null", "*", "chrome-extension://*"],
        "backlog": 7,
        "max_connections": 8,
        "max_connections_per_address": 9,
    }
    server = parse_config({"server": message}, {"NAME": "from-the-environment"}).server
    assert server.allowed_hosts == (*message["allowed_hosts"][:3], "from-the-environment", "192.0.2.1", "[::1]")  # type: ignore[index]
    assert server.cors_origins == tuple(message["cors_origins"])  # type: ignore[arg-type]
    assert (server.backlog, server.max_connections, server.max_connections_per_address) == (7, 8, 9)


@pytest.mark.parametrize("keys", [[], [""], ["${X:-}"], ["  "]])
def test_inbound_keys_that_would_let_everybody_in_are_refused(keys: list[str]) -> None:
    assert [path.partition("[")[0] for path in problems({"server": {"keys": keys}})] == ["server.keys"]


def test_a_missing_inbound_key_is_reported_once() -> None:
    assert problems({"server": {"keys": ["${X}"]}}) == {"server.keys[0]": "the environment variable X is not set"}


def test_logins_may_pass_through_a_gateway_with_keys() -> None:
    assert parse_config({"server": {"keys": ["k"]}, **provider(auth="passthrough")}, {}).requires_key


def test_a_big_model_of_no_known_provider_is_a_problem() -> None:
    data = provider()
    data["providers"]["other"] = {"dialect": "messages", "base_url": "http://o"}
    data["models"] = {"big": "gpt-x", "small": "other/mini"}
    assert problems(data) == {
        "models.big": 'no provider is known for "gpt-x": write "provider/gpt-x", or give it a route'
    }
    data["routes"] = [{"model": "gpt-*", "provider": "local"}]
    assert parse_config(data, {}).models.big == "gpt-x"


def test_context_windows_are_read_by_the_names_of_clients() -> None:
    data = {**provider(), "models": {"context_windows": {"qwen3*": 32_768, "*": 8192}}}
    models = parse_config(data, {}).models
    assert [models.context_window(name) for name in ("qwen3:8b", "llama")] == [32_768, 8192]
    assert parse_config(provider(), {}).models.context_window("llama") == 0
    data["models"] = {"context_windows": {"q.*": 0, "m": "1"}}
    assert problems(data) == {
        'models.context_windows."q.*"': "expected 1 or more; got 0",
        "models.context_windows.m": 'expected an integer; got "1"',
    }


def test_a_configuration_made_in_python_is_judged_alike() -> None:
    local = Provider("local", Dialect.CHAT, "http://127.0.0.1:9000/v1")
    Config(providers={"local": local}, routes=[Route("a", "local")]).check()
    wrong = Config(
        providers={"lokal": local, "b": Provider("b", Dialect.CHAT, "nothing", profile=Profile(max_output_tokens=-1))},
        routes=[Route("a", "locl", knobs={"orphans": "x", "y": "z"})],
        server=Server(port=-1, timeouts=Timeouts(idle=0), receipts=-1, prefix_diagnostics=-1),
    )
    with pytest.raises(ConfigError) as caught:
        wrong.check()
    assert [path for path, _ in caught.value.problems] == [
        "server.port",
        "server.receipts",
        "server.prefix_diagnostics",
        "server.timeouts.idle",
        "providers.lokal",
        "providers.b.base_url",
        "providers.b.profile_flags.max_output_tokens",
        "routes[0].provider",
        "routes[0].knobs.orphans",
        "routes[0].knobs.y",
    ]


def test_the_reference_page_names_every_key() -> None:
    page = (ROOT / "docs/reference/configuration.md").read_text("utf-8")
    names = [f.name for kind in (Timeouts, Limits, Knobs) for f in fields(kind)] + list(PROFILE_FIELDS)
    assert [name for name in names if f"`{name}`" not in page] == []

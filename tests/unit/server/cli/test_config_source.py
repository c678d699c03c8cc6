"""The configuration of a command: a file, the working directory or the environment."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from dragoman_server.cli.config_source import DEFAULT_FILE, read_config, served_config, set_address, ways_to_configure
from dragoman_server.cli.starter_config import STARTER
from dragoman_server.config.config_error import ConfigError


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "UPSTREAM_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def args(**given: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"config": None, "base_url": None, "dialect": None, "simulate": False, **given})


def test_a_file_in_the_working_directory_is_found_unless_the_command_line_names_an_upstream() -> None:
    Path(DEFAULT_FILE).write_text(STARTER)
    found = args()
    assert list(read_config(found).providers) == ["local"]
    assert found.config == DEFAULT_FILE
    url = "http://127.0.0.1:9/v1"
    (provider,) = read_config(args(base_url=url)).providers.values()
    assert provider.base_url == url


def test_without_a_file_the_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError):
        read_config(args())
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    assert "anthropic" in read_config(args()).providers


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"simulate": True, "config": "a.toml"}, "--simulate"),
        ({"config": "a.toml", "base_url": "http://x"}, "--base-url"),
        ({"config": "a.toml", "dialect": "chat"}, "--dialect"),
    ],
)
def test_sources_exclude_each_other(given: dict[str, Any], option: str) -> None:
    with pytest.raises(ConfigError, match=option):
        read_config(args(**given))


def test_options_take_precedence_over_the_configuration() -> None:
    config = served_config(args(simulate=True, host="::1", port=0, workers=None))
    assert (config.server.host, config.server.port) == ("::1", 0)


def test_the_environment_sets_the_address_that_the_command_line_leaves_out() -> None:
    env = {"DRAGOMAN_HOST": "0.0.0.0", "DRAGOMAN_PORT": "9000"}
    found = args(host=None, port=None)
    set_address(found, env)
    assert (found.host, found.port) == ("0.0.0.0", 9000)
    found = args(host="::1", port=0)
    set_address(found, env)
    assert (found.host, found.port) == ("::1", 0)
    found = args(host=None, port=None)
    # The second is what Kubernetes sets for a service with the name `dragoman`.
    set_address(found, {"DRAGOMAN_HOST": "", "DRAGOMAN_PORT": "tcp://10.0.0.1:8080"})
    assert (found.host, found.port) == (None, None)
    with pytest.raises(ConfigError, match='DRAGOMAN_PORT: expected a port; got "http"'):
        set_address(args(host=None, port=None), {"DRAGOMAN_PORT": "http"})


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"config": "a.toml", "default_model": "m"}, "--model"),
        ({"simulate": True, "default_model": "m"}, "--simulate"),
        ({"base_url": "nowhere"}, "--base-url: expected a URL"),
        ({"dialect": "chat"}, "--dialect: chat needs a base URL"),
    ],
)
def test_an_error_names_the_option(given: dict[str, Any], option: str) -> None:
    with pytest.raises(ConfigError, match=f"^{option}"):
        read_config(args(**given))


def test_a_wrong_address_is_that_of_the_variable_or_the_option() -> None:
    for options, env, name in (
        ({"port": 70000}, {}, "--port"),
        ({}, {"DRAGOMAN_PORT": "70000"}, "DRAGOMAN_PORT"),
        ({"workers": 300}, {}, "--workers"),
    ):
        found = args(**{"simulate": True, "host": None, "port": None, "workers": None, **options})
        set_address(found, env)
        with pytest.raises(ConfigError, match=f"^{name}: expected"):
            served_config(found)


@pytest.mark.parametrize(
    ("command", "given", "ways"),
    [
        ("serve", {"simulate": False}, ["dragoman serve FILE.toml", "dragoman serve --simulate"]),
        ("run", {"simulate": False, "agent": "codex"}, ["dragoman run codex -c FILE.toml", "run codex --simulate"]),
        ("check", {}, ["dragoman check FILE.toml", "dragoman check --base-url URL"]),
    ],
)
def test_the_ways_to_configure_are_those_of_the_command(command: str, given: dict[str, Any], ways: list[str]) -> None:
    shown = ways_to_configure(argparse.Namespace(**given), command)
    assert all(way in shown for way in ways)
    assert ("dragoman serve" in shown) == (command == "serve")
    assert ("--simulate" in shown) == (command != "check")

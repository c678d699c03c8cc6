"""The lines of a gateway that listens: short, without secrets, and enough to send it a request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from dragoman.dialects import Dialect
from dragoman_server.cli.announce import announce, print_remarks
from dragoman_server.config.environment import config_from_environment
from dragoman_server.config.load import parse_config, simulated_config
from dragoman_server.config.schema import Config

URL = "http://127.0.0.1:8080"
UP = {"dialect": "chat", "base_url": "http://127.0.0.1:9/v1", "api_key": "sk-canary"}
CLAUDE = f"  Claude Code: ANTHROPIC_BASE_URL={URL} ANTHROPIC_API_KEY=any claude"
OPENAI = f"  OpenAI clients: OPENAI_BASE_URL={URL}/v1 OPENAI_API_KEY=any"


def lines(capsys: pytest.CaptureFixture[str], config: Config, url: str = URL, workers: int | None = None) -> list[str]:
    announce(url, config, workers)
    stated = capsys.readouterr().err
    assert "canary" not in stated
    return stated.splitlines()


def made(**tables: Any) -> Config:
    return parse_config({"providers": {"up": UP}, **tables}, {})


def test_one_upstream_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    first, *rest = lines(capsys, config_from_environment({}, base_url="http://127.0.0.1:11434/v1"))
    assert re.fullmatch(rf"dragoman listens on {URL} \(version \d[^\s,]*, revision [^\s,]+\)", first)
    assert rest == [
        "  provider upstream: chat at http://127.0.0.1:11434/v1, without a key, profile ollama",
        "  model * → upstream",
        f"{CLAUDE} --model NAME",
        OPENAI,
    ]


def test_the_simulated_upstream(capsys: pytest.CaptureFixture[str]) -> None:
    config = simulated_config()
    first, *rest = lines(capsys, replace(config, server=replace(config.server, ui=True)), workers=2)
    assert first.startswith(f"dragoman listens on {URL} with workers: 2 (version ")
    assert rest == [
        f"  console: {URL}/ui/",
        "  replies come from the simulated upstream (models sim-text, sim-tools, …) and carry x-dragoman-simulated",
        "  any model name leads to it; chat/NAME, messages/NAME, responses/NAME and generate/NAME select its API",
        CLAUDE,
        OPENAI,
    ]


def test_both_vendors_of_the_environment(capsys: pytest.CaptureFixture[str]) -> None:
    _, *rest = lines(capsys, config_from_environment({"OPENAI_API_KEY": "canary", "ANTHROPIC_API_KEY": "canary"}))
    assert rest[3:] == [
        "  models openai/*, gpt*, chatgpt*, codex*, o[0-9]*, ft:* → openai (for chat clients)",
        "  models openai/*, openai-responses/*, gpt*, chatgpt*, codex*, o[0-9]* and 1 more → openai-responses",
        "  model claude* → anthropic",
        CLAUDE,
        OPENAI,
    ]


@pytest.mark.parametrize(
    ("tables", "models", "option"),
    [
        ({"models": {"big": "qwen3"}}, ["  big models → qwen3, other models → qwen3"], ""),
        (
            {"models": {"big": "a", "small": "b"}, "routes": [{"model": "c", "provider": "up"}]},
            ["  big models → a, small models → b, other models → b", "  model c → up"],
            "",
        ),
        ({"routes": [{"model": "qwen3", "provider": "up"}]}, ["  model qwen3 → up"], " --model qwen3"),
        ({"models": {"unknown": "pass"}}, ["  other models → up"], " --model NAME"),
        (
            {"routes": [{"model": "*", "provider": "up", "upstream_model": "qwen3"}]},
            ["  model * → up as qwen3"],
            "",
        ),
        ({}, [], " --model NAME"),
    ],
)
def test_where_models_go(
    tables: Mapping[str, Any], models: list[str], option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, provider, *rest = lines(capsys, made(**tables))
    assert provider.startswith("  provider up: ")
    assert rest == [*models, f"{CLAUDE}{option}", OPENAI]


@pytest.mark.parametrize(
    ("tables", "source"),
    [
        ({"server": {"keys": ["canary"]}}, "one of server.keys"),
        ({"store": {"kind": "sqlite"}}, "a key of `dragoman keys add`"),
        (
            {"server": {"keys": ["canary"]}, "store": {"kind": "sqlite"}},
            "one of server.keys or a key of `dragoman keys add`",
        ),
        (
            {"providers": {"up": {"dialect": "chat", "base_url": "http://h/v1", "auth": "passthrough"}}},
            "that of the provider, to which it is passed on",
        ),
    ],
)
def test_which_key_clients_need(tables: Mapping[str, Any], source: str, capsys: pytest.CaptureFixture[str]) -> None:
    *_, claude, openai, key = lines(capsys, made(models={"big": "m"}, **tables), "http://[::1]:8080")
    assert claude == "  Claude Code: ANTHROPIC_BASE_URL=http://[::1]:8080 ANTHROPIC_API_KEY=KEY claude"
    assert openai == "  OpenAI clients: OPENAI_BASE_URL=http://[::1]:8080/v1 OPENAI_API_KEY=KEY"
    assert key == f"  KEY: {source}"


@pytest.mark.parametrize(("host", "reached"), [("0.0.0.0", "127.0.0.1"), ("[::]", "[::1]"), ("10.0.0.1", "10.0.0.1")])
def test_clients_get_an_address_that_they_can_reach(
    host: str, reached: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *_, claude, openai = lines(capsys, made(models={"big": "m"}), f"http://{host}:8080")
    assert first.startswith(f"dragoman listens on http://{host}:8080 ")
    assert f"=http://{reached}:8080 " in claude
    assert f"=http://{reached}:8080/v1 " in openai


def test_the_largest_configuration_has_twelve_lines(capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"p{number}" for number in range(3 * len(Dialect))]
    config = made(
        providers={
            name: {"dialect": dialect, "base_url": "http://h/v1"}
            for name, dialect in zip(names, [*Dialect] * 3, strict=True)
        },
        routes=[{"model": f"m{number}", "provider": names[number % len(names)]} for number in range(90)],
        models={"big": "m1", "small": "m2"},
        server={"ui": True, "keys": ["canary"]},
        store={"kind": "sqlite"},
        usage={"kind": "jsonl"},
        capture={"directory": "c"},
    )
    shown = lines(capsys, config, workers=8)
    assert len(shown) <= 12
    assert f"  and {len(names) - 2} more providers, which `dragoman check` shows" in shown
    assert "  files: dragoman.db, usage.jsonl, c" in shown


def test_remarks_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_remarks(made())
    assert "there is no route, so models are known as PROVIDER/MODEL only" in capsys.readouterr().err


def test_a_line_has_six_names_at_most(capsys: pytest.CaptureFixture[str]) -> None:
    shown = lines(capsys, made(routes=[{"model": f"m{number}", "provider": "up"} for number in range(9)]))
    assert "  models m0, m1, m2, m3, m4, m5 and 3 more → up" in shown

"""The choice of an agent's model."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from dragoman.gateway import ListedModel
from dragoman_server.cli.agents import AGENTS, Agent
from dragoman_server.cli.choose_model import SHOWN_MAX, choices, choose, context_windows, known_names
from dragoman_server.cli.command_error import CommandError
from dragoman_server.cli.list_models import UpstreamList
from dragoman_server.config.environment import config_from_environment
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.config.schema import Config, Models
from dragoman_server.routing.router import Router
from support.gateways import CHAT, MESSAGES

CLAUDE, CODEX, OPENCODE = AGENTS.values()
UP = Provider("upstream", CHAT, "http://127.0.0.1:9/v1")
PASS = config_from_environment({}, base_url=UP.base_url)


def there(config: Config, *names: str, window: int = 0) -> list[UpstreamList]:
    models = tuple(ListedModel(name, 0, "", window) for name in names)
    return [UpstreamList(provider, models) for provider in config.providers.values()]


@pytest.mark.parametrize(
    ("agent", "names", "expected"),
    [
        (CLAUDE, ["qwen3"], ["qwen3"]),
        (CODEX, ["a", "b"], ["a", "b"]),
        (OPENCODE, ["a", "b"], ["a", "b"]),
        (CLAUDE, ["claude-sonnet-5-5", "qwen3"], []),
        (CODEX, ["gpt-5.5", "qwen3"], []),
        (OPENCODE, ["claude-sonnet-5-5"], ["claude-sonnet-5-5"]),
        (CLAUDE, ["qwen3", "nomic-embed-text", "bge-reranker"], ["qwen3"]),
        (CLAUDE, ["nomic-embed-text"], ["nomic-embed-text"]),
        (CLAUDE, [], []),
        (OPENCODE, [], []),
    ],
)
def test_an_upstream_that_gets_names_unchanged(agent: Agent, names: list[str], expected: list[str]) -> None:
    assert choices(agent, Router(PASS), there(PASS, *names)) == expected


@pytest.mark.parametrize(
    ("agent", "config", "expected"),
    [
        (CLAUDE, Config({"upstream": UP}, [Route("claude-*", "upstream", "qwen3")]), []),
        (CLAUDE, Config({"upstream": UP}, models=Models(big="qwen3")), []),
        (CLAUDE, Config({"upstream": UP}, [Route("gpt-*", "upstream")]), ["upstream/qwen3", "gpt-mini"]),
        (CLAUDE, Config({"upstream": UP}, [Route("mine", "upstream", "qwen3")]), ["mine"]),
        (CODEX, Config({"upstream": UP}, [Route("*", "upstream", client=MESSAGES)]), ["qwen3", "gpt-mini"]),
        (
            OPENCODE,
            Config({"upstream": UP}, [Route("mine", "upstream", "a"), Route("gpt-*", "upstream")]),
            ["mine"],
        ),
        (OPENCODE, Config({"upstream": UP}, [Route("*", "upstream")], Models(discover=False)), []),
    ],
)
def test_a_configuration_with_routes(agent: Agent, config: Config, expected: list[str]) -> None:
    assert choices(agent, Router(config), there(config, "qwen3", "gpt-mini")) == expected


def test_names_and_windows_are_those_of_clients() -> None:
    config = Config({"upstream": UP}, [Route("small", "upstream", "qwen3"), Route("my-*", "upstream", "qwen-*")])
    router = Router(config)
    lists = there(config, "qwen3", "qwen-8b", window=4096)
    assert known_names(router, lists) == ["small", "upstream/qwen3", "my-8b"]
    windows = context_windows(
        router, lists, ["small", "my-8b", "nothing", "upstream/qwen3", "upstream/other"], OPENCODE
    )
    assert windows == {"small": 4096, "my-8b": 4096, "upstream/qwen3": 4096}


def test_the_window_of_the_configuration_precedes_that_of_the_list() -> None:
    provider = Provider("upstream", CHAT, UP.base_url)
    provider = Provider("upstream", CHAT, UP.base_url, profile=provider.profile.replace({"context_window": 1000}))
    config = Config({"upstream": provider}, [Route("*", "upstream")])
    windows = context_windows(Router(config), there(config, "a", window=4096), ["a", "b"], OPENCODE)
    assert windows == {"a": 1000, "b": 1000}
    config = replace(config, models=Models(context_windows=(("b*", 500), ("z*", 9))))
    windows = context_windows(Router(config), there(config, "a", window=4096), ["a", "b"], OPENCODE)
    assert windows == {"a": 1000, "b": 500}


@pytest.mark.parametrize(("agent", "names"), [(CLAUDE, ["mine"]), (OPENCODE, ["claude-opus-5", "mine"])])
def test_a_documented_window_is_not_for_the_agents_own_model(agent: Agent, names: list[str]) -> None:
    config = Config({"upstream": UP}, [Route("mine", "upstream", "gemini-3.5-flash"), Route("*", "upstream")])
    windows = context_windows(Router(config), there(config), ["claude-opus-5", "mine"], agent)
    assert sorted(windows) == names
    listed = context_windows(Router(config), there(config, "claude-opus-5", window=9000), ["claude-opus-5"], agent)
    assert listed == {"claude-opus-5": 9000}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def at_a_terminal(monkeypatch: pytest.MonkeyPatch, text: str) -> Terminal:
    shown = Terminal()
    monkeypatch.setattr("sys.stdin", Terminal(text))
    monkeypatch.setattr("sys.stderr", shown)
    return shown


@pytest.mark.parametrize(("text", "expected"), [("\n", "a"), ("2\n", "b"), ("b\n", "b"), ("c\n9\n0\n 2 \n", "b")])
def test_a_user_chooses_by_number_or_name(monkeypatch: pytest.MonkeyPatch, text: str, expected: str) -> None:
    shown = at_a_terminal(monkeypatch, text)
    assert choose(CLAUDE, ["a", "b"], "run") == expected
    assert "   1. a\n   2. b\nmodel for Claude Code" in shown.getvalue()


def test_the_only_model_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = at_a_terminal(monkeypatch, "")
    assert choose(CLAUDE, ["a"], "run") == "a"
    assert shown.getvalue() == ""


def test_the_end_of_the_input_and_no_terminal_choose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    at_a_terminal(monkeypatch, "")
    with pytest.raises(CommandError, match="none was chosen: run --model a"):
        choose(CLAUDE, ["a", "b"], "run")
    monkeypatch.setattr("sys.stdin", io.StringIO("1\n"))
    with pytest.raises(CommandError) as caught:
        choose(CLAUDE, [f"m{number}" for number in range(SHOWN_MAX + 2)], "dragoman run claude")
    assert str(caught.value).endswith("m39, and 2 more\nname one: dragoman run claude --model m0")

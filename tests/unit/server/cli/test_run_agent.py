"""The command that runs an agent: its arguments, and the access that the agent gets."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from dragoman import Dialect
from dragoman_server.cli import run_agent
from dragoman_server.cli.parser import CommandParser
from dragoman_server.cli.run_agent import NOT_FOUND, add_arguments, log_handler, main
from dragoman_server.config.load import simulated_config
from dragoman_server.config.provider import Auth, Provider, Secret
from dragoman_server.config.schema import Config, Server


@pytest.fixture
def parser() -> CommandParser:
    parser = CommandParser(prog="dragoman run")
    add_arguments(parser)
    return parser


def test_what_follows_the_dashes_is_the_agents(parser: CommandParser, capsys: pytest.CaptureFixture[str]) -> None:
    args = parser.parse_args(["claude", "--model", "m", "--", "--model", "own", "--", "x"])
    assert (args.agent, args.model, args.agent_args) == ("claude", "m", ["--model", "own", "--", "x"])
    assert parser.parse_args(["codex"]).agent_args == []
    with pytest.raises(SystemExit):
        parser.parse_args(["codex", "--own"])
    assert "put the agent's own after --" in capsys.readouterr().err


def test_an_agent_that_is_not_installed(
    parser: CommandParser, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")

    def load(_: argparse.Namespace) -> Config:
        raise AssertionError("no configuration is needed")

    monkeypatch.setattr(run_agent, "served_config", load)
    assert main(parser.parse_args(["codex"])) == NOT_FOUND
    assert "npm install -g @openai/codex" in capsys.readouterr().err


def test_the_log_of_the_gateway_goes_to_a_file(parser: CommandParser, tmp_path: Path) -> None:
    handler = log_handler(parser.parse_args(["codex", "--log-file", str(tmp_path / "log")]))
    handler.close()
    assert (tmp_path / "log").exists()


def test_each_agent_has_a_key_of_its_own() -> None:
    config, key = run_agent._with_private_key(simulated_config())
    assert key is not None
    assert [secret.reveal() for secret in config.server.keys] == [key]
    assert run_agent._with_private_key(simulated_config())[1] != key


def test_an_agent_whose_login_is_passed_on_needs_no_key() -> None:
    provider = Provider("up", Dialect.MESSAGES, "http://127.0.0.1:9", auth=Auth.PASSTHROUGH)
    config = Config(providers={"up": provider}, server=Server(keys=(Secret("k"),)))
    opened, key = run_agent._with_private_key(config)
    assert key is None
    assert not opened.requires_key

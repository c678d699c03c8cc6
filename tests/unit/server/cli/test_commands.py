"""The table of commands."""

from __future__ import annotations

import argparse

import pytest

from dragoman_server.cli.commands import COMMANDS, command_line


@pytest.mark.parametrize("name", [name for name, _, _ in COMMANDS])
def test_each_command_has_a_help_of_its_own(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        command_line().parse_args([name, "--help"])
    assert exited.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: dragoman {name}")


@pytest.mark.parametrize("words", [["serve"], ["check"], ["schema"], ["demo", "--once"], ["completion", "bash"]])
def test_a_command_has_a_function_that_runs_it(words: list[str]) -> None:
    args: argparse.Namespace = command_line().parse_args(words)
    assert callable(args.run)
    assert ("stamped" in args) is (words == ["serve"])

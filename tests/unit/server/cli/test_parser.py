"""The arguments of a command are declared when it is used."""

from __future__ import annotations

import argparse

import pytest

from dragoman_server.cli.parser import Parser


def test_arguments_are_declared_once_and_when_the_command_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    declared: list[str] = []

    def declare(parser: argparse.ArgumentParser) -> None:
        declared.append(parser.prog)
        parser.add_argument("--size", type=int)

    parser = Parser(prog="made")
    commands = parser.add_subparsers(dest="command")
    for name in ("one", "two"):
        commands.add_parser(name).declare_later = declare
    assert declared == []
    assert parser.parse_args(["two", "--size", "3"]).size == 3
    assert parser.parse_args(["two"]).size is None
    assert declared == ["made two"]
    with pytest.raises(SystemExit):
        parser.parse_args(["one", "--help"])
    assert "--size" in capsys.readouterr().out
    assert declared == ["made two", "made one"]

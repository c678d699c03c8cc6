"""The arguments of `dragoman serve`; what it serves is in e2e/test_command_line.py."""

from __future__ import annotations

import pytest

from dragoman_server.cli.command_error import CommandError
from dragoman_server.cli.parser import CommandParser
from dragoman_server.cli.serve_gateway import add_arguments, main


@pytest.fixture
def parser() -> CommandParser:
    parser = CommandParser(prog="dragoman serve")
    add_arguments(parser)
    return parser


@pytest.mark.parametrize(("word", "workers"), [("auto", 0), ("0", 0), ("3", 3)])
def test_the_number_of_workers(parser: CommandParser, word: str, workers: int) -> None:
    assert parser.parse_args(["--workers", word]).workers == workers


def test_a_number_of_workers_that_is_none(parser: CommandParser, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser.parse_args(["--workers", "two"])
    assert 'expected a number or auto; got "two"' in capsys.readouterr().err


def test_only_a_file_can_be_watched(parser: CommandParser) -> None:
    with pytest.raises(CommandError, match="needs a configuration file"):
        main(parser.parse_args(["--watch", "--simulate"]))

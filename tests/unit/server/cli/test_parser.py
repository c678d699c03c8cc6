"""The arguments of a command are declared when it is used."""

from __future__ import annotations

import argparse

import pytest

from dragoman_server.cli.parser import CommandParser


def test_arguments_are_declared_once_and_when_the_command_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    declared: list[str] = []

    def declare(parser: argparse.ArgumentParser) -> None:
        declared.append(parser.prog)
        parser.add_argument("--size", type=int)

    parser = CommandParser(prog="made")
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


def failed(parser: CommandParser, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(words)
    assert ended.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    return err


@pytest.fixture
def made() -> CommandParser:
    parser = CommandParser(prog="made")
    parser.add_argument("--version", action="store_true")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    one = commands.add_parser("one", help="the first")
    one.add_argument("file", metavar="FILE")
    one.add_argument("--port", type=int)
    one.add_argument("--pace", type=float)
    one.add_argument("--from", required=True, choices=["chat", "messages"])
    inner = commands.add_parser("group").add_subparsers(required=True, metavar="ACTION")
    inner.add_parser("list", help="list all")
    return parser


@pytest.mark.parametrize(
    ("words", "command", "expected"),
    [
        (["oen"], "made", 'unknown command "oen"; there are: one, group (did you mean "one"?)'),
        (["--verison"], "made", 'unknown option --verison (did you mean "--version"?)'),
        (["group", "lst"], "made group", 'unknown action "lst"; there are: list (did you mean "list"?)'),
        (["one", "--form", "chat", "x"], "made one", 'unknown option --form (did you mean "--from"?)'),
        (["one", "--prt=5", "--from=chat", "x"], "made one", 'unknown option --prt (did you mean "--port"?)'),
        (["one", "-x", "--from", "chat", "x"], "made one", "unknown option -x"),
        (
            ["one", "--from", "caht", "x"],
            "made one",
            'expected one of chat, messages; got "caht" (did you mean "chat"?)',
        ),
        (["one", "--from", "chat", "x", "y"], "made one", 'unexpected argument "y"'),
        (["one", "--port", "x"], "made one", 'argument --port: expected an integer; got "x"'),
        (["one", "--pace", "x"], "made one", 'argument --pace: expected a number; got "x"'),
        (["one"], "made one", "the following arguments are required: FILE, --from"),
        (["one", "--port"], "made one", "argument --port: expected one argument"),
    ],
)
def test_an_error_has_the_command_s_own_usage(
    made: CommandParser, capsys: pytest.CaptureFixture[str], words: list[str], command: str, expected: str
) -> None:
    usage, *_, error, advice = failed(made, capsys, *words).splitlines()
    assert usage.startswith(f"usage: {command} [options]")
    assert error.startswith(f"{command}: ")
    assert error.endswith(expected)
    assert advice == f"for all options: {command} --help"


@pytest.mark.parametrize("words", [[], ["group"]])
def test_a_command_of_commands_shows_its_help(
    made: CommandParser, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    shown = failed(made, capsys, *words)
    assert shown.startswith(f"usage: {' '.join(['made', *words])} [-h]")
    assert ("list" if words else "one") in shown


def test_shortened_options_values_and_negative_numbers_are_no_errors(made: CommandParser) -> None:
    args = made.parse_args(["one", "--po", "-5", "--pace=-0.5", "--from", "chat", "--", "-x"])
    assert (args.port, args.pace, args.file) == (-5, -0.5, "-x")


def test_a_key_in_the_wrong_place_is_not_printed(made: CommandParser, capsys: pytest.CaptureFixture[str]) -> None:
    assert "abcdefgh" not in failed(made, capsys, "one", "--port", "sk-abcdefghijklmnopqrstuvwxyz")

"""Options that several commands share."""

from __future__ import annotations

import argparse

import pytest

from dragoman_server.cli.options import ConfigFile, add_log, add_simulate, add_upstream, count, port


@pytest.fixture
def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.add_argument("file", nargs="?", action=ConfigFile)
    add_upstream(parser)
    add_simulate(parser)
    add_log(parser)
    return parser


@pytest.mark.parametrize("words", [["a.toml"], ["-c", "a.toml"], ["--config", "a.toml"]])
def test_a_configuration_file_may_be_positional(parser: argparse.ArgumentParser, words: list[str]) -> None:
    assert parser.parse_args(words).config == "a.toml"


def test_two_configuration_files_are_an_error(
    parser: argparse.ArgumentParser, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parser.parse_args(["a.toml", "-c", "b.toml"])
    assert "two configuration files" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "dialect"), [("openai", "chat"), ("anthropic", "messages"), ("responses", "responses")]
)
def test_a_vendor_stands_for_a_dialect(parser: argparse.ArgumentParser, word: str, dialect: str) -> None:
    assert parser.parse_args(["--dialect", word]).dialect == dialect


@pytest.mark.parametrize(
    ("words", "level"),
    [(["--verbose"], "debug"), (["--quiet"], "warning"), (["--log-level", "error"], "error")],
)
def test_log_levels(parser: argparse.ArgumentParser, words: list[str], level: str) -> None:
    args = parser.parse_args(words)
    assert (args.log_level, args.log_format, args.simulate) == (level, "text", False)


@pytest.mark.parametrize(
    ("word", "expected"),
    [("opanai", 'did you mean "openai"?'), ("ollama", 'got "ollama": write "chat"'), ("klingon", 'got "klingon"')],
)
def test_a_word_that_is_no_dialect(
    parser: argparse.ArgumentParser, capsys: pytest.CaptureFixture[str], word: str, expected: str
) -> None:
    with pytest.raises(argparse.ArgumentError, match="expected one of chat, messages, responses") as caught:
        parser.parse_args(["--dialect", word])
    assert expected in str(caught.value)


def test_ports_and_counts_are_checked() -> None:
    assert (port("0"), port("65535"), count("1")) == (0, 65535, 1)
    for read, words in ((port, ("65536", "-1", "x", "²", "9" * 5000)), (count, ("0", "-1", "x", ""))):
        for word in words:
            with pytest.raises(argparse.ArgumentTypeError, match="expected a "):
                read(word)

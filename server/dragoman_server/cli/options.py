"""Options that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from functools import partial
from typing import Any

from dragoman import Dialect
from dragoman_server.cli.config_source import DEFAULT_FILE
from dragoman_server.config.hints import DIALECTS
from dragoman_server.config.value_problems import choice_problem
from dragoman_server.observability.logs import FORMATS, LEVELS

PORT_MAX = 65535
_ALIASES = {dialect.facts.vendor: dialect.value for dialect in reversed(Dialect)}
"""Vendor name → the dialect that users mean by it."""


class ConfigFile(argparse.Action):
    """Stores a configuration file, given as the positional argument or as `--config`; both are an error."""

    def __call__(self, parser: argparse.ArgumentParser, args: argparse.Namespace, value: Any, *_: object) -> None:
        if value is None:  # the positional is absent
            return
        if getattr(args, "config", None) is not None:
            parser.error("two configuration files are given: give one")
        args.config = value


def add_upstream(parser: argparse.ArgumentParser) -> None:
    """Add `--config`, `--base-url` and `--dialect`."""
    parser.add_argument("-c", "--config", action=ConfigFile, metavar="FILE", help="configuration file")
    parser.add_argument("--base-url", help="one upstream, without a file; its key is read from UPSTREAM_API_KEY")
    add_dialect(parser, "--dialect", help="dialect of that upstream (default chat)")


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add the configuration file, as an argument too, the options of one upstream, and `--model`."""
    parser.add_argument(
        "config",
        nargs="?",
        action=ConfigFile,
        metavar="CONFIG.toml",
        help=f"configuration file (default: ./{DEFAULT_FILE}, else from the environment)",
    )
    add_upstream(parser)
    parser.add_argument(
        "--model",
        dest="default_model",
        metavar="NAME",
        help="model of that upstream for all requests, whatever name they have (default: its only one, if it has one)",
    )


def add_simulate(parser: argparse.ArgumentParser) -> None:
    """Add `--simulate`."""
    parser.add_argument(
        "--simulate", action="store_true", help="serve simulated replies, marked x-dragoman-simulated: 1"
    )


def add_dialect(parser: argparse.ArgumentParser, option: str, known: Iterable[Dialect] = Dialect, **more: Any) -> None:
    """Add an option whose value is one of the `known` dialects; a vendor's name stands for one of its dialects."""
    names = [dialect.value for dialect in known]
    parser.add_argument(option, choices=names, type=partial(_dialect, names), **more)


def _dialect(names: list[str], word: str) -> str:
    """Return the dialect of a word. Raises ArgumentTypeError, with the hint of the configuration if it has one."""
    dialect = _ALIASES.get(word, word)
    if problem := choice_problem(dialect, [*names, *(alias for alias, meant in _ALIASES.items() if meant in names)]):
        hint = DIALECTS.get(word.lower())
        raise argparse.ArgumentTypeError(f"{problem}: {hint}" if hint else problem)
    return dialect


def port(word: str) -> int:
    """Return a port. Raises ArgumentTypeError."""
    if not (word.isascii() and word.isdigit() and len(word) <= 5 and int(word) <= PORT_MAX):
        raise argparse.ArgumentTypeError(f'expected a port from 0 (any free one) to {PORT_MAX}; got "{word}"')
    return int(word)


def count(word: str) -> int:
    """Return a number of at least 1. Raises ArgumentTypeError."""
    if not (word.isascii() and word.isdigit() and len(word) <= 9 and int(word)):
        raise argparse.ArgumentTypeError(f'expected a number from 1; got "{word}"')
    return int(word)


def log_level(args: argparse.Namespace) -> int:
    """Return the level of `add_log`'s options."""
    return LEVELS[getattr(args, "log_level", None) or "info"]


def add_log(parser: argparse.ArgumentParser) -> None:
    """Add `--log-level`, `--verbose`, `--quiet` and `--log-format`."""
    level = parser.add_mutually_exclusive_group()
    level.add_argument("--log-level", choices=list(LEVELS), help="lowest level that is logged (default info)")
    level.add_argument(
        "--verbose", action="store_const", dest="log_level", const="debug", help="same as --log-level debug"
    )
    level.add_argument(
        "--quiet",
        action="store_const",
        dest="log_level",
        const="warning",
        help="same as --log-level warning: no line per request",
    )
    parser.add_argument(
        "--log-format",
        choices=FORMATS,
        default="text",
        help="lines of text, or one JSON object per line (default text)",
    )

"""Options that several commands share."""

from __future__ import annotations

import argparse
from typing import Any

from dragoman.dialects import Dialect
from dragoman_server.observability.logs import FORMATS, LEVELS

_DIALECTS = [dialect.value for dialect in Dialect]
_ALIASES = {"openai": "chat", "anthropic": "messages"}
"""Vendors' names for their first dialects, as people type them."""


class ConfigFile(argparse.Action):
    """One configuration file, given as the positional or as `--config`; two of them are an error."""

    def __call__(self, parser: argparse.ArgumentParser, args: argparse.Namespace, value: Any, *_: object) -> None:
        if value is None:  # the positional is absent
            return
        if getattr(args, "config", None) is not None:
            parser.error("there are two configuration files: give one")
        args.config = value


def add_upstream(parser: argparse.ArgumentParser) -> None:
    """`--config`, `--base-url` and `--dialect`."""
    parser.add_argument("-c", "--config", action=ConfigFile, metavar="FILE", help="configuration file")
    parser.add_argument("--base-url", help="one upstream, without a file; its key is read from UPSTREAM_API_KEY")
    add_dialect(parser, "--dialect", help="what that upstream speaks (default chat)")


def add_simulate(parser: argparse.ArgumentParser) -> None:
    """`--simulate`."""
    parser.add_argument(
        "--simulate", action="store_true", help="answer with simulated replies, marked x-dragoman-simulated: 1"
    )


def add_dialect(parser: argparse.ArgumentParser, option: str, **more: Any) -> None:
    """An option whose value is a dialect; a vendor's name is one of its dialects."""
    parser.add_argument(option, choices=_DIALECTS, type=lambda word: _ALIASES.get(word, word), **more)


def add_log(parser: argparse.ArgumentParser) -> None:
    """`--log-level`, `--verbose`, `--quiet` and `--log-format`."""
    level = parser.add_mutually_exclusive_group()
    level.add_argument("--log-level", choices=list(LEVELS), help="least serious lines logged (default info)")
    level.add_argument(
        "--verbose", action="store_const", dest="log_level", const="debug", help="the same as --log-level debug"
    )
    level.add_argument(
        "--quiet",
        action="store_const",
        dest="log_level",
        const="warning",
        help="the same as --log-level warning: no line for each request",
    )
    parser.add_argument(
        "--log-format", choices=FORMATS, default="text", help="lines of text, or one JSON object a line (default text)"
    )

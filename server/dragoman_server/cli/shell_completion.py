"""`dragoman completion SHELL`: prints a completion script, generated from the parser by shtab."""

from __future__ import annotations

import argparse
import sys

from dragoman_server.cli.commands import command_line
from dragoman_server.cli.parser import CommandParser

SHELLS = ("bash", "zsh", "tcsh")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("shell", choices=SHELLS, help="the shell")
    parser.set_defaults(run=lambda args: main(args, command_line()))


def main(args: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Print the completion script of `parser` for `args.shell`. Return 1 if shtab is not installed."""
    try:
        import shtab
    except ImportError:
        print("completion needs the package shtab: install Dragoman with the extra completion", file=sys.stderr)
        return 1
    _complete_files(parser, shtab.FILE)
    print(shtab.complete(parser, args.shell))
    return 0


def _complete_files(parser: argparse.ArgumentParser, how: object) -> None:
    """Make shtab complete file names for arguments that are files, of all commands."""
    for action in parser._actions:
        if action.metavar in ("FILE", "CONFIG.toml"):
            action.complete = how  # type: ignore[attr-defined]
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                if isinstance(command, CommandParser):
                    command.declare()
                _complete_files(command, how)

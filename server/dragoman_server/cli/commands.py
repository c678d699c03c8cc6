"""The commands of the command line. The module of one is imported when it is used: those of all take 5 MB."""

from __future__ import annotations

import argparse
from functools import partial
from importlib import import_module
from platform import python_version
from typing import Final

from dragoman_server.cli.parser import CommandParser

COMMANDS: Final = (
    ("serve", "serve_gateway", "run the gateway"),
    ("run", "run_agent", "start a coding agent that uses a gateway of its own"),
    ("init", "starter_config", "write a commented configuration to start from"),
    ("import", "imports.command", "write a configuration from that of another gateway"),
    ("demo", "demo.run", "show translated streams between a client and a simulated upstream"),
    ("check", "check_config", "validate and describe a configuration"),
    ("schema", "print_schema", "print the JSON Schema of the configuration file, for editors"),
    ("keys", "manage_keys", "add, list and revoke the keys of clients"),
    ("prices", "import_prices", "write the prices of the configured models from a public list"),
    ("usage", "show_usage", "add up the usage that a gateway has booked"),
    ("receipts", "show_receipts", "list the last receipts of a running gateway, or print one"),
    ("status", "show_status", "show the hosts, stores and providers of a running gateway"),
    ("top", "top.command", "watch the open requests, rates and providers of a running gateway"),
    ("tree", "show_tree", "print the tree of a stored conversation"),
    ("capture", "show_captures", "list and show captured exchanges"),
    ("replay", "replay_capture", "translate a captured exchange again, and compare the result"),
    (
        "translate",
        "translate_files",
        "translate a request body, a reply or a recorded .sse stream; losses are printed to stderr",
    ),
    ("explain", "explain_request", "show the upstream request for a request body, its losses and renames"),
    ("completion", "shell_completion", "print a completion script for a shell"),
)
"""The commands; the modules of this package, whose `add_arguments` sets the default `run`; and what each does."""


class _Version(argparse.Action):
    """Prints the version, the revision and the version of Python. The import is local: nothing else needs it."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from dragoman_server.observability.installed_version import installed_version, revision

        print(f"dragoman {installed_version()} (revision {revision()}, Python {python_version()})")
        parser.exit()


def command_line() -> CommandParser:
    """Return the parser of the command line. It sets `run` to a function that takes the arguments."""
    parser = CommandParser(prog="dragoman", description="A streaming gateway that translates between model APIs.")
    parser.add_argument("-V", "--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, module, about in COMMANDS:
        commands.add_parser(name, help=about).declare_later = partial(_declare, module)
    # For the help only: `main` passes the arguments of `bench` to dragoman_bench without parsing them.
    commands.add_parser(
        "bench", help="benchmark gateways side by side on this machine (see bench --help)", add_help=False
    )
    return parser


def _declare(module: str, parser: argparse.ArgumentParser) -> None:
    import_module(f"dragoman_server.cli.{module}").add_arguments(parser)

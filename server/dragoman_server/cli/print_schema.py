"""`dragoman schema`: prints the JSON Schema of the configuration file, for editors."""

from __future__ import annotations

import argparse
import sys

from dragoman_server.config.json_schema import schema_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command, which has no arguments."""
    parser.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Print the schema. Return the exit status."""
    sys.stdout.write(schema_text())
    return 0

"""`dragoman import litellm | ccr FILE`: writes the configuration, and lists what has no counterpart."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dragoman_server.cli.command_error import CommandError
from dragoman_server.cli.imports.claude_code_router import import_router, read_json5
from dragoman_server.cli.imports.imported import Imported, printable
from dragoman_server.cli.imports.litellm import import_litellm
from dragoman_server.cli.named_files import add_output, read_input, write_output
from dragoman_server.config.config_error import ConfigError
from dragoman_server.config.json_schema import SCHEMA_FILE, schema_text


class _YamlError(ValueError):
    """Text that is not YAML. The message is the position of the error."""


def _read_yaml(text: str) -> Any:
    try:
        import yaml
    except ImportError:
        message = "LiteLLM's configuration is YAML, which needs PyYAML: install Dragoman with the extra import"
        raise CommandError("", message) from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise _YamlError(f"line {mark.line + 1}" if mark is not None else "its position is not known") from None


ORIGINS: dict[str, tuple[str, str, Callable[[str], Any], Callable[[Mapping[str, Any]], Imported]]] = {
    "litellm": ("LiteLLM's proxy", "YAML", _read_yaml, import_litellm),
    "ccr": ("Claude Code Router", "JSON", read_json5, import_router),
}
"""Origin → its title, format, reader and importer."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the origins and their arguments."""
    origins = parser.add_subparsers(title="origins", required=True, metavar="ORIGIN")
    for name, (title, form, _, _) in ORIGINS.items():
        origin = origins.add_parser(name, help=f"the configuration of {title} ({form})")
        origin.add_argument("file", metavar="FILE", help="file to import, - for standard input")
        add_output(origin)
        origin.set_defaults(run=main, origin=name)


def main(args: argparse.Namespace) -> int:
    """Import a file. Return 0, or 1 if no provider was found or the output exists. Raises CommandError, OSError."""
    title, form, read, convert = ORIGINS[args.origin]
    raw = read_input(args.file)
    try:
        data = read(raw.decode("utf-8-sig"))
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:
        raise CommandError(args.file, f"is not {form}{_position(error)}") from None
    if not isinstance(data, dict):
        raise CommandError(args.file, f"is not a configuration of {title}: expected a table")
    found = convert(data)
    if not found.providers:
        _report(found)
        print(f"dragoman: no provider of {args.file} can be imported", file=sys.stderr)
        return 1
    if not write_output(found.toml(), args.output, force=args.force):
        return 1
    if args.output != "-":
        Path(args.output).with_name(SCHEMA_FILE).write_text(schema_text(), "utf-8")
        print(f"wrote {args.output}. Check it: dragoman check {args.output}", file=sys.stderr)
    _report(found)
    return 0


def _position(error: Exception) -> str:
    """Return the place of an error, without its message: that may quote a key."""
    if isinstance(error, json.JSONDecodeError):
        return f": line {error.lineno}, column {error.colno}"
    return f": {error}" if isinstance(error, _YamlError) else ""


def _report(found: Imported) -> None:
    """Print what the file needs, and what has no counterpart, to standard error."""
    parts = [
        ("to correct by hand", found.problems() if found.providers else []),
        ("notes", found.notes),
        ("without a counterpart", found.unmatched),
    ]
    if variables := found.variables():
        print(f"environment variables to set: {', '.join(variables)}", file=sys.stderr)
    for title, rows in parts:
        if rows:
            print(f"{title}:", file=sys.stderr)
        for path, text in rows:
            print(f"  {printable(path)}: {printable(text)}", file=sys.stderr)

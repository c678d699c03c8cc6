"""`dragoman usage`: sums of the usage that a gateway has booked."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from dragoman.wire import json_dumps
from dragoman_server.accounts.keys.record import parse_moment
from dragoman_server.accounts.limits.prices import UNITS
from dragoman_server.accounts.usage.options import OFF, STDOUT, UsageOptions
from dragoman_server.accounts.usage.report import COUNT_NAMES, GROUPS, Sum, read_rows, sums
from dragoman_server.cli.command_error import CommandError
from dragoman_server.cli.config_source import DEFAULT_FILE
from dragoman_server.config.accounts_tables import load_usage
from dragoman_server.config.schema import Config
from dragoman_server.config.stored_files import files_left_behind
from dragoman_server.config.toml_reader import directory_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--by", choices=tuple(GROUPS), default="key", help="what to add up by (default: key)")
    parser.add_argument(
        "--since",
        metavar="WHEN",
        help="leave out earlier ones: a date, a time (RFC 3339) or a duration (12h, 30d)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON on standard output")
    parser.add_argument(
        "-c", "--config", metavar="FILE", help=f"configuration with the table [usage] (default ./{DEFAULT_FILE})"
    )
    parser.set_defaults(run=show)


def show(args: argparse.Namespace) -> int:
    """Print the sums. Raises CommandError."""
    options = _options(args.config)
    since = _since(args.since, time.time()) if args.since is not None else ""
    try:
        found = sums(read_rows(options), args.by, since)
    except (OSError, ValueError) as error:
        for sentence in files_left_behind(Config(usage=options, directory=directory_of(args.config or DEFAULT_FILE))):
            print(sentence, file=sys.stderr)
        raise CommandError("usage.path", str(error)) from None
    if args.json:
        data = [{args.by: name, **each.as_json()} for name, each in found.items()]
        sys.stdout.write(json_dumps({"object": "list", "data": data}).decode() + "\n")
    else:
        _print_table(args.by, found)
    return 0


def _options(path: str | None) -> UsageOptions:
    if path is None and not Path(DEFAULT_FILE).is_file():
        raise CommandError("--config", f"there is no ./{DEFAULT_FILE}: name the configuration")
    options = load_usage(path or DEFAULT_FILE)
    if options.kind == OFF:
        raise CommandError("usage", 'is off: set kind = "jsonl" or "sqlite" in the table [usage]')
    if options.file == STDOUT:
        raise CommandError("usage.path", "is standard output, which cannot be read again")
    return options


def _since(text: str, now: float) -> str:
    """Return a time as rows state it. A duration is counted back from now. Raises CommandError."""
    moment = parse_moment(text, now)
    if moment is None:
        raise CommandError("--since", f"expected 2027-01-31, a time in RFC 3339, or 12h, 30d, 8w; got {text!r}")
    if text[-1:].isalpha() and text[:-1].isdigit():
        moment = 2 * now - moment
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))


def _print_table(group: str, found: dict[str, Sum]) -> None:
    if not found:
        print("no usage is booked", file=sys.stderr)
        return
    total = Sum()
    # Few upstreams keep anything in a cache for an hour, and the table is wide.
    hours = any(each.counts["cache_write_1h"] for each in found.values())
    shown = [name for name in COUNT_NAMES if hours or name != "cache_write_1h"]
    rows = [(group, "exchanges", *shown, "cost")]
    for name, each in found.items():
        rows.append((name or "(none)", *_cells(each, shown)))
        total.exchanges += each.exchanges
        total.cost += each.cost
        for count in COUNT_NAMES:
            total.counts[count] += each.counts[count]
    if len(found) > 1:
        rows.append(("total", *_cells(total, shown)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        print("  ".join(cells))
    notes = [
        f"{sum(getattr(each, name) for each in found.values())} {meaning}"
        for name, meaning in (
            ("estimated", "with estimated counts"),
            ("partial", "not complete"),
            ("unpriced", "without a price"),
        )
        if any(getattr(each, name) for each in found.values())
    ]
    if notes:
        print(f"of these exchanges: {', '.join(notes)}", file=sys.stderr)


def _cells(each: Sum, shown: Sequence[str]) -> tuple[str, ...]:
    counts = (f"{each.counts[name]:,}" for name in shown)
    return f"{each.exchanges:,}", *counts, f"{each.cost / UNITS:,.4f}"

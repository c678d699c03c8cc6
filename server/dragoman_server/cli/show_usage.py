"""`dragoman usage`: sums of the usage that a gateway has booked."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from dragoman.gateway import quote
from dragoman.wire import json_dumps
from dragoman_server.accounts.keys.record import parse_moment
from dragoman_server.accounts.limits.prices import UNITS
from dragoman_server.accounts.usage.options import OFF, STDOUT, UsageOptions
from dragoman_server.accounts.usage.report import COUNT_NAMES, GROUPS, Groups, Sum, read_rows, sums
from dragoman_server.accounts.usage.report_csv import write_csv
from dragoman_server.accounts.usage.row import ENDS
from dragoman_server.cli.command_error import CommandError
from dragoman_server.cli.config_source import DEFAULT_FILE
from dragoman_server.cli.text_table import blocks, line_width, short_number, table
from dragoman_server.config.accounts_tables import load_usage
from dragoman_server.config.file_paths import directory_of
from dragoman_server.config.schema import Config
from dragoman_server.config.store_urls import POSTGRES
from dragoman_server.config.stored_files import files_left_behind
from dragoman_server.config.value_problems import choice_problem


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--by",
        type=_dimensions,
        default=("key",),
        metavar="NAME[,NAME…]",
        help=f"what to add up by (default: key); one or several of {', '.join(GROUPS)}",
    )
    when = "a date, a time (RFC 3339) or a duration before now (12h, 30d)"
    parser.add_argument("--since", metavar="WHEN", help=f"leave out earlier ones: {when}")
    parser.add_argument("--until", metavar="WHEN", help="leave out those of this time and later ones")
    parser.add_argument(
        "--ended",
        type=_ends,
        default=(),
        metavar="NAME[,NAME…]",
        help=f"only exchanges that ended so: {', '.join(ENDS)}; lost: its process was killed; running: its upstream "
        "goes on with the response",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON on standard output")
    form.add_argument("--csv", action="store_true", help="print CSV on standard output, for spreadsheets")
    parser.add_argument(
        "-c", "--config", metavar="FILE", help=f"configuration with the table [usage] (default ./{DEFAULT_FILE})"
    )
    parser.set_defaults(run=show)


def _dimensions(text: str) -> tuple[str, ...]:
    """Return the dimensions that an option names. Raises ArgumentTypeError."""
    names = _names(text, GROUPS)
    if len(set(names)) < len(names):
        raise argparse.ArgumentTypeError("names a dimension twice")
    return names


def _ends(text: str) -> tuple[str, ...]:
    """Return the ends of exchanges that an option names. Raises ArgumentTypeError."""
    return _names(text, ENDS)


def _names(text: str, known: Collection[str]) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if (problem := choice_problem(name, known)) is not None:
            raise argparse.ArgumentTypeError(problem)
    return names


def show(args: argparse.Namespace) -> int:
    """Print the sums. Raises CommandError."""
    options, now = _options(args.config), time.time()
    since, until = (_moment(option, getattr(args, option), now) for option in ("since", "until"))
    try:
        found = _sums(options, since, until, args)
    except (OSError, ValueError) as error:
        if options.kind == POSTGRES:
            raise CommandError("usage", str(error)) from None
        for sentence in files_left_behind(Config(usage=options, directory=directory_of(args.config or DEFAULT_FILE))):
            print(sentence, file=sys.stderr)
        raise CommandError("usage.path", str(error)) from None
    if args.json:
        data = [{**dict(zip(args.by, groups, strict=True)), **each.as_json()} for groups, each in found.items()]
        sys.stdout.write(json_dumps({"object": "list", "data": data}).decode() + "\n")
    elif args.csv:
        write_csv(sys.stdout, args.by, found)
    else:
        _print_table(args.by, found)
    return 0


def _sums(options: UsageOptions, since: str, until: str, args: argparse.Namespace) -> Mapping[Groups, Sum]:
    if options.kind == POSTGRES:
        from dragoman_server.accounts.usage.postgres_report import read_sums

        return read_sums(options, since, until, args.by, args.ended)
    return sums(read_rows(options, since, until, args.ended), args.by)


def _options(path: str | None) -> UsageOptions:
    if path is None and not Path(DEFAULT_FILE).is_file():
        raise CommandError("--config", f"there is no ./{DEFAULT_FILE}: name the configuration")
    options = load_usage(path or DEFAULT_FILE)
    if options.kind == OFF:
        raise CommandError("usage", 'is off: set kind = "jsonl", "sqlite" or "postgresql" in the table [usage]')
    if options.file == STDOUT:
        raise CommandError("usage.path", "is standard output, which cannot be read again")
    return options


def _moment(option: str, text: str | None, now: float) -> str:
    """Return a time as rows state it, empty for none. A duration is counted back from now. Raises CommandError."""
    if text is None:
        return ""
    moment = parse_moment(text, now)
    if moment is None:
        raise CommandError(f"--{option}", f"expected 2027-01-31, a time in RFC 3339, or 12h, 30d, 8w; got {text!r}")
    if text[-1:].isalpha() and text[:-1].isdigit():
        moment = 2 * now - moment
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))


def _print_table(dimensions: Sequence[str], found: Mapping[Groups, Sum]) -> None:
    if not found:
        print("no usage is booked", file=sys.stderr)
        return
    total = Sum()
    for each in found.values():
        total.merge(each)
    for line in _lines(dimensions, found, total, line_width()):
        print(line)
    notes = [
        f"{getattr(total, name)} {meaning}"
        for name, meaning in (
            ("estimated", "with estimated counts"),
            ("partial", "not complete"),
            ("unpriced", "without a price"),
            ("lost", "lost with a process that was killed"),
            ("running", "whose response went on at its upstream and was not read to its end"),
        )
        if getattr(total, name)
    ]
    if notes:
        print(f"of these exchanges: {', '.join(notes)}", file=sys.stderr)


def _lines(dimensions: Sequence[str], found: Mapping[Groups, Sum], total: Sum, width: int) -> list[str]:
    """Return the sums as a table, or as blocks if a table is too wide.

    Where the table is too wide, counts that are 0 everywhere are left out first, and then counts are shortened.
    """
    # Few upstreams keep anything in a cache for an hour, or charge searches.
    usual = [name for name in COUNT_NAMES if total.counts[name] or name != "cache_write_1h"]
    used = [name for name in usual if total.counts[name] or name in ("input", "output")]
    titles: list[str] = []
    rows: list[tuple[str, ...]] = []
    for shown, number in ((usual, "{:,}".format), (used, "{:,}".format), (used, short_number)):
        titles = [*dimensions, "exchanges", *shown, *["searches"] * bool(total.searches), "cost"]
        rows = [
            (*(quote(name) or "(none)" for name in groups), *_cells(each, shown, number, searches=bool(total.searches)))
            for groups, each in found.items()
        ]
        if len(found) > 1:
            sums_of_all = _cells(total, shown, number, searches=bool(total.searches))
            rows.append(("total", *[""] * (len(dimensions) - 1), *sums_of_all))
        if (lines := table(titles, rows, len(dimensions), width)) is not None:
            return lines
    return blocks(titles, rows, width)


def _cells(each: Sum, shown: Sequence[str], number: Callable[[int], str], *, searches: bool) -> tuple[str, ...]:
    counts = [number(each.counts[name]) for name in shown]
    if searches:
        counts.append(number(each.searches))
    return number(each.exchanges), *counts, f"{each.cost / UNITS:,.4f}"

"""`dragoman receipts`: the last receipts of a running gateway, or one of them."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from urllib.parse import quote as quoted

from dragoman.gateway import quote
from dragoman.wire import Json, json_dumps, json_loads
from dragoman_server.cli.command_error import CommandError
from dragoman_server.cli.options import count
from dragoman_server.cli.running_gateway import KEY_VARIABLE, add_gateway, fetch, gateway_of
from dragoman_server.cli.text_table import cut, line_width, text_width, wrapped
from dragoman_server.observability.receipts import LIST_DEFAULT, LIST_MAX


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("id", metavar="ID", nargs="?", help="id of a request, to print its whole receipt")
    parser.add_argument(
        "--last", type=count, default=LIST_DEFAULT, metavar="N", help=f"how many to list (default {LIST_DEFAULT})"
    )
    add_gateway(parser)
    parser.add_argument("--json", action="store_true", help="print JSON on one line")
    parser.description = f"Print the last receipts of the gateway's key: {KEY_VARIABLE}, else server.keys."
    parser.set_defaults(run=show)


def show(args: argparse.Namespace) -> int:
    """Print the receipts. Raises CommandError, and ConnectionError if the gateway does not return them."""
    if args.last > LIST_MAX:
        raise CommandError("--last", f"expected a number from 1 to {LIST_MAX}; got {args.last}")
    path = "receipts" if args.id is None else f"receipts/{quoted(args.id, safe='')}"
    found = json_loads(fetch(gateway_of(args), path, {"limit": str(args.last)} if args.id is None else {}))
    if args.json:
        sys.stdout.write(json_dumps(found).decode() + "\n")
    elif args.id is not None:
        _print_receipt(found)
    else:
        width = line_width()
        for row in found["data"]:
            print("\n".join(_lines(row, width)))
        if not found["data"]:
            print("there are no receipts", file=sys.stderr)
    return 0


def _print_receipt(receipt: Json) -> None:
    """Print the members that have a value, each on lines of its own; of a list, each entry."""
    width = line_width()
    for name, value in receipt.items():
        entries = value if isinstance(value, list) else [value]
        for entry in entries:
            if entry is not None and entry != {} and name != "object":
                print("\n".join(wrapped(f"{name}: {_text(entry)}", width)))


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(member)}" for name, member in value.items() if member is not None)
    return quote(str(value).lower() if isinstance(value, bool) else str(value), 1000)


def _lines(row: Json, width: int) -> tuple[str, str]:
    """Return a receipt in two lines: which request it was and how it ended, and what it was about."""
    created = datetime.fromtimestamp(row["created"], UTC).strftime("%Y-%m-%d %H:%M:%S")
    first = f"{created}  {row['request_id']}  {row['status'] or '-'} {row['ended']}"
    way = row["endpoint"] or f"{row['client']}→{row['upstream'] or '?'}"
    model = row["model"] or "?"
    if row["upstream_model"] not in (None, model):
        model += f" → {row['upstream_model']}"
    usage, error = row["usage"] or {}, row["error"] or {}
    notes = [error.get("code") or error["kind"]] if error else []
    notes += [f"tokens {usage['input_total']}+{usage['output_total']}"] if usage.get("output_total") is not None else []
    notes += [f"losses {row['losses_total']}"] if row["losses_total"] else []
    notes += [f"host {row['host']}"] if row.get("host") else []
    # The model's name is cut first.
    rest = cut(quote(f"  ({', '.join(notes)})" if notes else "", 1000), width // 2)
    second = cut(quote(f"  {way}  {model}", 1000), width - text_width(rest)) + rest
    return cut(quote(first, 1000), width), second

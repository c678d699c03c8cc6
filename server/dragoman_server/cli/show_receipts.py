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
from dragoman_server.cli.running_gateway import KEY_VARIABLE, add_url, fetch
from dragoman_server.observability.receipts import LIST_DEFAULT, LIST_MAX


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("id", metavar="ID", nargs="?", help="id of a request, to print its whole receipt")
    parser.add_argument(
        "--last", type=count, default=LIST_DEFAULT, metavar="N", help=f"how many to list (default {LIST_DEFAULT})"
    )
    add_url(parser)
    parser.add_argument("--json", action="store_true", help="print JSON on one line")
    parser.description = f"Print the last receipts of the gateway's key, which is read from {KEY_VARIABLE}."
    parser.set_defaults(run=show)


def show(args: argparse.Namespace) -> int:
    """Print the receipts. Raises CommandError, and ConnectionError if the gateway does not return them."""
    if args.last > LIST_MAX:
        raise CommandError("--last", f"expected a number from 1 to {LIST_MAX}; got {args.last}")
    path = "receipts" if args.id is None else f"receipts/{quoted(args.id, safe='')}"
    found = json_loads(fetch(args.url, path, {"limit": str(args.last)} if args.id is None else {}))
    if args.json:
        sys.stdout.write(json_dumps(found).decode() + "\n")
    elif args.id is not None:
        _print_receipt(found)
    else:
        for row in found["data"]:
            print(_line(row))
        if not found["data"]:
            print("there are no receipts", file=sys.stderr)
    return 0


def _print_receipt(receipt: Json) -> None:
    """Print the members that have a value, a line for each; of a list, a line for each entry."""
    for name, value in receipt.items():
        if isinstance(value, list):
            for entry in value:
                print(f"{name}: {_text(entry)}")
        elif value is not None and value != {} and name != "object":
            print(f"{name}: {_text(value)}")


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(member)}" for name, member in value.items() if member is not None)
    return quote(str(value).lower() if isinstance(value, bool) else str(value), 1000)


def _line(row: Json) -> str:
    """Return a receipt in one line."""
    created = datetime.fromtimestamp(row["created"], UTC).strftime("%Y-%m-%d %H:%M:%S")
    way = row["endpoint"] or f"{row['client']}→{row['upstream'] or '?'}"
    model = row["model"] or "?"
    if row["upstream_model"] not in (None, model):
        model += f" → {row['upstream_model']}"
    usage, error = row["usage"] or {}, row["error"] or {}
    notes = [f"tokens {usage['input_total']}+{usage['output_total']}"] if usage.get("output_total") is not None else []
    notes += [f"losses {row['losses_total']}"] if row["losses_total"] else []
    notes += [error.get("code") or error["kind"]] if error else []
    more = f" ({', '.join(notes)})" if notes else ""
    ended = f"{row['status'] or '-'} {row['ended']}"
    return quote(f"{created}  {row['request_id']}  {way}  {model}  {ended}{more}", 1000)

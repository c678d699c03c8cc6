"""`dragoman tree`: the lineage of a stored conversation, read from a running gateway."""

from __future__ import annotations

import argparse
import sys
from urllib.parse import quote

from dragoman_server.cli.running_gateway import KEY_VARIABLE, add_gateway, fetch, gateway_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("id", metavar="ID", help="id of a conversation, or of a response")
    add_gateway(parser)
    parser.add_argument("--key", metavar="NAME", help="name of the key whose conversation it is (for admins)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a Mermaid flowchart")
    parser.description = f"Print the tree of a conversation. The key is {KEY_VARIABLE}, else that of server.keys."
    parser.set_defaults(run=show)


def show(args: argparse.Namespace) -> int:
    """Print the tree. Raises CommandError, and ConnectionError if the gateway does not return it."""
    query = {"format": "json" if args.json else "mermaid", **({"key": args.key} if args.key is not None else {})}
    body = fetch(gateway_of(args), f"conversations/{quote(args.id, safe='')}/tree", query)
    sys.stdout.write(body.decode().rstrip("\n") + "\n")
    return 0

"""`dragoman tree`: the lineage of a stored conversation, read from a running gateway."""

from __future__ import annotations

import argparse
import os
import sys
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import Request, urlopen

from dragoman import json_loads
from dragoman import quote as printable
from dragoman_server.cli.command_error import CommandError

DEFAULT_URL = "http://127.0.0.1:8080"
KEY_VARIABLE = "DRAGOMAN_KEY"
_SECONDS = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("id", metavar="ID", help="id of a conversation, or of a response")
    parser.add_argument("--url", default=DEFAULT_URL, help=f"base URL of the gateway (default {DEFAULT_URL})")
    parser.add_argument("--key", metavar="NAME", help="name of the key whose conversation it is (for admins)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a Mermaid flowchart")
    parser.description = f"Print the tree of a conversation. The gateway's key is read from {KEY_VARIABLE}."
    parser.set_defaults(run=show)


def show(args: argparse.Namespace) -> int:
    """Print the tree. Returns 1 if the gateway cannot be reached or returns an error. Raises CommandError."""
    base = args.url.rstrip("/").removesuffix("/v1")
    if urlsplit(base).scheme not in ("http", "https"):
        raise CommandError("--url", f"expected http://… or https://…; got {args.url!r}")
    query = {"format": "json" if args.json else "mermaid", **({"key": args.key} if args.key is not None else {})}
    request = Request(f"{base}/v1/dragoman/conversations/{quote(args.id, safe='')}/tree?{urlencode(query)}")
    if key := os.environ.get(KEY_VARIABLE, ""):
        request.add_header("x-api-key", key)
    try:
        with urlopen(request, timeout=_SECONDS) as answer:
            body: bytes = answer.read()
    except HTTPError as error:
        with error:
            return _fail(_message(error.read()) or f"the gateway answered {error.code}")
    except (URLError, HTTPException, OSError) as error:
        return _fail(f"{base} cannot be reached: {getattr(error, 'reason', None) or error}")
    sys.stdout.write(body.decode().rstrip("\n") + "\n")
    return 0


def _message(body: bytes) -> str | None:
    """Return the message of an error response, if it has one."""
    try:
        message = json_loads(body)["error"]["message"]
    except (ValueError, LookupError, TypeError):
        return None
    return printable(message) if type(message) is str else None


def _fail(message: str) -> int:
    print(f"dragoman: {message}", file=sys.stderr)
    return 1

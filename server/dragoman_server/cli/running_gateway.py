"""Requests of commands to a running gateway.

Its address is that of `--url`, else the one at which `dragoman serve` would listen in the same directory.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, urlopen

from dragoman.gateway import tidy
from dragoman.wire import json_loads
from dragoman_server.cli.command_error import CommandError
from dragoman_server.cli.config_source import DEFAULT_FILE, set_address
from dragoman_server.config.address import Address, load_address
from dragoman_server.config.schema import Server

KEY_VARIABLE = "DRAGOMAN_KEY"
_SECONDS = 60.0


@dataclass(frozen=True)
class RunningGateway:
    """The base URL of a gateway, and the key for it, or an empty text."""

    url: str
    key: str = field(default="", repr=False)


def add_gateway(parser: argparse.ArgumentParser) -> None:
    """Declare `--url` and `--config`."""
    parser.add_argument("--url", help="base URL of the gateway (default: the address of its configuration)")
    parser.add_argument(
        "-c",
        "--config",
        metavar="FILE",
        help=f"configuration of the gateway, for its address and its key (default ./{DEFAULT_FILE} if it exists)",
    )


def gateway_of(args: argparse.Namespace) -> RunningGateway:
    """Return the gateway of `add_gateway`'s options, else of DRAGOMAN_HOST and DRAGOMAN_PORT, `./dragoman.toml` or the
    defaults of `serve`. The key is that of the environment, else of `server.keys`.

    Raises CommandError, and ConfigError for a configuration that cannot be read.
    """
    key = os.environ.get(KEY_VARIABLE, "")
    if args.url is not None:
        if args.config is not None:
            raise CommandError("--url", "cannot be combined with a configuration file: leave one of them out")
        return RunningGateway(args.url, key)
    file = args.config or (DEFAULT_FILE if Path(DEFAULT_FILE).is_file() else None)
    address = Address(Server.host, Server.port) if file is None else load_address(file)
    given = argparse.Namespace(host=None, port=None)
    set_address(given, os.environ)
    host, port = given.host or address.host, address.port if given.port is None else given.port
    if not port:
        raise CommandError("--url", "is needed: the gateway listens on any free port (server.port = 0)")
    return RunningGateway(Address(host, port).url, key or address.key)


def fetch(gateway: RunningGateway, path: str, query: Mapping[str, str], *, below: str = "/v1/dragoman/") -> bytes:
    """Return the body of the response to a GET of `path` below another one, with the gateway's key.

    Raises CommandError for a URL that is not one, and ConnectionError if the gateway cannot be reached or returns an
    error.
    """
    base = gateway.url.rstrip("/").removesuffix("/v1")
    if urlsplit(base).scheme not in ("http", "https"):
        raise CommandError("--url", f"expected http://… or https://…; got {gateway.url!r}")
    request = Request(f"{base}{below}{path}?{urlencode(query)}")
    if gateway.key:
        request.add_header("x-api-key", gateway.key)
    try:
        with urlopen(request, timeout=_SECONDS) as response:
            body: bytes = response.read()
    except HTTPError as error:
        with error:
            raise ConnectionError(_error_message(error.code, error.read())) from None
    except (URLError, HTTPException, OSError) as error:
        reason = getattr(error, "reason", None) or error
        if isinstance(reason, ConnectionRefusedError):
            reason = "nothing listens there; start a gateway with `dragoman serve`, or name another with --url"
        raise ConnectionError(f"{base} cannot be reached: {reason}") from None
    return body


def _error_message(status: int, body: bytes) -> str:
    """Return the message of an error response, with advice where there is some."""
    try:
        message = tidy(json_loads(body)["error"]["message"])
    except (ValueError, LookupError, TypeError, AttributeError):
        message = f"the gateway returned {status}"
    return f"{message}; set {KEY_VARIABLE} to a key of the gateway" if status == 401 else message

"""Requests of commands to a running gateway."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, urlopen

from dragoman.gateway import tidy
from dragoman.wire import json_loads
from dragoman_server.cli.command_error import CommandError

DEFAULT_URL = "http://127.0.0.1:8080"
KEY_VARIABLE = "DRAGOMAN_KEY"
_SECONDS = 60.0


def add_url(parser: argparse.ArgumentParser) -> None:
    """Declare `--url`."""
    parser.add_argument("--url", default=DEFAULT_URL, help=f"base URL of the gateway (default {DEFAULT_URL})")


def fetch(url: str, path: str, query: Mapping[str, str], *, below: str = "/v1/dragoman/") -> bytes:
    """Return the body of the response to a GET of `path` below another one, with the key of the environment.

    Raises CommandError for a URL that is not one, and ConnectionError if the gateway cannot be reached or returns an
    error.
    """
    base = url.rstrip("/").removesuffix("/v1")
    if urlsplit(base).scheme not in ("http", "https"):
        raise CommandError("--url", f"expected http://… or https://…; got {url!r}")
    request = Request(f"{base}{below}{path}?{urlencode(query)}")
    if key := os.environ.get(KEY_VARIABLE, ""):
        request.add_header("x-api-key", key)
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
    return f"{message}; the key is read from {KEY_VARIABLE}" if status == 401 else message

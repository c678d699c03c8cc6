"""A token endpoint on loopback, in the forms of Google, of Entra's managed identity, and of AWS' container metadata."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

Reply = Callable[[str, bytes], tuple[int, Any]]
"""Returns the status and the response for a request's path and body: a value to send as JSON, or XML as a string."""


class TokenEndpoint:
    """Counts its requests. `gate` holds back its replies while it is cleared, and `away` makes them errors."""

    def __init__(self, reply: Reply, port: int) -> None:
        self.reply = reply
        self.url = f"http://127.0.0.1:{port}"
        self.paths: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self.away = False


@contextmanager
def token_endpoint(reply: Reply) -> Iterator[TokenEndpoint]:
    """A token endpoint in threads of its own: the libraries that request tokens block."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            endpoint.paths.append(self.path)
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            endpoint.gate.wait(30)
            status, found = (400, {"error": "canary-away"}) if endpoint.away else endpoint.reply(self.path, body)
            data, kind = json.dumps(found).encode(), "application/json"
            if isinstance(found, str):
                data, kind = found.encode(), "text/xml"
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = answer

        def log_message(self, *_: object) -> None:
            """Write nothing to standard error."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        endpoint = TokenEndpoint(reply, server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield endpoint
        finally:
            endpoint.gate.set()
            server.shutdown()
            thread.join()


@cache
def _private_key() -> str:
    key = generate_private_key(65537, 2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def service_account(url: str) -> dict[str, str]:
    """The key file of a service account of Google whose tokens come from `url`."""
    return {
        "type": "service_account",
        "client_email": "a@p.iam.gserviceaccount.com",
        "private_key": _private_key(),
        "private_key_id": "1",
        "project_id": "p",
        "token_uri": f"{url}/token",
    }


def google_tokens(number: int) -> dict[str, Any]:
    """A response of Google's endpoint."""
    return {"access_token": f"canary-{number}", "expires_in": 3600}


def entra_tokens(number: int) -> dict[str, Any]:
    """A response of a managed identity's endpoint."""
    ends = str(int(time.time()) + 3600)
    return {"access_token": f"canary-{number}", "expires_on": ends, "resource": "r", "token_type": "Bearer"}

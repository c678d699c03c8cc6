"""A verifier of AWS' Signature Version 4, by its documentation and with no code of botocore."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import quote

NEEDED = {"host", "x-amz-date", "content-type"}
"""Headers that must be signed."""


def verify(method: str, target: str, headers: Mapping[str, str], body: bytes, secret: str) -> str:
    """Check the signature of a request as it was received, with header names in lower case. Returns the scope."""
    parts = dict(part.split("=", 1) for part in headers["authorization"].removeprefix("AWS4-HMAC-SHA256 ").split(", "))
    scope = parts["Credential"].split("/", 1)[1]
    path, _, query = target.partition("?")
    signed = parts["SignedHeaders"].split(";")
    assert set(signed) >= (NEEDED if method == "POST" else NEEDED - {"content-type"})
    canonical = "\n".join(
        (
            method,
            quote(path, safe="/-_.~"),
            "&".join(sorted(query.split("&"))),
            *(f"{name}:{' '.join(headers[name].split())}" for name in signed),
            "",
            parts["SignedHeaders"],
            hashlib.sha256(body).hexdigest(),
        )
    )
    text = f"AWS4-HMAC-SHA256\n{headers['x-amz-date']}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{secret}".encode()
    for word in (*scope.split("/"), text):
        key = hmac.new(key, word.encode(), hashlib.sha256).digest()
    assert hmac.compare_digest(key.hex(), parts["Signature"])
    return scope

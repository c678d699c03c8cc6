"""Errors of an upstream about a key that belongs to the caller of the engine, and not to the client.

A client that gets a 401 takes its own key for wrong: SDKs raise an authentication error, and agents ask for a login.
Nothing that the client can do about its key would help.
"""

from __future__ import annotations

import re

from dragoman.errors import Failure, FailureKind, FailureOrigin

CODE = "upstream_credential"
"""The code of such an error for the client."""
_KINDS = frozenset((FailureKind.AUTHENTICATION, FailureKind.PERMISSION))
_ABOUT_KEYS = re.compile(r"key|token|credential|auth|log.?in|password", re.IGNORECASE)


def for_client(failure: Failure, upstream: str) -> Failure:
    """Return the failure as the client gets it: as a 502 if it is about the caller's key at `upstream`.

    `upstream` is the name of an upstream, and empty if the key is the client's. Other failures are returned unchanged.
    The upstream's message is kept only if it mentions no key: agents look for such words in any message.
    """
    if not upstream or failure.kind not in _KINDS or failure.origin is not FailureOrigin.UPSTREAM:
        return failure
    refused = f"the provider {upstream} refused the credential that this gateway has for it ({failure.status})"
    message = f"{refused}; only the operator of the gateway can correct this"
    if failure.kind is FailureKind.PERMISSION and not _ABOUT_KEYS.search(failure.message):
        message = f"{message}: {failure.message}"
    headers = {"x-should-retry": "false"}  # the SDKs would send the request twice more
    return Failure(FailureKind.API, message, 502, code=CODE, request_id=failure.request_id, headers=headers)

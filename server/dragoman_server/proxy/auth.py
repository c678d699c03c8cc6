"""Which key comes in and which goes out (mapping §12.1).

Everything that goes upstream is on an allow-list, so cookies, `x-stainless-*`, hop-by-hop headers and keys stay here
without being named. Nothing in this module puts a key into a message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest

from dragoman.dialects import Dialect
from dragoman.errors import ClientRequestError, DragomanError, FailureKind
from dragoman_server.config.providers import Auth, Provider
from dragoman_server.config.schema import Config
from dragoman_server.proxy.error_response import client_failure

_SENDABLE = re.compile(r"[\t\x20-\x7e]+\Z")


def _values(headers: Mapping[str, str], name: str) -> list[str]:
    """All values of a header that are not empty, from aiohttp's multidict or from a plain dict in any case."""
    getall = getattr(headers, "getall", None)
    if getall is not None:
        found = getall(name, ())
    else:
        found = [value for key, value in headers.items() if key.lower() == name]
    return [text for value in found if (text := value.strip())]


def _bearer(headers: Mapping[str, str]) -> str | None:
    for value in _values(headers, "authorization"):
        scheme, _, token = value.partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            return token.strip()
    return None


def inbound_key(headers: Mapping[str, str]) -> str | None:
    """The key a client presents: `x-api-key`, else `Authorization: Bearer`, in every dialect."""
    keys = _values(headers, "x-api-key")
    return keys[0] if keys else _bearer(headers)


def check_inbound(config: Config, headers: Mapping[str, str]) -> bytes:
    """The digest of the client's key, by which it is known again; empty where no keys are configured.

    Raises `DragomanError` (401) unless the client presents one of `server.keys`, or none are configured.
    """
    keys = config.server.keys
    if not keys:
        return b""
    presented = inbound_key(headers)
    if presented is None:
        raise _refused("no API key: send it as x-api-key or as Authorization: Bearer")
    # aiohttp decodes headers with surrogateescape: any bytes may have come. Equal lengths (digests) and all keys
    # compared, so that the time taken tells neither how much of a key was right nor which one.
    digest = sha256(presented.encode("utf-8", "surrogateescape")).digest()
    found = False
    for key in keys:
        found |= compare_digest(key.digest, digest)
    if not found:
        raise _refused("invalid API key")
    return digest


def _refused(message: str) -> DragomanError:
    return DragomanError(client_failure(FailureKind.AUTHENTICATION, message, 401, code="invalid_api_key"))


def outbound_headers(
    provider: Provider, client_headers: Mapping[str, str], *, same_dialect: bool = False
) -> dict[str, str]:
    """Credentials and vendor headers for a request to `provider`, names in lower case.

    With `same_dialect` the body goes on unchanged, and the headers that belong to it go with it. Raises
    `ClientRequestError` for a client's header that cannot be sent on.
    """
    out: dict[str, str] = {}
    messages = provider.dialect is Dialect.MESSAGES
    if messages:
        out["anthropic-version"] = provider.profile.anthropic_version
    if same_dialect:
        # A beta's fields stay in the body, so its header must stay too (a body without it is refused, T-44).
        for name in ("anthropic-version", "anthropic-beta") if messages else ("idempotency-key",):
            _forward(out, client_headers, name)
    if provider.auth is Auth.PASSTHROUGH:
        _own_key(out, client_headers, messages, same_dialect)
        if same_dialect and not messages:
            # An organisation belongs to a key: beside the gateway's own key the client's would be somebody else's.
            _forward(out, client_headers, "openai-organization")
            _forward(out, client_headers, "openai-project")
    elif provider.api_key is not None:
        _put_key(out, provider.api_key.reveal(), messages)
    for name, value in provider.headers.items():
        out[name.lower()] = value
    return out


def _put_key(out: dict[str, str], key: str, messages: bool) -> None:
    if messages:
        out["x-api-key"] = key
    else:
        out["authorization"] = f"Bearer {key}"


def _own_key(out: dict[str, str], headers: Mapping[str, str], messages: bool, same_dialect: bool) -> None:
    """The client's own key in the upstream's form; without one the upstream itself may refuse.

    A Bearer token from a Messages client to a Messages upstream stays one: access tokens are refused as `x-api-key`.
    """
    key = inbound_key(headers)
    if key is None:
        return
    if not _SENDABLE.match(key):
        raise ClientRequestError("", "the API key has characters that a header cannot carry")
    bearer = not messages or (same_dialect and not _values(headers, "x-api-key"))
    _put_key(out, key, not bearer)


def _forward(out: dict[str, str], headers: Mapping[str, str], name: str) -> None:
    """A client's header as it came; several lines of it (lists, as `anthropic-beta`) become one."""
    if values := _values(headers, name):
        value = ",".join(values)
        if not _SENDABLE.match(value):
            raise ClientRequestError("", f"the header {name} has characters that a header cannot carry")
        out[name] = value

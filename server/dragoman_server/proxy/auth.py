"""Authentication: the key that a client presents, and the headers with a key that go upstream (mapping §12.1).

Only headers of an allow-list go upstream, which excludes cookies, `x-stainless-*`, hop-by-hop headers and the client's
keys. No error message contains a key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dragoman import ClientRequestError, Dialect, DragomanError
from dragoman.errors import FailureKind
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.accounts.keys.secret import PREFIX, id_of
from dragoman_server.config.provider import Auth, Provider
from dragoman_server.config.schema import Config
from dragoman_server.observability.exchange_record import Principal
from dragoman_server.proxy.error_response import client_failure

if TYPE_CHECKING:
    from dragoman_server.accounts.accounts import Accounts

_SENDABLE = re.compile(r"[\t\x20-\x7e]+\Z")


def _values(headers: Mapping[str, str], name: str) -> list[str]:
    """Return the values of a header that are not empty, from a multidict, or from a dict with names in any case."""
    getall = getattr(headers, "getall", None)
    if getall is not None:
        found = getall(name, None)
        if found is None:
            return []
    else:
        found = [value for key, value in headers.items() if key.lower() == name]
    return [text for value in found if (text := value.strip())]


def _bearer(headers: Mapping[str, str]) -> str | None:
    for value in _values(headers, "authorization"):
        scheme, _, token = value.partition(" ")
        if scheme.lower() == "bearer" and (token := token.strip()):
            return token
    return None


def inbound_key(headers: Mapping[str, str]) -> str | None:
    """Return the key that a client presents: `x-api-key`, else `Authorization: Bearer`, in every dialect."""
    first = headers.get("x-api-key")
    if first is not None and (key := first.strip()):
        return key
    keys = _values(headers, "x-api-key")  # of several headers, the first may be empty
    return keys[0] if keys else _bearer(headers)


def check_inbound(config: Config, headers: Mapping[str, str]) -> bytes:
    """Return the digest of the client's key, or b"" if no keys are configured. Only `server.keys` are compared.

    Raises `DragomanError` (401) if keys are configured and the client presents none of them.
    """
    keys = config.server.keys
    if not config.requires_key:
        return b""
    presented = inbound_key(headers)
    if presented is None:
        raise _unauthorized("no API key: send it as x-api-key or as Authorization: Bearer")
    # aiohttp decodes headers with surrogateescape, so they may have any bytes. Digests are of equal length and all of
    # them are compared, so the time taken reveals neither a part of a key nor its place in the list.
    digest = sha256(presented.encode("utf-8", "surrogateescape")).digest()
    found = False
    for key in keys:
        found |= compare_digest(key.digest, digest)
    if not found:
        raise _unauthorized("invalid API key")
    return digest


class Caller(NamedTuple):
    """The client of a request."""

    owner: bytes
    """The digest of its key or user, which separates clients; b"" if no keys are configured."""
    principal: Principal[Any] | None = None
    """The user that the hook `authorize` returned."""
    key: KeyRecord | None = None
    """The named key."""

    @property
    def admin(self) -> bool:
        """True for an admin's named key, a key of `server.keys`, a user of a hook with `admin`, and without keys."""
        if self.key is not None:
            return self.key.admin
        return self.principal is None or self.principal.admin

    def require_admin(self) -> None:
        """Raise DragomanError (403) for a named key that is not an admin's."""
        if self.key is not None and not self.key.admin:
            message = "this API key may not use this endpoint: it needs admin = true"
            raise DragomanError(client_failure(FailureKind.PERMISSION, message, 403, code="admin_required"))

    def require_model(self, model: str) -> None:
        """Raise DragomanError (403) if the client's key may not use a model."""
        check_model(self.key, model)


_tuple: Final = tuple.__new__
"""Makes a `Caller` of its three values with half the instructions of a call of the class."""
WITHOUT_KEY = Caller(b"")
"""Every client of a gateway without keys."""


def check_model(key: KeyRecord | None, model: str) -> None:
    """Raise DragomanError (403) if a named key may not use a model."""
    if key is not None and not key.permits(model):
        message = f"this API key may not use the model {model[:100]!a}"
        raise DragomanError(client_failure(FailureKind.PERMISSION, message, 403, code="model_not_permitted"))


def check_named(accounts: Accounts, config: Config, headers: Mapping[str, str], now: float) -> Caller:
    """Return the client of a gateway with named keys. Raises DragomanError (401, or 503 if keys cannot be read)."""
    presented = inbound_key(headers)
    if presented is not None and presented.startswith(PREFIX):
        record = accounts.find(presented)
        if record is not None:
            if record.expires is not None and record.expired(now):
                raise _unauthorized("the API key has expired")
            return _tuple(Caller, (record.hash.digest, None, record))
        if id_of(presented) is not None:
            raise _unauthorized("invalid API key")
    if presented is not None and not config.server.keys:
        raise _unauthorized("invalid API key")
    return Caller(check_inbound(config, headers))


def _unauthorized(message: str) -> DragomanError:
    return DragomanError(client_failure(FailureKind.AUTHENTICATION, message, 401, code="invalid_api_key"))


_SAME_DIALECT: Final[dict[Dialect, tuple[str, ...]]] = {
    Dialect.MESSAGES: ("anthropic-version", "anthropic-beta"),
    Dialect.CHAT: ("idempotency-key",),
    # Codex sends back the state of the turn that the upstream's last reply had, so that it stays on one machine.
    Dialect.RESPONSES: ("idempotency-key", "x-codex-turn-state"),
}
"""The client's headers that go with its body to an upstream of the same dialect."""


def outbound_headers(
    provider: Provider, client_headers: Mapping[str, str], *, same_dialect: bool = False
) -> dict[str, str]:
    """Return the credentials and vendor headers of a request to `provider`, with names in lower case.

    With `same_dialect` the body is the client's, so the client's headers that belong to the body are included. Raises
    `ClientRequestError` for a client's header that cannot be sent.
    """
    out: dict[str, str] = {}
    messages = provider.dialect is Dialect.MESSAGES
    if messages:
        out["anthropic-version"] = provider.profile.anthropic_version
    if same_dialect:
        # The fields of a beta stay in the body, and upstreams reject a body with them and without the header (T-44).
        for name in _SAME_DIALECT[provider.dialect]:
            _forward(out, client_headers, name)
    if provider.auth is Auth.PASSTHROUGH:
        _put_client_key(out, client_headers, messages, same_dialect)
        if same_dialect and not messages:
            # An organization belongs to a key: the client's would not match the gateway's own key.
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


def owner_at(provider: Provider, owner: bytes, headers: Mapping[str, str]) -> bytes:
    """Return what separates clients at a provider: `owner`, or without it the digest of the client's own key there.

    It is empty if the provider gets no key of clients.
    """
    if owner:
        return owner
    key = inbound_key(headers) if provider.auth is Auth.PASSTHROUGH else None
    return b"" if key is None else sha256(key.encode("utf-8", "surrogateescape")).digest()


def _put_client_key(out: dict[str, str], headers: Mapping[str, str], messages: bool, same_dialect: bool) -> None:
    """Add the client's own key in the upstream's form. Without a key, the upstream decides.

    A Bearer token from a Messages client to a Messages upstream stays one, as access tokens are not valid in
    `x-api-key`.
    """
    key = inbound_key(headers)
    if key is None:
        return
    if not _SENDABLE.match(key):
        raise ClientRequestError("", "the API key has characters that a header cannot carry")
    bearer = not messages or (same_dialect and not _values(headers, "x-api-key"))
    _put_key(out, key, not bearer)


def _forward(out: dict[str, str], headers: Mapping[str, str], name: str) -> None:
    """Add a client's header unchanged. Several lines of it (as of `anthropic-beta`) are joined."""
    if values := _values(headers, name):
        value = ",".join(values)
        if not _SENDABLE.match(value):
            raise ClientRequestError("", f"the header {name} has characters that a header cannot carry")
        out[name] = value


def owner_of(owner: bytes, key: KeyRecord | None) -> str:
    """Return whose responses a client sees: those of its key's name, so that a key can be replaced.

    A key without a name, and a user of the hook `authorize`, are known by their digest; `owner` is the digest. Without
    keys, all clients share their responses.
    """
    if key is not None:
        return owner_named(key.name)
    # A digest of the digest: what is in the file must not help to find a key.
    return f"digest:{sha256(b'owner of responses' + owner).hexdigest()[:32]}" if owner else ""


def owner_named(name: str) -> str:
    """Return the owner of the responses of a named key."""
    return f"key:{name}"

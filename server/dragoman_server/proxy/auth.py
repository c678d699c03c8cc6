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

from multidict import CIMultiDict, istr

from dragoman import ClientRequestError, DragomanError
from dragoman.errors import FailureKind
from dragoman_server.accounts.keys.record import KeyRecord
from dragoman_server.accounts.keys.secret import PREFIX, id_of
from dragoman_server.config.provider import Auth, Provider
from dragoman_server.config.schema import Config
from dragoman_server.credentials.credential import key_header
from dragoman_server.observability.exchange_record import Principal
from dragoman_server.proxy.betas import HEADER, betas_of, header_of
from dragoman_server.proxy.error_response import client_failure

if TYPE_CHECKING:
    from dragoman_server.accounts.known_keys import KnownKeys

GATEWAY_KEY: Final = "x-dragoman-key"
"""Header of the gateway's own key, for clients whose other headers have a login at a vendor."""
# A multidict would convert plain strings into this type at each look.
_KEY_HEADERS: Final = istr(GATEWAY_KEY), istr("x-api-key")
_AUTHORIZATION: Final = istr("authorization")
_OAUTH: Final = ("sk-ant-oat", "ya29.")
"""The beginnings of OAuth's tokens: of Anthropic, and of Google."""
_JWT: Final = re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]+\Z")
VERSION_FIELD: Final = "anthropic_version"
"""The field of a body that replaces the header of the version."""
_SENDABLE = re.compile(r"[\t\x20-\x7e]+\Z")


def _values(headers: Mapping[str, str], name: str) -> list[str]:
    """Return the values of a header that are not empty, from a multidict, or from a dict with names in any case."""
    getall = getattr(headers, "getall", None)
    if getall is not None:
        found = getall(name, ())
    else:
        found = [value for key, value in headers.items() if key.lower() == name]
    return [text for value in found if (text := value.strip())]


def _bearers(headers: Mapping[str, str]) -> list[str]:
    found = []
    for value in _values(headers, "authorization"):
        scheme, _, token = value.partition(" ")
        if scheme.lower() == "bearer" and (token := token.strip()):
            found.append(token)
    return found


def presented_keys(headers: Mapping[str, str]) -> list[str]:
    """Return all keys that a client presents: of `x-dragoman-key`, `x-api-key` and `Authorization: Bearer`."""
    found: Any = CIMultiDict(headers) if type(headers) is dict else headers
    keys: list[str] = []
    for name in _KEY_HEADERS:
        if name in found:
            keys += filter(None, map(str.strip, found.getall(name)))
    if _AUTHORIZATION in found:
        keys += _bearers(found)
    return keys


class OwnKeys:
    """The gateway's own keys, which are no logins at a vendor. They are never sent upstream."""

    def __init__(self, config: Config) -> None:
        self._digests = frozenset(key.digest for key in config.server.keys)

    def has(self, key: str) -> bool:
        """True for a key of `server.keys`, and for a text in the form of a named key."""
        return key.startswith(PREFIX) or digest_of(key) in self._digests


class Login(NamedTuple):
    """A client's own key or token at a vendor."""

    key: str
    bearer: bool
    """True if it came as `Authorization: Bearer`."""

    def __repr__(self) -> str:
        return "<Login ***>"

    @property
    def is_oauth(self) -> bool:
        """True for a token of OAuth, judged by its form: vendors do not accept it in place of an API key."""
        return self.bearer and (self.key.startswith(_OAUTH) or _JWT.match(self.key) is not None)


def client_login(headers: Mapping[str, str], own: OwnKeys | None) -> Login | None:
    """Return the client's login: `x-api-key`, else `Authorization: Bearer`, in every dialect.

    The gateway's `own` keys are no logins.
    """
    for key in _values(headers, "x-api-key"):
        if own is None or not own.has(key):
            return Login(key, False)
    for key in _bearers(headers):
        if own is None or not own.has(key):
            return Login(key, True)
    return None


def digest_of(key: str) -> bytes:
    """Return the digest by which keys are compared.

    aiohttp decodes headers with surrogateescape, so they may have any bytes.
    """
    return sha256(key.encode("utf-8", "surrogateescape")).digest()


def check_inbound(config: Config, headers: Mapping[str, str]) -> bytes:
    """Return the digest of the client's key, or b"" if no keys are configured. Only `server.keys` are compared.

    A valid key in any of the headers is accepted, whatever the others have: that may be a login at a vendor. Raises
    `DragomanError` (401) if keys are configured and the client presents none of them.
    """
    keys = config.server.keys
    if not config.requires_key:
        return b""
    presented = presented_keys(headers)
    if not presented:
        raise _unauthorized("no API key: send it as x-api-key or as Authorization: Bearer")
    for each in presented:
        # Digests are of equal length and all keys are compared, so the time taken reveals neither a part of a key nor
        # its place in the list.
        digest = digest_of(each)
        found = False
        for key in keys:
            found |= compare_digest(key.digest, digest)
        if found:
            return digest
    raise _unauthorized("invalid API key")


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


def check_named(keys: KnownKeys, config: Config, headers: Mapping[str, str]) -> Caller:
    """Return the client of a gateway with named keys. Raises DragomanError (401, or 503 if keys cannot be read)."""
    refusal = ""
    presented = presented_keys(headers)
    for key in presented:
        if not key.startswith(PREFIX):
            continue
        record = keys.find(key)
        if record is None:
            refusal = refusal or ("invalid API key" if id_of(key) is not None else "")
        elif record.expires is not None and record.expired(keys.now()):
            refusal = "the API key has expired"
        else:
            return _tuple(Caller, (record.hash.digest, None, record))
    if config.server.keys:
        try:
            return Caller(check_inbound(config, headers))
        except DragomanError:
            if not refusal:
                raise
    if refusal or presented:
        raise _unauthorized(refusal or "invalid API key")
    return Caller(check_inbound(config, headers))


def _unauthorized(message: str) -> DragomanError:
    return DragomanError(client_failure(FailureKind.AUTHENTICATION, message, 401, code="invalid_api_key"))


def outbound_headers(
    provider: Provider,
    client_headers: Mapping[str, str],
    *,
    same_dialect: bool = False,
    same_body: bool | None = None,
    own: OwnKeys | None = None,
) -> dict[str, str]:
    """Return the credentials and vendor headers of a request to `provider`, with names in lower case.

    With `same_dialect` the client has the provider's dialect: the headers that the provider forwards are included.
    With `same_body` (by default the same) the body is the client's, so the client's headers that belong to the body
    are included. `own` are the gateway's keys, if it has any. Raises `ClientRequestError` for a client's header that
    cannot be sent.
    """
    out: dict[str, str] = {}
    facts = provider.dialect.facts
    if version := facts.version_header:
        out[version] = provider.profile.anthropic_version
    if same_dialect if same_body is None else same_body:
        # The fields of a beta stay in the body, and upstreams reject a body with them and without the header (T-44).
        for name in facts.body_headers:
            _forward(out, client_headers, name)
        if HEADER in out and provider.changes_requests:
            out[HEADER] = header_of(provider, betas_of(provider, client_headers))
            if not out[HEADER]:
                del out[HEADER]
    if version and VERSION_FIELD in provider.door.body:
        out.pop(version)
    if same_dialect:
        for name in provider.door.forward_headers:
            _forward(out, client_headers, name.lower())
    if provider.auth is Auth.PASSTHROUGH:
        _put_login(out, provider, client_login(client_headers, own), same_dialect)
        if same_dialect:
            # An organization belongs to a key: the client's would not match the gateway's own key.
            for name in facts.key_headers:
                _forward(out, client_headers, name)
    elif provider.api_key is not None:
        out |= key_header(provider.key_header, provider.api_key.reveal())
    for name, value in provider.headers.items():
        out[name.lower()] = value
    return out


def owner_at(provider: Provider, owner: bytes, headers: Mapping[str, str]) -> bytes:
    """Return what separates clients at a provider: `owner`, or without it the digest of the client's own key there.

    It is empty if the provider gets no key of clients.
    """
    if owner or provider.auth is not Auth.PASSTHROUGH:
        return owner
    login = client_login(headers, None)
    return b"" if login is None else digest_of(login.key)


def _put_login(out: dict[str, str], provider: Provider, login: Login | None, same_dialect: bool) -> None:
    """Add the client's own key in the upstream's form. Without a key, the upstream decides.

    A Bearer token from a Messages client to a Messages upstream stays one, and so does a token of OAuth everywhere, as
    access tokens are not valid in `x-api-key`.
    """
    if login is None:
        return
    if not _SENDABLE.match(login.key):
        raise ClientRequestError("", "the API key has characters that a header cannot carry")
    word = provider.key_header
    if provider.door.auth_header is None and login.bearer and (same_dialect or login.is_oauth):
        word = "bearer"
    out |= key_header(word, login.key)


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

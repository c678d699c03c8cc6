"""A configured upstream: its base URL, dialect, key and profile."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from hashlib import sha256
from hmac import compare_digest
from urllib.parse import urlsplit

from dragoman import Dialect, Profile, builtin_profile
from dragoman.gateway import PROFILE_FIELDS, path_with, short_repr
from dragoman_server.accounts.keys.tag import TAG_HEADER
from dragoman_server.accounts.usage.price import Price
from dragoman_server.config.config_error import Problem, join
from dragoman_server.config.credential_options import AWS, AZURE, GOOGLE, CredentialOptions
from dragoman_server.config.door import PLAIN, Door, credential_header
from dragoman_server.config.forwarded_endpoints import FORWARDED, GROUPS, default_groups
from dragoman_server.config.hints import DIALECTS
from dragoman_server.config.host_doors import WITHOUT_VERSION, base_url_problem, host_door
from dragoman_server.config.host_profiles import default_profile
from dragoman_server.config.setting import Above, Each, Range, Words, described, setting, setting_problems
from dragoman_server.config.shown_url import shown_url
from dragoman_server.config.value_problems import value_problem

_ENDPOINTS = tuple(f"/{path}" for path in (*(dialect.path for dialect in Dialect), "models", *FORWARDED))
_FRAMING = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_NAME = re.compile(r"[A-Za-z0-9._-]+\Z")
_VALUE = re.compile(r"[\t\x20-\x7e]*\Z")
_KEYS_MAX = 64
"""Most keys of one provider."""


class Secret:
    """A key that prints as `***`. Keys are compared by `digest`, in constant time (mapping §12.1)."""

    __slots__ = ("_value", "digest")

    def __init__(self, value: str) -> None:
        self._value = value
        self.digest = sha256(value.encode("utf-8", "surrogateescape")).digest()

    def reveal(self) -> str:
        """Return the key itself. Only for the outbound header."""
        return self._value

    def __repr__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and compare_digest(self.digest, other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)


class Auth(StrEnum):
    """Source of the key that is sent upstream: the configuration, or the client's request."""

    CONFIGURED = "configured"
    PASSTHROUGH = "passthrough"


@dataclass(frozen=True)
class Provider:
    """An upstream.

    Without a `profile`, the host selects one. A profile without a `family` gets the provider's name as its family:
    encrypted reasoning of this upstream returns to it only. `profile_name` is for display; it is never looked up.
    """

    name: str
    dialect: Dialect = field(metadata=described(Words(Dialect, hints=DIALECTS), required=True))
    """API of the upstream: Chat Completions, Anthropic's Messages, or OpenAI's Responses."""
    base_url: str = field(metadata=described(getter="text", required=True))
    """Base URL as the vendor's SDK takes it: https://api.openai.com/v1."""
    api_key: Secret | None = setting(None, getter="bare_secret")
    """Key that is sent upstream."""
    auth: Auth = setting(Auth.CONFIGURED, Words(Auth))
    """configured: send api_key. passthrough: send the key of the client."""
    profile: Profile = None  # type: ignore[assignment]  # set below: the default depends on the other fields
    """Abilities of the upstream; without it the host decides."""
    # No hash: mappings are not hashable, but a provider must be.
    headers: Mapping[str, str] = setting(dict, getter="named_secrets", hashed=False)
    """Additional headers for every request."""
    profile_name: str = ""
    api_keys: tuple[Secret, ...] = setting((), getter="texts", secret=True)
    """Several keys in place of api_key, which share the requests. The first one is the api_key."""
    concurrent: int = setting(0, Range())
    """Requests at the provider at once, of all processes that share a store, else per worker; 0 = no limit."""
    queue: int = setting(0, Range())
    """Requests that wait for a place beyond concurrent."""
    queue_seconds: float = setting(10.0, Above("seconds"))
    """Longest wait in this queue, in seconds."""
    endpoints: tuple[str, ...] | None = setting(None, Each(Words(GROUPS, "endpoint")))
    """Endpoints that are forwarded to it, such as embeddings; else its dialect decides."""
    prices: Mapping[str, Price] = setting(dict, getter="sections", kind=Price, hashed=False)
    """Prices of this provider's models, which come before those for all providers."""
    state: str = setting("upstream", Words(("upstream", "gateway")))
    """Responses upstreams: where responses are stored, by the upstream itself or by the gateway."""
    background: bool = setting(False)
    """Responses upstreams with background responses of their own: runs are begun as such there, and stored there, so
    that another process attaches to one that has lost its own."""
    credential: CredentialOptions | None = setting(None, getter="optional_section", kind=CredentialOptions)
    """A credential that expires and is renewed, in place of api_key."""
    door: Door = PLAIN
    """Its addressing, whose settings are keys of the provider's table."""

    def __repr__(self) -> str:
        return short_repr(self, self.name, self.dialect, shown_url(self.base_url))

    def __post_init__(self) -> None:
        fill = object.__setattr__
        fill(self, "dialect", Dialect(self.dialect))
        fill(self, "auth", Auth(self.auth))
        key: object = self.api_key
        if isinstance(key, str):  # a plain string from an embedding application must not print as a key in a log
            fill(self, "api_key", Secret(key))
        given: tuple[object, ...] = self.api_keys
        fill(self, "api_keys", tuple(Secret(each) if isinstance(each, str) else each for each in given))
        if self.api_keys and self.api_key is None:
            fill(self, "api_key", self.api_keys[0])
        profile: Profile | None = self.profile
        if profile is None:
            fill(self, "profile_name", default_profile(self.dialect, self.base_url))
            fill(self, "profile", builtin_profile(self.dialect, self.profile_name))
        if not self.profile.family:
            fill(self, "profile", replace(self.profile, family=self.name))
        if (host := host_door(self.dialect, self.base_url)) is not None:
            signed = self.credential is not None and self.credential.kind == AWS
            word = "" if signed else host.key if self.credential is None else host.token
            fill(self, "door", self.door.with_defaults({**host.settings, "auth_header": word}))

    def variants(self) -> list[tuple[str, Provider]]:
        """Return a name for each of several keys, and the provider with this key only; empty if there is one key."""
        if len(self.api_keys) < 2:
            return []
        return [(_key_name(key), replace(self, api_key=key, api_keys=())) for key in self.api_keys]

    @cached_property
    def own_key(self) -> str:
        """The name if requests carry a key of the configuration; empty if they carry the client's."""
        if self.auth is not Auth.CONFIGURED:
            return ""
        return self.name if self.credential is None else f"{self.name} ({self.credential_setting})"

    @property
    def has_key(self) -> bool:
        """True if requests carry a key or a credential of the configuration."""
        return self.api_key is not None or self.credential is not None

    @property
    def credential_setting(self) -> str:
        """The path of the table of its credential in the configuration."""
        return join(join("providers", self.name), "credential")

    @cached_property
    def key_header(self) -> str:
        """The header of its key, a word of `AUTH_HEADERS`."""
        if self.door.auth_header is not None:
            return self.door.auth_header
        if self.credential is not None and self.credential.kind in (GOOGLE, AZURE):
            return "bearer"
        return self.dialect.facts.key_header

    @cached_property
    def changes_requests(self) -> bool:
        """True if bodies get fields or lose some, or if betas of clients are changed."""
        door = self.door
        return door.changes_body or (self.dialect.facts.betas and bool(door.betas or self.profile.betas))

    @cached_property
    def has_own_way(self) -> bool:
        """True if its requests are sent by a proxy of its own, or get a credential when they are sent."""
        return self.credential is not None or bool(self.door.proxy)

    def address(self) -> str:
        """Return `host:port` of the upstream, for logs."""
        try:
            parts = urlsplit(self.base_url)
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:
            return "an invalid base URL"
        host = parts.hostname or ""
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def endpoint(self, path: str, query: str = "") -> str:
        """Return the full URL of an endpoint such as `chat/completions`, `messages` or `models`.

        OpenAI's SDKs expect `/v1` in the base URL, Anthropic's adds it; each form is accepted for each dialect. An
        OpenAI base with another path (`/v1beta/openai`, `/api/paas/v4`) is used unchanged. The query of the base URL
        is kept, and `query` (without `?`) is appended to it.
        """
        return self._below(path if self._is_versioned else f"{self.dialect.facts.version}/{path.lstrip('/')}", query)

    @cached_property
    def _is_versioned(self) -> bool:
        """True if the base URL has all that comes before an endpoint's path."""
        base = self.base_url.partition("?")[0].rstrip("/").partition("://")[2]
        if not self.dialect.facts.version_in_base:
            facts = self.dialect.facts
            return base.endswith(tuple(f"/{end}" for end in (facts.version, *facts.base_ends)))
        return "/" in base or base in WITHOUT_VERSION

    def main_endpoint(self, model: str, *, stream: bool, query: str = "") -> str:
        """Return the full URL of the endpoint of its dialect, for a model. Raises ClientRequestError.

        `query` belongs to the dialect's own path, so a path of the configuration does not get it.
        """
        if path := self.door.path_of(model, stream=stream):
            return self._below(path, "")
        facts = self.dialect.facts
        if query or not facts.names_target:
            return self.endpoint(facts.target(model, stream=stream).path, query)
        return self._dialect_endpoint

    @cached_property
    def _dialect_endpoint(self) -> str:
        """The full URL of the endpoint of its dialect, to which nearly all requests go."""
        return self.endpoint(self.dialect.path)

    def count_endpoint(self, path: str, model: str, query: str = "") -> str | None:
        """Return the full URL of the endpoint that counts tokens, None if it is not known. Raises ClientRequestError.

        `path` is that of the dialect.
        """
        if own := self.door.count_path_of(model):
            return self._below(own, "")
        return None if self.door.path else self.endpoint(path_with(model, path), query)

    def _below(self, path: str, query: str) -> str:
        """Return the URL of a path below the base URL. The queries of both are kept."""
        base, _, own = self.base_url.partition("?")
        path, _, fixed = path.partition("?")
        queries = "&".join(filter(None, (own, fixed, query)))
        return f"{base.rstrip('/')}/{path.lstrip('/')}{'?' if queries else ''}{queries}"

    def serves(self, group: str) -> bool:
        """True if requests to the forwarded endpoints of a group may be sent to it."""
        return group in (default_groups(self.dialect) if self.endpoints is None else self.endpoints)

    def problems(self, at: str) -> Iterator[Problem]:
        """Yield the problems of this provider; `at` is its path in the configuration."""
        if not _NAME.match(self.name):
            yield at, "a provider's name may have only letters, digits, '.', '_' and '-'"
        wrong = _url_problem(self.base_url)
        if not wrong and not self.door.path:
            wrong = base_url_problem(self.dialect, self.base_url)
        if wrong:
            yield f"{at}.base_url", f'{wrong}; got "{shown_url(self.base_url)}"'
        if self.api_key and not _VALUE.match(self.api_key.reveal()):
            yield f"{at}.api_key", "has characters that are not allowed in a header (perhaps a line break)"
        if self.api_key and self.auth is Auth.PASSTHROUGH:
            yield f"{at}.api_key", 'is never sent with auth = "passthrough": remove one of the two'
        yield from self._key_and_limit_problems(at)
        yield from self._credential_problems(at)
        if self.background and not self.dialect.facts.stored:
            yield f"{at}.background", f"needs an upstream of the Responses API, and this one is {self.dialect}"
        if self.background and self.auth is Auth.PASSTHROUGH:
            yield f"{at}.background", "needs a key of the configuration: no other process has the keys of clients"
        yield from self.door.problems(at, self.dialect)
        for index, name in enumerate(self.door.forward_headers):
            if not _TOKEN.match(name):
                yield f"{at}.forward_headers[{index}]", f"{name!r} is not a header name"
            elif name.lower() in _FRAMING:
                yield f"{at}.forward_headers[{index}]", "is set by the HTTP connection itself"
            elif credential_header(name):
                yield f"{at}.forward_headers[{index}]", 'holds a client\'s key: use auth = "passthrough"'
            elif name.lower() == TAG_HEADER:
                yield f"{at}.forward_headers[{index}]", "is for the usage of this gateway, and is never forwarded"
        for name, value in self.headers.items():
            if not _TOKEN.match(name):
                yield f"{at}.headers", f"{name!r} is not a header name"
            elif name.lower() in _FRAMING:
                yield join(f"{at}.headers", name), "is set by the HTTP connection itself"
            elif not _VALUE.match(value):
                yield join(f"{at}.headers", name), "has characters that are not allowed in a header"
        yield from setting_problems(at, self)
        for pattern, price in self.prices.items():
            yield from price.problems(join(f"{at}.prices", pattern))
        for flag, spec in PROFILE_FIELDS.items():
            if wrong := value_problem(spec, getattr(self.profile, flag)):
                yield f"{at}.profile_flags.{flag}", wrong

    def _credential_problems(self, at: str) -> Iterator[Problem]:
        if self.credential is None:
            return
        here = f"{at}.credential"
        yield from self.credential.problems(here, self.base_url)
        if self.api_key is not None:
            yield f"{at}.api_key", "is never sent with a credential: remove one of the two"
        if self.auth is Auth.PASSTHROUGH:
            yield here, 'is never sent with auth = "passthrough": remove one of the two'
        if self.credential.kind == AWS and self.door.auth_header is not None:
            yield f"{at}.auth_header", "has no effect on requests that are signed"

    def _key_and_limit_problems(self, at: str) -> Iterator[Problem]:
        for index, key in enumerate(self.api_keys):
            if not key.reveal() or not _VALUE.match(key.reveal()):
                yield f"{at}.api_keys[{index}]", "is empty, or has characters that are not allowed in a header"
            elif key in self.api_keys[:index]:
                yield f"{at}.api_keys[{index}]", "is the same as an earlier key"
        if self.api_keys and self.auth is Auth.PASSTHROUGH:
            yield f"{at}.api_keys", 'are never sent with auth = "passthrough": remove one of the two'
        if len(self.api_keys) > _KEYS_MAX:
            yield f"{at}.api_keys", f"has {len(self.api_keys)} keys; the most are {_KEYS_MAX}"
        if self.queue > 0 and not self.concurrent:
            yield f"{at}.queue", "needs concurrent: without it no request has to wait"


def _key_name(key: Secret) -> str:
    """Return a name for a key that does not reveal it: four bytes of a digest of its digest."""
    return sha256(b"dragoman key name" + key.digest).hexdigest()[:8]


def _url_problem(url: str) -> str | None:
    if not url.isascii() or not url.isprintable() or " " in url:
        return "has characters that are not allowed in a URL"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        # The parser's message quotes the URL, which may hold a password.
        return f"is not a URL ({error})" if "@" not in url else "is not a URL"
    if parts.scheme not in ("http", "https") or not host:
        return "expected a URL like https://host/v1"
    if "@" in parts.netloc:
        return "contains a user or password; use api_key or headers"
    if parts.fragment:
        return "contains a fragment (#...)"
    for ending in _ENDPOINTS:
        if parts.path.rstrip("/").endswith(ending):
            return f"expected the base URL, without {ending}"
    return None

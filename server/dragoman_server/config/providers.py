"""An upstream as configured: where it is, what it speaks, and whose key it gets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from hmac import compare_digest
from urllib.parse import urlsplit

from dragoman.dialects import Dialect
from dragoman.profiles.profile import PROFILE_FIELDS, Profile, builtin_profile
from dragoman_server.config.host_profiles import default_profile
from dragoman_server.config.shown_url import shown_url
from dragoman_server.config.toml_reader import Problem, join, value_problem

VENDOR_URL = {
    Dialect.CHAT: "https://api.openai.com/v1",
    Dialect.MESSAGES: "https://api.anthropic.com",
    Dialect.RESPONSES: "https://api.openai.com/v1",
}
_ENDPOINTS = ("/chat/completions", "/messages", "/responses", "/models")
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


class Secret:
    """A key that shows as `***` wherever it is printed. `digest` is what comparisons use (mapping §12.1)."""

    __slots__ = ("_value", "digest")

    def __init__(self, value: str) -> None:
        self._value = value
        self.digest = sha256(value.encode("utf-8", "surrogateescape")).digest()

    def reveal(self) -> str:
        """The key itself: for the outbound header and for nothing else."""
        return self._value

    def __repr__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and compare_digest(self.digest, other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)


class Auth(StrEnum):
    """Whose key goes upstream."""

    CONFIGURED = "configured"
    PASSTHROUGH = "passthrough"


@dataclass(frozen=True, slots=True)
class Provider:
    """An upstream. `base_url` is as the vendor's own SDK takes it; without a `profile` the host decides.

    A profile that names no `family` gets the provider's name: what this upstream sealed returns to it only.
    `profile_name` is only told, never looked up: the profile's own where the host decided, else the caller's word.
    """

    name: str
    dialect: Dialect
    base_url: str
    api_key: Secret | None = None
    auth: Auth = Auth.CONFIGURED
    profile: Profile = None  # type: ignore[assignment]  # filled below: the default hangs on the other fields
    # No repr: an extra header may well be a key. No hash: a provider may be a dict's key although mappings may not.
    headers: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    profile_name: str = ""

    def __post_init__(self) -> None:
        fill = object.__setattr__
        fill(self, "dialect", Dialect(self.dialect))
        fill(self, "auth", Auth(self.auth))
        key: object = self.api_key
        if isinstance(key, str):  # an embedder's slip must not end as a key in a log
            fill(self, "api_key", Secret(key))
        if self.profile is None:
            fill(self, "profile_name", default_profile(self.dialect, self.base_url))
            fill(self, "profile", builtin_profile(self.dialect, self.profile_name))
        if not self.profile.family:
            fill(self, "profile", replace(self.profile, family=self.name))

    def address(self) -> str:
        """`host:port` of the upstream, for logs."""
        try:
            parts = urlsplit(self.base_url)
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:
            return "an invalid base URL"
        host = parts.hostname or ""
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def endpoint(self, path: str, query: str = "") -> str:
        """The full URL of `chat/completions`, `messages`, `responses`, `models` and what is below them.

        OpenAI SDKs take the `/v1` with the base, Anthropic's adds it; a base in the other's form is understood too.
        An OpenAI base with a path of its own (`/v1beta/openai`, `/api/paas/v4`) is taken as it is. The base's
        own query is kept, and `query` (without `?`) is added to it.
        """
        base, _, own = self.base_url.partition("?")
        queries = "&".join(filter(None, (own, query)))
        base = base.rstrip("/")
        if self.dialect is Dialect.MESSAGES:
            versioned = base.endswith("/v1")
        else:
            versioned = "/" in base.partition("://")[2]
        return f"{base}{'' if versioned else '/v1'}/{path.lstrip('/')}{'?' if queries else ''}{queries}"

    def problems(self, at: str) -> Iterator[Problem]:
        """What is wrong with this provider; `at` is its path in the configuration."""
        if not _NAME.match(self.name):
            yield at, "a provider's name has letters, digits, '.', '_' and '-' only"
        if wrong := _url_problem(self.base_url):
            yield f"{at}.base_url", f'{wrong}; got "{shown_url(self.base_url)}"'
        if self.api_key and not _VALUE.match(self.api_key.reveal()):
            yield f"{at}.api_key", "has characters that a header cannot carry (a line end, perhaps)"
        if self.api_key and self.auth is Auth.PASSTHROUGH:
            yield f"{at}.api_key", 'is never sent with auth = "passthrough": remove one of the two'
        for name, value in self.headers.items():
            if not _TOKEN.match(name):
                yield f"{at}.headers", f"{name!r} is not a header name"
            elif name.lower() in _FRAMING:
                yield join(f"{at}.headers", name), "is set by the connection itself"
            elif not _VALUE.match(value):
                yield join(f"{at}.headers", name), "has characters that a header cannot carry"
        for flag, spec in PROFILE_FIELDS.items():
            if wrong := value_problem(spec, getattr(self.profile, flag)):
                yield f"{at}.profile_flags.{flag}", wrong


def _url_problem(url: str) -> str | None:
    if not url.isascii() or not url.isprintable() or " " in url:
        return "has characters that a URL cannot carry"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        # The parser's own words quote the URL, which may hold a password.
        return f"is not a URL ({error})" if "@" not in url else "is not a URL"
    if parts.scheme not in ("http", "https") or not host:
        return "expected a URL like https://host/v1"
    if "@" in parts.netloc:
        return "holds a user or password; use api_key or headers"
    if parts.fragment:
        return "holds a fragment (#...)"
    for ending in _ENDPOINTS:
        if parts.path.rstrip("/").endswith(ending):
            return f"expected the base URL, without {ending}"
    return None

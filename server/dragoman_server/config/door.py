"""Addressing of a provider that differs from that of its dialect's vendor: URL, headers, fields of the body, proxy."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from string import Formatter
from typing import Any
from urllib.parse import unquote, urlsplit

from dragoman import Dialect
from dragoman.gateway import changed_fields, path_with
from dragoman_server.config.config_error import Problem, join
from dragoman_server.config.setting import Words, setting, setting_problems
from dragoman_server.config.shown_url import shown_url

AUTH_HEADERS = ("bearer", "x-api-key", "api-key", "x-goog-api-key")
BETAS = ("header", "body", "both")
PROXY_SCHEMES = ("http", "socks5", "socks5h")
_CREDENTIALS = frozenset(
    ("api-key", "authorization", "cookie", "proxy-authorization", "x-api-key", "x-dragoman-key", "x-goog-api-key")
)
"""Headers that hold a client's credential. They are sent with `auth = "passthrough"` only."""
_PROXY_TEXT = 255
"""Most bytes of the user and of the password of a proxy (RFC 1929)."""
_PATH = re.compile(r"[!-~]*")
_MODEL = "model"
_ADDRESS = frozenset(("path", "stream_path", "count_path", "omit"))
"""Settings that belong to a path: a field that is left out may be in it."""


@dataclass(frozen=True)
class Door:
    """The addressing of a provider. Its settings are keys of the provider's own table."""

    __repr__ = changed_fields

    auth_header: str | None = setting(None, Words(AUTH_HEADERS, "header"))
    """Header of the key (default: x-api-key for messages, else bearer, which is Authorization: Bearer)."""
    path: str = setting("")
    """Path below base_url of the dialect's own endpoint, with {model} for the upstream's model."""
    stream_path: str = setting("")
    """Path of streams (default: path)."""
    count_path: str = setting("")
    """Path of the endpoint that counts tokens. With path and without it, counts are estimates."""
    # No hash: mappings are not hashable, but a provider must be.
    body: Mapping[str, Any] = setting(dict, getter="json_object", hashed=False)
    """Top-level fields that every JSON body gets, such as anthropic_version."""
    omit: tuple[str, ...] = setting((), getter="texts")
    """Top-level fields that are left out of every JSON body. Each that a request had is a loss."""
    forward_headers: tuple[str, ...] = setting((), getter="texts")
    """Headers of the client that are passed on if it has the provider's dialect, such as chatgpt-account-id."""
    betas: str | None = setting(None, Words(BETAS, "place"))
    """messages: where a client's betas are sent: in the header anthropic-beta, in the field anthropic_beta, or both."""
    proxy: str = setting("", getter="secret", shown=False)
    """Proxy to this provider: http://USER:PASSWORD@HOST:PORT (by CONNECT), or socks5://HOST:PORT."""

    def with_defaults(self, settings: Mapping[str, Any]) -> Door:
        """Return this door with the settings of its host.

        A setting of the door goes before that of the host; `body` and `omit` have the fields of both. With a path of
        its own, the door gets no paths of the host and no `omit`.
        """
        changed: dict[str, Any] = {}
        for name, value in settings.items():
            own = getattr(self, name)
            if self.path and name in _ADDRESS:
                continue
            if name == "body":
                changed[name] = {**value, **own}
            elif name == "omit":
                changed[name] = (*(each for each in value if each not in self.body and each not in own), *own)
            elif not own and value:
                changed[name] = value
        return replace(self, **changed) if changed else self

    @cached_property
    def changes_body(self) -> bool:
        """True if fields are added to bodies, or left out."""
        return bool(self.body or self.omit)

    @cached_property
    def values(self) -> dict[str, bytes]:
        """The fields of `body`, each as JSON."""
        return {
            name: json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
            for name, value in self.body.items()
        }

    def path_of(self, model: str, *, stream: bool) -> str:
        """Return the path of the dialect's own endpoint for a model. Raises ClientRequestError."""
        return path_with(model, self.stream_path if stream and self.stream_path else self.path)

    def count_path_of(self, model: str) -> str:
        """Return the path of the endpoint that counts tokens. Raises ClientRequestError."""
        return path_with(model, self.count_path)

    def has_model(self, path: str) -> bool:
        """True if a path has the name of the model."""
        return any(name == _MODEL for _, name, _, _ in Formatter().parse(path))

    def problems(self, at: str, dialect: Dialect) -> Iterator[Problem]:
        """Yield the problems of these settings of a provider; `at` is its path in the configuration."""
        yield from setting_problems(at, self)
        wrong_paths = False
        for name in ("path", "stream_path", "count_path"):
            if wrong := _template_problem(getattr(self, name)):
                wrong_paths = True
                yield f"{at}.{name}", wrong
        if self.stream_path and not self.path:
            yield f"{at}.stream_path", "needs path, which is for requests without a stream"
        elif self.stream_path and not wrong_paths and self.has_model(self.path) != self.has_model(self.stream_path):
            yield f"{at}.stream_path", "has {model} and path does not, or the reverse: write it in both or in none"
        if self.count_path and dialect.facts.count is None:
            yield f"{at}.count_path", f"has no effect: {dialect.facts.api} has no endpoint that counts tokens"
        if self.betas and not dialect.facts.betas:
            yield f"{at}.betas", "has no effect: only clients of Messages send betas to upstreams of Messages"
        for name in self.body:
            if name in self.omit:
                yield join(f"{at}.body", name), "is in omit as well: remove one of the two"
        for name in ("model", "stream"):
            if name in self.body:
                yield join(f"{at}.body", name), "is set by each request"
        for index, name in enumerate(self.omit):
            if not name:
                yield f"{at}.omit[{index}]", "is empty"
        if self.proxy and (wrong := _proxy_problem(self.proxy)):
            yield f"{at}.proxy", wrong


PLAIN = Door()
"""The door of a provider that is addressed as its dialect's vendor is."""


def credential_header(name: str) -> bool:
    """True for a header that holds a client's credential."""
    return name.lower() in _CREDENTIALS


def _template_problem(template: str) -> str | None:
    if not _PATH.fullmatch(template):
        return "has characters that are not allowed in a URL"
    try:
        fields = [(name, spec, form) for _, name, spec, form in Formatter().parse(template) if name is not None]
    except ValueError as error:
        return f"is no template ({error}); write {{model}} for the model"
    for name, spec, form in fields:
        if name != _MODEL or spec or form:
            return f"has the unknown field {{{name}}}; the only one is {{model}}"
    if "?" in template or "#" in template:
        return "has a query or a fragment: write the query in base_url"
    return None


def _proxy_problem(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "is not a URL"
    if parts.scheme not in PROXY_SCHEMES or not host or not port or parts.path.strip("/") or parts.query:
        schemes = " or ".join(f"{scheme}://HOST:PORT" for scheme in PROXY_SCHEMES)
        return f'expected {schemes}; got "{shown_url(url)}"'
    if any(len(unquote(text or "").encode()) > _PROXY_TEXT for text in (parts.username, parts.password)):
        return f"has a user or a password of more than {_PROXY_TEXT} bytes"
    return None

"""Masks credentials in headers, URLs and bodies of captures.

Headers keep their values only if their names are known to hold none. In bodies, known secrets and texts that look like
keys are overwritten with stars of the same number, so that no position changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from dragoman.gateway import redact
from dragoman.wire import json_dumps
from dragoman_server.config.shown_url import shown_url
from dragoman_server.observability.captures.overwrite import DIGITS, SECRET, overwrite, overwrite_view, view

MASK: Final = "***"
_PUBLIC: Final = frozenset(
    [
        "accept",
        "accept-encoding",
        "anthropic-beta",
        "anthropic-version",
        "cache-control",
        "cf-ray",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "date",
        "host",
        "openai-beta",
        "openai-model",
        "openai-processing-ms",
        "openai-version",
        "origin",
        "request-id",
        "retry-after",
        "retry-after-ms",
        "server",
        "traceparent",
        "transfer-encoding",
        "user-agent",
        "vary",
        "via",
        "x-accel-buffering",
        "x-dragoman-capture",
        "x-dragoman-loss",
        "x-dragoman-request-id",
        "x-dragoman-tag",
        "x-request-id",
        "x-should-retry",
    ]
)
_PUBLIC_STARTS: Final = (
    "anthropic-ratelimit-",
    "x-dragoman-knob-",
    "x-ratelimit-",
    "x-stainless-",
)
_LOOKS: Final = (
    # The vendors' key prefixes, tokens, and what follows the name of a credential; as in `dragoman.redact`.
    re.compile(rb"(?:sk|pk|rk|sess|xai|nvapi|pplx|fw|csk|gsk|hf|r8|ghp|gho|ghs|github_pat)[-_]([A-Za-z0-9_*.-]{6,})"),
    re.compile(rb"(?:AIza|AKIA|ASIA|ya29\.)([A-Za-z0-9_-]{12,})"),
    re.compile(rb"eyJ([\w-]{6,}\.[\w-]{4,}(?:\.[\w-]*)?)"),
    re.compile(rb"(?:Bearer|Basic)\s+((?=[^\s\d]{0,64}\d)[\w.~+/=*-]{6,}|[\w.~+/=*-]{20,})", re.IGNORECASE),
    re.compile(
        rb"(?:api[ _-]?key(?: provided)?|authorization|access[ _-]?token|password|secret)[\"'`]?\s*[:=]\s*[\"'`]?"
        rb"((?=[^\s\"'`,;\d]{0,64}\d)[^\s\"'`,;&{}\[\]]{6,})",
        re.IGNORECASE,
    ),
    re.compile(rb"[?&](?:key|token)=([^\s&\"'`]{6,})", re.IGNORECASE),
    re.compile(rb"://([^\s\"'`<>/?#@]{1,500})@"),
)
_NAMED: Final = re.compile(
    rb'(?:api[_-]?key|authorization|password|secret|access[_-]?token)[\w-]*"\s*:\s*"([^"\\]*(?:\\.[^"\\]*)*)',
    re.DOTALL | re.IGNORECASE,
)
"""The value of a member of JSON that is named like a credential."""
_FRAGMENT: Final = re.compile(
    rb'"(delta|text|content|partial_json|arguments|thinking|reasoning|reasoning_content|refusal)"\s*:\s*'
    rb'"([^"\\]*(?:\\.[^"\\]*)*)"',
    re.DOTALL,
)
"""A piece of a text in a stream."""
_CODE: Final = re.compile(rb"\\u[0-9a-fA-F]{4}")
_ESCAPE: Final = re.compile(rb"\\.", re.DOTALL)
_NUMBER: Final = re.compile(rb"-?[0-9][0-9.eE+-]*\Z")


def shown_headers(headers: Iterable[tuple[str, str]], secrets: Sequence[str]) -> list[list[str]]:
    """Return headers as pairs, with names in lower case. Values are masked unless the name is known to hold no key."""
    found = []
    for name, value in headers:
        lower = name.lower()
        public = lower in _PUBLIC or lower.startswith(_PUBLIC_STARTS)
        found.append([lower, redact(value, secrets) if public else MASK])
    return found


def header_of(headers: Iterable[Sequence[str]], name: str) -> str:
    """Return the value of a header of `shown_headers`, or an empty text."""
    return next((value for known, value in headers if known == name), "")


def shown_target(url: str, secrets: Sequence[str]) -> str:
    """Return a URL or a path, without user, password and the values of its query that may be secrets."""
    return redact(shown_url(url), secrets)


def mask_secrets(buffer: bytearray, secrets: Sequence[str]) -> set[int]:
    """Overwrite the secrets in a body, and texts that look like keys. It stays valid JSON, if it is.

    Return the lengths of the secrets that were found.
    """
    forms = _forms(secrets)
    places = list(_places(bytes(buffer), forms))
    for start, end in places:
        buffer[start:end] = b"*" * (end - start)
    _mask_fragments(buffer, forms)
    body = bytes(buffer)
    for found in _NAMED.finditer(body):
        overwrite(buffer, *found.span(1), SECRET)
    # Escapes become spaces of the same length: `\\n` before a key must not look like a part of it.
    plain = _ESCAPE.sub(b"  ", _CODE.sub(b"      ", body))
    for start, end in _looks(plain):
        number = _NUMBER.match(plain, start, end) is not None
        buffer[start:end] = buffer[start:end].translate(DIGITS) if number else b"*" * (end - start)
    return {end - start for start, end in places}


def _mask_fragments(buffer: bytearray, forms: Sequence[bytes]) -> None:
    """Overwrite keys in texts that a stream has in several pieces."""
    spans: dict[bytes, list[tuple[int, int]]] = {}
    if b"data:" in buffer:
        for found in _FRAGMENT.finditer(bytes(buffer)):
            spans.setdefault(found[1], []).append(found.span(2))
    for each in spans.values():
        seen = view(buffer, each)
        for start, end in (*_places(seen.text, forms), *_looks(seen.text)):
            overwrite_view(buffer, seen, start, end, SECRET)


def _places(text: bytes, forms: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each secret."""
    for form in forms:
        at = text.find(form)
        while at >= 0:
            yield at, at + len(form)
            at = text.find(form, at + len(form))


def _looks(text: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each text that looks like a key, without its prefix."""
    for pattern in _LOOKS:
        for found in pattern.finditer(text):
            if not text[max(0, found.start() - 1) : found.start()].isalnum():
                yield found.span(1)


def _forms(secrets: Sequence[str]) -> Sequence[bytes]:
    """Return the forms of secrets in bodies: as they are, and in a JSON string."""
    forms = {secret.encode("utf-8", "surrogateescape") for secret in secrets if not set(secret) & set('"\\')}
    for secret in secrets:
        try:
            forms.add(json_dumps(secret)[1:-1])
        except (TypeError, ValueError):
            continue  # it has bytes that are not UTF-8
    return sorted(forms, key=len, reverse=True)

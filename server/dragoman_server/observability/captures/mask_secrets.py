"""Masks credentials in headers, URLs and bodies of captures.

Headers keep their values only if their names are known to hold none. In bodies, known secrets and texts that look like
keys are overwritten with stars of the same number, so that no position changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from dragoman import json_dumps, redact
from dragoman_server.config.shown_url import shown_url
from dragoman_server.observability.captures.overwrite import SECRET, overwrite, overwrite_view, view

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
    re.compile(
        rb"(?<![A-Za-z0-9])(?:sk|pk|rk|sess|xai|nvapi|pplx|fw|csk|gsk|hf|r8|ghp|gho|ghs|github_pat)[-_]"
        rb"([A-Za-z0-9_*.-]{6,})"
    ),
    re.compile(rb"(?<![A-Za-z0-9])(?:AIza|AKIA|ASIA|ya29\.)([A-Za-z0-9_-]{12,})"),
    re.compile(rb"(?<![A-Za-z0-9])(eyJ[\w-]{6,}\.[\w-]{4,}(?:\.[\w-]*)?)"),
    re.compile(rb"\b(?:Bearer|Basic)\s+((?=[^\s\d]{0,64}\d)[\w.~+/=*-]{6,}|[\w.~+/=*-]{20,})", re.IGNORECASE),
    re.compile(
        rb"(?:api[ _-]?key(?: provided)?|authorization|access[ _-]?token|password|secret)[\"'`]?\s*[:=]\s*[\"'`]?"
        rb"((?=[^\s\"'`,;\d]{0,64}\d)[^\s\"'`,;&}]{6,})",
        re.IGNORECASE,
    ),
    re.compile(rb"[?&](?:key|token)=([^\s&\"'`]{6,})", re.IGNORECASE),
    re.compile(rb"[A-Za-z][A-Za-z0-9+.-]{0,15}://([^\s\"'`<>/?#@]+)@"),
)
_HINT: Final = re.compile(
    rb"@|[ksixwf8potg][-_]|aiza|akia|asia|ya29|eyj|bearer|basic|key|authorization|token|password|secret", re.IGNORECASE
)
_STRING: Final = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)(?:"|\\?\Z)', re.DOTALL)
_NAMED: Final = re.compile(
    rb'"[\w-]*(?:api[_-]?key|authorization|password|secret|access[_-]?token)[\w-]*"\s*:\s*"([^"\\]*(?:\\.[^"\\]*)*)',
    re.DOTALL | re.IGNORECASE,
)


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
    """Return a URL or a path, without user, password and values of its query."""
    return redact(shown_url(url), secrets)


def mask_secrets(buffer: bytearray, secrets: Sequence[str]) -> set[int]:
    """Overwrite the secrets in a body, and texts that look like keys. It stays valid JSON, if it is.

    Returns the lengths of the secrets that were found.
    """
    lengths = set()
    for form in _forms(secrets):
        at = buffer.find(form)
        while at >= 0:
            lengths.add(len(form))
            buffer[at : at + len(form)] = b"*" * len(form)
            at = buffer.find(form, at + len(form))
    if _HINT.search(buffer) is None:
        return lengths
    body = bytes(buffer)
    if body.lstrip()[:1] in (b"{", b"[") or b"data:" in body:
        for found in _NAMED.finditer(body):
            overwrite(buffer, *found.span(1), SECRET)
        for found in _STRING.finditer(body):
            if _HINT.search(found[1]) is not None:
                _mask_looks(buffer, *found.span(1))
    else:
        _mask_looks(buffer, 0, len(body))
    return lengths


def _mask_looks(buffer: bytearray, start: int, end: int) -> None:
    seen = view(buffer, ((start, end),))
    for pattern in _LOOKS:
        for found in pattern.finditer(seen.text):
            overwrite_view(buffer, seen, *found.span(1), SECRET)


def _forms(secrets: Sequence[str]) -> Iterable[bytes]:
    """Return the forms of secrets in bodies: as they are, and in a JSON string."""
    forms = {secret.encode("utf-8", "surrogateescape") for secret in secrets if not set(secret) & set('"\\')}
    for secret in secrets:
        try:
            forms.add(json_dumps(secret)[1:-1])
        except (TypeError, ValueError):
            continue  # it has bytes that are not UTF-8
    return sorted(forms, key=len, reverse=True)

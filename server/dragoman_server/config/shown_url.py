"""Redaction of URLs of the configuration, for display."""

from __future__ import annotations

import re

from dragoman.gateway import is_public_parameter, tidy

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_OPAQUE = re.compile(r"[^\s/.:@?#]{16,}|(?:sk|key|token)[-_]\S{8,}", re.IGNORECASE)
_VALUE = re.compile(r"=[^&]*")


def shown_url(url: str) -> str:
    """Return the URL on one line, with user, password, fragment and the values of its query replaced by `***`.

    Parameters that select the form of an API, such as `alt=sse`, stay.
    Accepts any text: the value may not be a URL, but a key in the wrong place.
    """
    if _OPAQUE.fullmatch(url):
        return "***"
    rest, hash_mark, _ = url.partition("#")
    base, query_mark, query = rest.partition("?")
    if "@" in base:  # the last @, as a password may contain one
        scheme = _SCHEME.match(base)
        base = f"{scheme[0] if scheme else ''}***@{base.rpartition('@')[2]}"
    if query_mark:
        # A query without `=` may as a whole be a key.
        base += f"?{'&'.join(map(_shown_parameter, query.split('&')))}" if "=" in query else "?***"
    if hash_mark:
        base += "#***"
    base = base if base.isprintable() else ascii(base)[1:-1]
    return tidy(base)  # a key in the path


def _shown_parameter(parameter: str) -> str:
    return parameter if is_public_parameter(parameter) else _VALUE.sub("=***", parameter)

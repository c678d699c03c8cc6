"""Requests the token counts of a stream on behalf of the caller, in the client's own bytes."""

from __future__ import annotations

import re
from typing import Final

from dragoman.canonical.request import Json
from dragoman.wire.json_edit import find_member

_OPTIONS: Final = frozenset({"include_usage", "include_obfuscation"})
_FLAT: Final = re.compile(rb"null|\{[^{}]*\}")
_REQUESTED: Final = b'{"include_usage":true}'


def request_usage(body: bytes, payload: Json) -> bytes | None:
    """Return the body of a request for a stream with `stream_options.include_usage` set (chat §7.1).

    Returns None if the client requested the counts itself, or has set options that could change their form. `payload`
    is the parsed body, which has no key twice.
    """
    options = payload.get("stream_options")
    if options is None:
        if "stream_options" not in payload:
            end = body.rindex(b"}")
            return b'%b,"stream_options":%b%b' % (body[:end], _REQUESTED, body[end:])
        wanted = _REQUESTED
    elif type(options) is not dict or options.get("include_usage") or not _OPTIONS.issuperset(options):
        return None
    else:
        padded = options.get("include_obfuscation")
        if padded is not None and type(padded) is not bool:
            return None
        wanted = _REQUESTED
        if padded is not None:
            wanted = b'{"include_usage":true,"include_obfuscation":%b}' % (b"true" if padded else b"false")
    start = find_member(body, "stream_options")
    found = _FLAT.match(body, start) if start is not None else None
    return body[: found.start()] + wanted + body[found.end() :] if found is not None else None

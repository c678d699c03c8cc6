"""Replace one string value inside JSON bytes and leave every other byte as it is.

Same-dialect traffic is forwarded untouched; where a route renamed the model, only that value is put back. A quote
inside a JSON string is always escaped, so a token scan finds the key itself and never a text that looks like it.
"""

from __future__ import annotations

import re

from .jsontext import dump_str

_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
Span = tuple[int, int]


def find_value(data: bytes, *path: str) -> Span | None:
    """Where the string value at `path` (object keys from the top) stands, quotes included; None if there is none."""
    wanted = [b'"' + key.encode() + b'"' for key in path]
    depth = 0
    matched = 0
    key: bytes | None = None
    fresh = True  # the next string at this depth is a key
    arrays: list[bool] = []
    for token in _TOKEN.finditer(data):
        text = token.group()
        first = text[:1]
        if first in b"{[":
            if first == b"{" and key is not None and matched == depth - 1 and key == wanted[matched] and depth:
                matched += 1
            arrays.append(first == b"[")
            depth += 1
            key, fresh = None, first == b"{"
        elif first in b"}]":
            depth -= 1
            if arrays:
                arrays.pop()
            matched = min(matched, max(depth - 1, 0))
            key, fresh = None, False
        elif first == b",":
            key, fresh = None, not (arrays and arrays[-1])
        elif first == b":":
            fresh = False
        elif fresh and first == b'"':
            key, fresh = text, False
        elif key is not None and depth == len(wanted) and matched == depth - 1 and key == wanted[matched]:
            return token.span() if first == b'"' else None
    return None


def put(data: bytes, span: Span, value: str) -> bytes:
    """`data` with the bytes of `span` replaced by `value` as a JSON string."""
    return data[: span[0]] + dump_str(value) + data[span[1] :]


class Renamer:
    """Puts one value back in every payload of a stream.

    What stands before the value is nearly always the same from chunk to chunk, so the scan is done once and its prefix
    remembered; a payload with another prefix is scanned again.
    """

    __slots__ = ("_after", "_before", "_needle", "_paths", "_value")

    def __init__(self, value: str, *paths: tuple[str, ...]) -> None:
        self._paths = paths
        self._value = value
        self._needle = b'"' + paths[0][-1].encode() + b'"'
        self._before = b""
        self._after = b""

    def apply(self, data: bytes) -> bytes:
        """`data` with the value at the first path that exists replaced."""
        if self._before and data.startswith(self._before):
            return self._after + data[len(self._before) :]
        if self._needle not in data:
            return data
        for path in self._paths:
            span = find_value(data, *path)
            if span is not None:
                self._before = data[: span[1]]
                self._after = put(self._before, span, self._value)
                return self._after + data[span[1] :]
        return data

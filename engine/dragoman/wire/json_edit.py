"""Replacement of string values inside JSON bytes, without changing any other byte.

Traffic within one dialect is forwarded unchanged; if a route renamed the model, only that value is replaced. A quote
inside a JSON string is always escaped, so a scan from string to string finds a key and never a text that looks like it.

Parsers disagree on which of two equal keys counts, and the value that is read must be the one that is forwarded:
`repeated_key` finds a key that occurs twice in a request; in replies the value of each is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple

import orjson

from dragoman.short_repr import short_repr
from dragoman.wire.json_codec import dump_str

_STRING: Final = rb'"(?:[^"\\]++|\\.)*+"'
_OPEN: Final = re.compile(rb"\s*\{")
_MEMBER: Final = re.compile(
    rb"[\s,]*+(" + _STRING + rb")\s*+:\s*+(" + _STRING + rb'|[^\s,:{}\[\]"]++|[{\[])', re.DOTALL
)
_BRACKET: Final = re.compile(rb'(?:[^"{}\[\]]++|' + _STRING + rb")*+[{}\[\]]", re.DOTALL)
_OPENING: Final = b"{["
_SPACE: Final = b" \t\r\n"
_BETWEEN: Final = _SPACE + b","
Span = tuple[int, int]


def find_values(data: bytes, *path: str) -> Iterator[Span]:
    """Yield the spans of the string values at `path` (object keys from the top), quotes included.

    There are several if a key is repeated. A key may be written with escapes.
    """
    opened = _OPEN.match(data)
    return iter(()) if opened is None else _within(data, opened.end(), path)


def _within(data: bytes, at: int, path: tuple[str, ...]) -> Iterator[Span]:
    """Yield the values at `path` in the object whose brace is before `at`."""
    name, *deeper = path
    for key, start, end in _members(data, at):
        if not _is(key, name):
            continue
        if deeper:
            if data[start] == _OPENING[0]:
                yield from _within(data, end, tuple(deeper))
        elif data[start : start + 1] == b'"':
            yield start, end


def _members(data: bytes, at: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield the members of the object whose brace is before `at`: each raw key, quotes included, and its value's span.

    The span of an array or object is its first byte. Ends where `data` is cut off or is not JSON.
    """
    while (member := _MEMBER.match(data, at)) is not None:
        start, at = member.span(2)
        yield member[1], start, at
        depth = int(data[start] in _OPENING)
        while depth:
            bracket = _BRACKET.match(data, at)
            if bracket is None:
                return
            at = bracket.end()
            depth += 1 if data[at - 1] in _OPENING else -1


def _is(key: bytes, name: str) -> bool:
    return _unescaped(key) == name if b"\\" in key else key[1:-1] == name.encode()


def _unescaped(key: bytes) -> str:
    try:
        name: str = orjson.loads(key)
    except ValueError:  # half a surrogate pair: not the name of any field that is read
        return key.decode(errors="replace")
    return name


def repeated_key(data: bytes, payload: object) -> str | None:
    """Return a key that occurs more than once at the top level of the JSON object `data`, with or without escapes.

    Return None if there is no such key. `payload` is the parsed `data`.
    """
    try:
        # Most clients serialize as orjson does: then no key was lost, and comparing costs a tenth of a scan.
        if orjson.dumps(payload) == data:
            return None
    except TypeError:
        pass
    opened = _OPEN.match(data)
    seen: set[str] = set()
    for key, _, _ in () if opened is None else _members(data, opened.end()):
        name = _unescaped(key)
        if name in seen:
            return name
        seen.add(name)
    return None


def find_member(data: bytes, name: str) -> int | None:
    """Return the first byte of the value of a key at the top level of the object `data`; None if it has no such key.

    If the key is repeated, it is that of the first.
    """
    opened = _OPEN.match(data)
    for key, start, _ in () if opened is None else _members(data, opened.end()):
        if _is(key, name):
            return start
    return None


def drop_null(data: bytes, name: str) -> bytes:
    """Return the object `data` without the member `name` at its top level, and its comma, if its value is null.

    It is returned unchanged if the key is repeated.
    """
    opened = _OPEN.match(data)
    found = [
        (key, start, end)
        for key, start, end in (() if opened is None else _members(data, opened.end()))
        if _is(key, name)
    ]
    if len(found) != 1:
        return data
    ((key, start, end),) = found
    if data[start:end] != b"null":
        return data
    before = data[: data.rindex(key, 0, start)].rstrip(_SPACE)
    if before.endswith(b","):
        return before[:-1] + data[end:]
    after = data[end:].lstrip(_SPACE)
    return data[: data.rindex(key, 0, start)] + after.removeprefix(b",").lstrip(_SPACE)


class EditedObject(NamedTuple):
    """An object after `edit_members`: its bytes, and the names of the members that it had and that were changed."""

    data: bytes
    omitted: list[str]
    replaced: list[str]
    """The members whose value had other bytes."""

    def __repr__(self) -> str:
        return short_repr(self, f"{len(self.data)} bytes")


def edit_members(data: bytes, values: Mapping[str, bytes], omit: Collection[str]) -> EditedObject:
    """Return the object `data` without the members `omit` at its top level, and with `values` as members.

    `values` are JSON. They replace members of the same name, or become the last ones. The bytes of all other members
    stay as they are, so a number keeps all its digits. `data` must be a complete object.
    """
    opened = _OPEN.match(data) if values or omit else None
    if opened is None:
        return EditedObject(data, [], [])
    found = [(key, data.rindex(key, 0, start), start) for key, start, _ in _members(data, opened.end())]
    stops = [*(at for _, at, _ in found[1:]), data.rindex(b"}")]
    missing, omitted, replaced, kept = dict(values), [], [], []
    for (key, at, start), stop in zip(found, stops, strict=False):
        name, member = _unescaped(key), data[at:stop].rstrip(_BETWEEN)
        if name in omit:
            omitted.append(name)
        elif name in values:
            missing.pop(name, None)
            if data[start:stop].rstrip(_BETWEEN) != values[name]:
                replaced.append(name)
            kept.append(key + b":" + values[name])
        else:
            kept.append(member)
    if not omitted and not replaced and not missing:
        return EditedObject(data, [], [])
    kept += [dump_str(name) + b":" + value for name, value in missing.items()]
    return EditedObject(b"{" + b",".join(kept) + b"}", omitted, replaced)


def put(data: bytes, spans: Iterable[Span], value: str) -> bytes:
    """Return `data` with the bytes of each span replaced by `value` as a JSON string."""
    literal, end = dump_str(value), 0
    pieces: list[bytes] = []
    for start, stop in spans:
        pieces += data[end:start], literal
        end = stop
    return b"".join([*pieces, data[end:]])


_ESCAPED: Final = b"\\u006"
"""Occurs in every key with escapes that is searched for, if it has a letter up to `o`."""


class JsonStringRewriter:
    """Replaces one string value in every payload of a stream, such as the name of the model.

    The bytes before the value are nearly always the same in all chunks, so they are kept from the last scan. A payload
    that begins with other bytes, or has the key again after them, is scanned.
    """

    __slots__ = ("_after", "_before", "_needle", "_paths", "_value")

    def __init__(self, value: str, *paths: tuple[str, ...]) -> None:
        self._paths = paths
        self._value = value
        self._needle = b'"' + paths[0][-1].encode() + b'"'
        self._before = b""
        self._after = b""

    def repeats(self, data: bytes) -> bool:
        """True if `data` holds more than one value to replace."""
        return any(len(list(islice(find_values(data, *path), 2))) > 1 for path in self._paths)

    def apply(self, data: bytes) -> bytes:
        """Return `data` with the values at the first path that exists replaced."""
        before = self._before
        if before and data.startswith(before):
            size = len(before)
            if data.find(self._needle, size) < 0 and data.find(_ESCAPED, size) < 0:
                return self._after + data[size:]
        if self._needle not in data and _ESCAPED not in data:
            return data
        for path in self._paths:
            spans = list(find_values(data, *path))
            if not spans:
                continue
            if len(spans) == 1:
                self._before = data[: spans[0][1]]
                self._after = put(self._before, spans, self._value)
            return put(data, spans, self._value)
        return data

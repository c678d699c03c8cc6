"""Overwrites strings of JSON in place, so that no length and no position in a body changes.

A character is replaced by one that takes as many bytes, an escape by one of the same form: a body stays valid JSON, and
its strings keep their lengths in bytes and in characters.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from typing import Final, NamedTuple

_UNIT: Final = re.compile(rb"\\u[0-9a-fA-F]{4}|\\.?|[^\\]+", re.DOTALL)
"""An escape, or a run of other bytes."""
_ESCAPE: Final = re.compile(rb"\\u[0-9a-fA-F]{4}|\\.?", re.DOTALL)
_CODE: Final = re.compile(rb"\\u([0-9a-fA-F]{4})")
_BACKSLASH: Final = 0x5C
_HIGH, _LOW = b"d83d", b"dd12"
"""The surrogate pair that replaces others."""
_SIMPLE = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}
DIGITS: Final = bytes.maketrans(b"023456789", b"1" * 9)
"""Replaces digits; a number stays one."""


class Filler(NamedTuple):
    """A character that replaces others: a table for bytes, and its code for escapes."""

    table: bytes
    code: bytes


def _filler(char: str) -> Filler:
    table = bytearray(range(256))
    for byte in range(0x20, 0x80):
        if byte not in b'"\\':
            table[byte] = ord(char)
    # The first byte of a character decides on its length; 9F may follow each of these.
    table[0x80:0xC0] = b"\x9f" * 0x40
    table[0xC0:0xE0] = b"\xc3" * 0x20
    table[0xE0:0xF0] = b"\xe2" * 0x10
    table[0xF0:0x100] = b"\xf0" * 0x10
    return Filler(bytes(table), b"%04x" % ord(char))


TEXT: Final = _filler("x")
STOP_SEQUENCE: Final = _filler("z")
"""Another one than that of texts, so that no text has a stop sequence in it."""
SECRET: Final = _filler("*")


def overwrite(buffer: bytearray, start: int, end: int, filler: Filler) -> None:
    """Overwrite the content of a JSON string, or any other text. Escapes such as `\\n` and `\\"` stay."""
    piece = bytes(buffer[start:end])
    if b"\\" not in piece:
        buffer[start:end] = piece.translate(filler.table)
        return
    buffer[start:end] = _UNIT.sub(lambda found: _replacement(found[0], filler), piece)


def _replacement(unit: bytes, filler: Filler) -> bytes:
    if unit[0] != _BACKSLASH:
        return unit.translate(filler.table)
    return b"\\u" + _code(unit[2:], filler) if len(unit) == 6 else unit


def _code(digits: bytes, filler: Filler) -> bytes:
    """Return the code that replaces another one in an escape."""
    code = int(digits, 16)
    if 0xD800 <= code < 0xE000:
        return _HIGH if code < 0xDC00 else _LOW
    return filler.code


class View(NamedTuple):
    """The content of JSON strings without their escapes: `text`, and the position of each of its bytes in the buffer.

    Characters that were escaped and are not ASCII are bytes 80.
    """

    text: bytes
    at: Sequence[int]


def view(buffer: bytearray, spans: Sequence[tuple[int, int]]) -> View:
    """Return the view of the contents of several strings in a row, such as the fragments of streamed arguments."""
    text, at = bytearray(), array("Q")
    for start, end in spans:
        raw = bytes(buffer[start:end])
        last = 0
        if b"\\" in raw:
            for found in _ESCAPE.finditer(raw):
                text += raw[last : found.start()]
                at.extend(range(start + last, start + found.start()))
                text += _decoded(found[0])
                at.append(start + found.start())
                last = found.end()
        text += raw[last:]
        at.extend(range(start + last, end))
    return View(bytes(text), at)


def _decoded(escape: bytes) -> bytes:
    if len(escape) == 6:
        code = int(escape[2:], 16)
        return bytes((code if code < 0x80 else 0x80,))
    return _SIMPLE.get(escape[1:], escape[1:] or b"\\")


def overwrite_view(buffer: bytearray, seen: View, first: int, last: int, filler: Filler, *, json: bool = False) -> None:
    """Overwrite a part of a view. With `json` it is the content of a string in a text that is JSON itself."""
    text, at = seen.text[first:last], seen.at
    if not text:
        return
    start, end = at[first], at[last - 1] + 1
    if end - start == len(text) and b"\\" not in buffer[start:end]:
        buffer[start:end] = text.translate(filler.table)
        return
    if not json:
        for index in range(first, last):
            _overwrite_one(buffer, at[index], filler)
        return
    for found in _UNIT.finditer(text):
        unit, place = found[0], first + found.start()
        if unit[0] != _BACKSLASH:
            for index in range(place, place + len(unit)):
                _overwrite_one(buffer, at[index], filler)
        elif len(unit) == 6:
            for index, digit in enumerate(_code(unit[2:], filler), place + 2):
                if buffer[at[index]] != _BACKSLASH:
                    buffer[at[index]] = digit


def _overwrite_one(buffer: bytearray, position: int, filler: Filler) -> None:
    """Overwrite one byte that is no escape, or one escape."""
    if buffer[position] != _BACKSLASH:
        buffer[position] = filler.table[buffer[position]]
    elif (code := _CODE.match(buffer, position)) is not None:
        buffer[position + 2 : position + 6] = _code(code[1], filler)


def overwrite_digits(buffer: bytearray, seen: View, first: int, last: int) -> None:
    """Overwrite the digits of a number in a view."""
    for index in range(first, last):
        position = seen.at[index]
        if buffer[position] != _BACKSLASH:
            buffer[position] = DIGITS[buffer[position]]

"""The first bytes of a body: they show whether it is an event stream or a JSON document, whatever its content type."""

from __future__ import annotations

import re
from typing import Final

BOM: Final = b"\xef\xbb\xbf"
_BEFORE = re.compile(rb"(?:[ \t\r\n]+|:[^\r\n]*+[\r\n])*+")
"""Blank lines and comments: servers send them while the model works, before a JSON document too."""
_LINE_END = re.compile(rb"[\r\n]")
_FIELD = re.compile(rb"(?:data|event|id|retry)[ \t]*+(?:[:\r\n]|\Z)")
_DOCUMENTS = b"{["
_COLON = 58


class Opening:
    """Finds the first line of a body that is neither blank nor a comment: it shows whether the body is JSON."""

    __slots__ = ("_bom", "_in_comment")

    def __init__(self) -> None:
        self._bom = 0
        """The bytes of a byte order mark so far."""
        self._in_comment = False

    def find(self, data: bytes) -> int:
        """Return the place of the line's first byte in the next bytes of the body, or -1 if it comes later."""
        at = 0
        while at < len(data) and self._bom < 3:
            if data[at] != BOM[self._bom]:
                self._bom = 3
                break
            at += 1
            self._bom += 1
        if self._in_comment:
            if (end := _LINE_END.search(data, at)) is None:
                return -1
            at, self._in_comment = end.end(), False
        before = _BEFORE.match(data, at)
        assert before is not None
        at = before.end()
        if at < len(data) and data[at] != _COLON:
            return at
        self._in_comment = at < len(data)
        return -1


def begins_document(data: bytes, at: int) -> bool:
    """True if the first line of a body, at `at`, begins a JSON document."""
    return data[at] in _DOCUMENTS


def document_in(body: bytes) -> bytes | None:
    """Return a complete body without blank lines and comments before its JSON; None if it is an event stream.

    A body that is neither is returned unchanged.
    """
    at = Opening().find(body)
    if at < 0:
        return body
    if begins_document(body, at):
        return body[at:]
    return None if _FIELD.match(body, at) else body

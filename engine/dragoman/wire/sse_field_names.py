"""Names of event stream fields that were damaged on their way: such a line may hide an event.

The standard ignores a line whose field name is unknown (WHATWG §9.2.6).
"""

from __future__ import annotations

import re
from typing import Final

BEGINNINGS: Final = frozenset((b"d", b"da", b"dat", b"e", b"ev", b"eve", b"even"))
"""Incomplete field names."""
_KNOWN = frozenset((b"data", b"event", b"id", b"retry"))
_NAME = re.compile(rb"[A-Za-z][\w.-]*")
_NEARLY_DATA = re.compile(rb".?data|d.?ata|da.?ta|dat.?a|data.|.ata|d.ta|da.a|dat.|[ad]ta|da[at]|t?a")
"""`data` with one byte more, less or other than it has, and what a line end within it leaves."""
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def is_damaged(line: bytes) -> bool:
    """Return whether a line that the standard ignores may be the rest of a damaged field.

    Fields with names of their own are not, and neither are comments that are UTF-8, lines of words, and bare JSON.
    """
    name, colon, value = line.partition(b":")
    if name in _KNOWN:
        return False
    try:
        line.decode()
    except UnicodeDecodeError:
        return True
    if not name or name.startswith(b"{"):
        return False
    if b"{" in name or not (name.isascii() and name.decode("ascii").isprintable()) or _CONTROL.search(value):
        return True
    if not colon:
        return name in BEGINNINGS
    return value.lstrip().startswith((b"{", b"[")) and not (_NAME.fullmatch(name) and not _NEARLY_DATA.fullmatch(name))

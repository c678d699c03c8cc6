"""The text of a wrapped free-text call, taken out of its JSON while it streams."""

from __future__ import annotations

import re

from .errors import UpstreamProtocolError
from .jsontext import loads
from .losses import Code, Losses

FIELD = "input"
"""The one field of a wrapped free-text tool."""

_HEAD = ("{", f'"{FIELD}"', ":", '"')
_SPACE = " \t\r\n"
_PLAIN = re.compile(r'[^"\\]+')
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class Unwrapper:
    """The text of a wrapped call, out of its JSON as it comes: `{"input":"…"}`.

    A head of another form is held back and read as a whole at the end.
    """

    __slots__ = ("_at", "_held", "_name", "_rest", "_step", "_told")

    def __init__(self, name: str) -> None:
        self._name = name
        self._step = 0
        self._at = 0
        self._held: list[str] = []
        """All that came, until the head is known to be the usual one; of another form, to the end."""
        self._rest = ""
        """An escape that has not come whole."""
        self._told = False

    def feed(self, text: str) -> str:
        """More JSON; gives the text that it makes known."""
        step = self._step
        if step == len(_HEAD):
            return self._string(text)
        if step > len(_HEAD):  # behind the text, or a head of another form
            self._held.append(text)
            return ""
        self._held.append(text)
        for position, char in enumerate(text):
            token = _HEAD[self._step]
            if not self._at and char in _SPACE:
                continue
            if char != token[self._at]:
                self._step = len(_HEAD) + 1
                return ""
            self._at += 1
            if self._at == len(token):
                self._at = 0
                self._step += 1
                if self._step == len(_HEAD):
                    self._held = []
                    self._told = True
                    return self._string(text[position + 1 :])
        return ""

    def finish(self, losses: Losses, *, cut: bool = True) -> str:
        """The arguments are over: what was held back.

        `cut` takes arguments that are not whole. Raises UpstreamProtocolError for arguments without a text.
        """
        rest = "".join(self._held)
        if self._told:
            if self._step > len(_HEAD) and rest.strip() != "}" and not (cut and not rest.strip()):
                losses.add(Code.CUSTOM_WRAPPED, self._name, "further arguments of the call were left out")
            elif self._step == len(_HEAD) and not cut:
                raise self._bad()
            return ""
        try:
            value = loads(rest) if rest.strip() else {FIELD: ""}
        except ValueError:
            if cut:
                return ""
            raise self._bad() from None
        if type(value) is dict:
            told = value.get(FIELD)
            if type(told) is not str and len(value) == 1:
                told = next(iter(value.values()))
            if type(told) is str:
                if len(value) > 1:
                    losses.add(Code.CUSTOM_WRAPPED, self._name, "further arguments of the call were left out")
                return told
        raise self._bad()

    def _bad(self) -> UpstreamProtocolError:
        return UpstreamProtocolError(f"upstream called the free-text tool {self._name!r} without its {FIELD!r} text")

    def _string(self, text: str) -> str:
        """Decode inside the string; nothing of an escape that is not yet whole."""
        if self._rest:
            text, self._rest = self._rest + text, ""
        out: list[str] = []
        at = 0
        while at < len(text):
            plain = _PLAIN.match(text, at)
            if plain is not None:
                out.append(plain[0])
                at = plain.end()
                continue
            if text[at] == '"':
                self._step = len(_HEAD) + 1
                self._held.append(text[at + 1 :])
                break
            size = self._escape(text, at, out)
            if not size:
                self._rest = text[at:]
                break
            at += size
        return "".join(out)

    def _escape(self, text: str, at: int, out: list[str]) -> int:
        """Decode the escape at `at`; its length, or 0 if more must come. Raises UpstreamProtocolError for none."""
        if len(text) < at + 2:
            return 0
        letter = text[at + 1]
        if letter != "u":
            if letter not in _ESCAPES:
                raise self._bad()
            out.append(_ESCAPES[letter])
            return 2
        if len(text) < at + 6:
            return 0
        unit = self._hex(text[at + 2 : at + 6])
        if not 0xD800 <= unit < 0xDC00:
            out.append(chr(unit) if not 0xDC00 <= unit < 0xE000 else "\ufffd")
            return 6
        if len(text) < at + 12:
            return 0 if text[at + 6 : at + 8] in ("", "\\", "\\u") else self._lone(out)
        low = self._hex(text[at + 8 : at + 12]) if text[at + 6 : at + 8] == "\\u" else 0
        if not 0xDC00 <= low < 0xE000:
            return self._lone(out)
        out.append(chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)))
        return 12

    def _lone(self, out: list[str]) -> int:
        # Half a surrogate pair has no UTF-8.
        out.append("\ufffd")
        return 6

    def _hex(self, digits: str) -> int:
        try:
            return int(digits, 16)
        except ValueError:
            raise self._bad() from None

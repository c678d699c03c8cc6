"""The text of a wrapped free-text call, taken out of its JSON while it streams."""

from __future__ import annotations

import re
from typing import Any

from dragoman.errors import UpstreamProtocolError
from dragoman.losses import LossCode, Losses
from dragoman.wire.json_codec import loads

FIELD = "input"
"""The one field of a wrapped free-text tool."""

_HEAD = ("{", f'"{FIELD}"', ":", '"')
_SPACE = " \t\r\n"
_PLAIN = re.compile(r'[^"\\]+')
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_FURTHER = "further arguments of the call were left out"
_PAIR = len(r"\ud800\udc00")


def _text_of(arguments: Any) -> str | None:
    """The text, also under another name if it is the only argument. No arguments at all are no text (mapping §6.3)."""
    if type(arguments) is not dict:
        return None
    told = arguments.get(FIELD, "")
    if len(arguments) == 1:
        (told,) = arguments.values()
    elif FIELD not in arguments and arguments:
        return None
    return told if type(told) is str else None


class FreeTextDecoder:
    """The text of a wrapped call, out of its JSON as it comes: `{"input":"…"}`.

    A head of another form is held back and read as a whole at the end.
    """

    __slots__ = ("_at", "_held", "_name", "_rest", "_step", "_told", "cut")

    def __init__(self, name: str) -> None:
        self._name = name
        self._step = 0
        self._at = 0
        self._held: list[str] = []
        """All that came, until the head is known to be the usual one (of another form, to the end); then what follows
        the text. The reader of the stream bounds it, as it does all arguments."""
        self._rest = ""
        """An escape that has not come whole."""
        self._told = False
        self.cut = False
        """Known at the end: is the JSON not whole?"""

    def feed(self, text: str) -> str:
        """More JSON; gives the text that it makes known. Raises UpstreamProtocolError for an escape that is none."""
        if self._step == len(_HEAD):
            return self._string(text)
        self._held.append(text)
        if self._step > len(_HEAD):  # behind the text, or a head of another form
            return ""
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

    def finish(self, losses: Losses) -> str:
        """The arguments are over: what was held back, and `cut` is known.

        Arguments that are not whole give nothing more. Raises UpstreamProtocolError for whole ones without a text.
        """
        rest = "".join(self._held)
        if self._told:
            # The text has left; what stands around it is read with an empty one in its place.
            rest = f'{{"{FIELD}":""{rest}'
            self.cut = self._step == len(_HEAD)
        value: Any = {}
        try:
            if not self.cut and rest.strip():
                value = loads(rest)
        except ValueError:
            self.cut = True
        if self.cut:
            return ""
        text = _text_of(value)
        if self._told:
            if text != "" or len(value) > 1:
                losses.add(LossCode.CUSTOM_WRAPPED, self._name, _FURTHER)
            return ""
        if text is None:
            raise UpstreamProtocolError(f"upstream called the free-text tool {self._name!r} without its {FIELD!r} text")
        if len(value) > 1:
            losses.add(LossCode.CUSTOM_WRAPPED, self._name, _FURTHER)
        return text

    def broken(self) -> UpstreamProtocolError:
        """The error of arguments that are not whole, though nothing is said to have cut them."""
        return UpstreamProtocolError(
            f"upstream ended the call of {self._name!r} with arguments that are not whole JSON"
        )

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
        letter = text[at + 1 : at + 2]
        if letter != "u":
            if letter and letter not in _ESCAPES:
                raise self._bad_escape()
            out.append(_ESCAPES.get(letter, ""))
            return 2 if letter else 0
        if len(text) < at + 6:
            return 0
        unit = self._hex(text, at + 2)
        if not 0xD800 <= unit < 0xE000:
            out.append(chr(unit))
            return 6
        second = text[at + 6 : at + 8]
        if unit < 0xDC00 and len(text) < at + _PAIR and "\\u".startswith(second):
            return 0
        low = self._hex(text, at + 8) if unit < 0xDC00 and second == "\\u" else 0
        if not 0xDC00 <= low < 0xE000:
            out.append("\ufffd")  # half a surrogate pair has no UTF-8
            return 6
        out.append(chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)))
        return _PAIR

    def _hex(self, text: str, at: int) -> int:
        digits = _HEX.match(text, at)
        if digits is None:
            raise self._bad_escape()
        return int(digits[0], 16)

    def _bad_escape(self) -> UpstreamProtocolError:
        return UpstreamProtocolError(f"upstream called {self._name!r} with arguments that hold no JSON string")

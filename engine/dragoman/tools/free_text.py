"""Free-text tool calls that were wrapped in JSON: an incremental decoder for `{"input":"…"}`.

`tools.bridge` declares a free-text tool as a function with one string argument. This module takes the text of a call
out of its JSON arguments while they are streamed.
"""

from __future__ import annotations

import re
from typing import Any

from dragoman.errors import UpstreamProtocolError
from dragoman.losses import LossCode, Losses
from dragoman.wire.json_codec import loads

TEXT_FIELD = "input"
"""The one argument of a wrapped free-text tool."""

_HEAD = ("{", f'"{TEXT_FIELD}"', ":", '"')
_SPACE = " \t\r\n"
_PLAIN = re.compile(r'[^"\\]+')
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_EXTRA_ARGUMENTS = "further arguments of the call were left out"
_PAIR = len(r"\ud800\udc00")


def _text_of(arguments: Any) -> str | None:
    """Return the text of complete arguments, or None if they hold none (mapping §6.3).

    A single argument of another name counts as the text. An empty object has the empty text.
    """
    if type(arguments) is not dict:
        return None
    text = arguments.get(TEXT_FIELD, "")
    if len(arguments) == 1:
        (text,) = arguments.values()
    elif TEXT_FIELD not in arguments and arguments:
        return None
    return text if type(text) is str else None


class FreeTextDecoder:
    """Incremental decoder of the one JSON string in `{"input":"…"}`, the arguments of a wrapped free-text call.

    Arguments that begin in another way are buffered and parsed at the end. Call `feed` for each fragment, `finish`
    once, then read `truncated`. The stream's reader bounds the size of a call's arguments.

    Args:
        name: the tool's name, for error messages and loss rows.
    """

    __slots__ = ("_at", "_buffered", "_in_text", "_name", "_partial_escape", "_position", "truncated")

    def __init__(self, name: str) -> None:
        self._name = name
        self._position = 0
        self._at = 0
        self._buffered: list[str] = []
        """Fragments that are not decoded yet: everything until the usual beginning is complete, later whatever follows
        the text."""
        self._partial_escape = ""
        """The beginning of an escape sequence that the next fragment continues."""
        self._in_text = False
        self.truncated = False
        """True if the JSON was incomplete. Set by `finish`."""

    def feed(self, text: str) -> str:
        """Take a fragment of the JSON. Return the text that it completes.

        Raises UpstreamProtocolError for an invalid escape sequence.
        """
        if self._position == len(_HEAD):
            return self._decode_string(text)
        self._buffered.append(text)
        if self._position > len(_HEAD):  # after the text, or not the usual beginning
            return ""
        for position, char in enumerate(text):
            token = _HEAD[self._position]
            if not self._at and char in _SPACE:
                continue
            if char != token[self._at]:
                self._position = len(_HEAD) + 1
                return ""
            self._at += 1
            if self._at == len(token):
                self._at = 0
                self._position += 1
                if self._position == len(_HEAD):
                    self._buffered = []
                    self._in_text = True
                    return self._decode_string(text[position + 1 :])
        return ""

    def finish(self, losses: Losses) -> str:
        """End the arguments: set `truncated` and return the text that was buffered, "" if it was returned before.

        Further arguments of the call become a loss row. Raises UpstreamProtocolError for complete arguments without a
        text.
        """
        rest = "".join(self._buffered)
        if self._in_text:
            # The text was returned by `feed`; check the JSON around it with an empty text in its place.
            rest = f'{{"{TEXT_FIELD}":""{rest}'
            self.truncated = self._position == len(_HEAD)
        value: Any = {}
        try:
            if not self.truncated and rest.strip():
                value = loads(rest)
        except ValueError:
            self.truncated = True
        if self.truncated:
            return ""
        text = _text_of(value)
        if self._in_text:
            if text != "" or len(value) > 1:
                losses.add(LossCode.CUSTOM_WRAPPED, self._name, _EXTRA_ARGUMENTS)
            return ""
        if text is None:
            raise UpstreamProtocolError(
                f"upstream called the free-text tool {self._name!r} without its {TEXT_FIELD!r} text"
            )
        if len(value) > 1:
            losses.add(LossCode.CUSTOM_WRAPPED, self._name, _EXTRA_ARGUMENTS)
        return text

    def malformed(self) -> UpstreamProtocolError:
        """Return the error for incomplete arguments in a reply that was not truncated."""
        return UpstreamProtocolError(
            f"upstream ended the call of {self._name!r} with arguments that are not whole JSON"
        )

    def _decode_string(self, text: str) -> str:
        """Decode a fragment inside the string, except for an incomplete escape sequence at its end."""
        if self._partial_escape:
            text, self._partial_escape = self._partial_escape + text, ""
        out: list[str] = []
        at = 0
        while at < len(text):
            plain = _PLAIN.match(text, at)
            if plain is not None:
                out.append(plain[0])
                at = plain.end()
                continue
            if text[at] == '"':
                self._position = len(_HEAD) + 1
                self._buffered.append(text[at + 1 :])
                break
            size = self._decode_escape(text, at, out)
            if not size:
                self._partial_escape = text[at:]
                break
            at += size
        return "".join(out)

    def _decode_escape(self, text: str, at: int, out: list[str]) -> int:
        """Append the character of the escape sequence at `at` and return the sequence's length, 0 if it is incomplete.

        Raises UpstreamProtocolError if it is invalid.
        """
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
            out.append("\ufffd")  # UTF-8 cannot encode half a surrogate pair
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

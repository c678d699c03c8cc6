"""The arguments of one streamed call: bounded while they come, checked when the reply says that they are whole."""

from __future__ import annotations

import re

from dragoman.canonical.events import TextRun
from dragoman.errors import LimitExceeded, UpstreamProtocolError
from dragoman.limits import Limits
from dragoman.wire.json_codec import loads

_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPE = re.compile(r"\\.", re.DOTALL)


class Room:
    """What the calls of one reply may take together. They are kept until the reply ends, so they share a bound."""

    __slots__ = ("_left", "_limit")

    def __init__(self, limits: Limits) -> None:
        self._left = self._limit = limits.tool_arguments

    def take(self, size: int) -> None:
        """Raises LimitExceeded when there is no room left."""
        self._left -= size
        if self._left < 0:
            raise LimitExceeded("tool_arguments", self._limit, upstream=True)

    def fits(self, size: int) -> bool:
        """Take the room, if there is as much."""
        if size > self._left:
            return False
        self._left -= size
        return True


class Arguments:
    """The arguments of a call that have arrived. They are kept beside the stream for `check` and `is_whole`."""

    __slots__ = ("_braced", "_depth", "_escaping", "_inside", "_pieces", "_room", "_scanned", "_verdict", "name")

    def __init__(self, room: Room, name: str = "") -> None:
        self.name = name
        self._room = room
        self._pieces: list[str] = []
        # Where the scan of `is_whole` stands.
        self._scanned = 0
        """How many pieces it has read."""
        self._depth = 0
        self._braced = False
        self._inside = 0
        """1 within a string, 0 outside of one."""
        self._escaping = False
        self._verdict: bool | None = None

    def __bool__(self) -> bool:
        return any(self._pieces)

    def is_blank(self) -> bool:
        """Has nothing of them come but white space."""
        return all(not piece or piece.isspace() for piece in self._pieces)

    def add(self, text: str) -> None:
        """Take a fragment. Raises LimitExceeded."""
        self._room.take(len(text))
        self._pieces.append(text)

    def add_all(self, run: TextRun) -> bool:
        """Take several fragments; False, and none is taken, if there is no room for all."""
        if not self._room.fits(len(run.text)):
            return False
        self._pieces.append(run.text)
        return True

    def text(self) -> str:
        """All that came so far. Halves of a surrogate pair that came in two fragments are one character again."""
        text = "".join(self._pieces)
        if not text.isascii() and _SURROGATE.search(text):
            return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        return text

    def is_whole(self) -> bool:
        """True if the arguments so far are one JSON object, perhaps with white space around it.

        Each character is scanned once, however often this is asked; the object is parsed once, at its last brace.
        """
        if self._verdict is not None:
            return self._verdict
        if self._scanned < len(self._pieces):
            self._scan()
            if self._braced and self._depth <= 0 and not self._inside:
                try:
                    self._verdict = type(loads(self.text())) is dict
                except ValueError:
                    self._verdict = False  # brackets that match hold no JSON, and nothing behind them mends that
        return self._verdict is True

    def _scan(self) -> None:
        text = "".join(self._pieces[self._scanned :])
        self._scanned = len(self._pieces)
        if self._escaping:
            text = "\\" + text
        bare = _ESCAPE.sub("", text) if "\\" in text else text
        self._escaping = bare.endswith("\\")
        between = bare.split('"')
        outside = "".join(between[self._inside :: 2])
        self._inside = (self._inside + len(between) - 1) % 2
        self._braced = self._braced or "{" in outside
        self._depth += outside.count("{") + outside.count("[") - outside.count("}") - outside.count("]")

    def check(self) -> None:
        """Raise UpstreamProtocolError unless they are a JSON object; none at all count as `{}` (mapping §6.3).

        A stream that lost a fragment would else end like a whole one, and the client would run a call of another
        meaning or none.
        """
        text = self.text()
        if not text or text.isspace():
            return
        try:
            value = loads(text)
        except ValueError:
            raise UpstreamProtocolError(
                f"upstream ended the call of {self.name!r} with arguments that are not whole JSON"
            ) from None
        if type(value) is not dict:
            raise UpstreamProtocolError(f"upstream called {self.name!r} with arguments that are not a JSON object")

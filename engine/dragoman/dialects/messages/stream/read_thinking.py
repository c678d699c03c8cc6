"""A thinking block while it is streamed, for clients that bring it back whole (mapping §5.2)."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.request import Json
from dragoman.dialects.shared.tool_arguments import Room


class Thought:
    """A thinking block as it was streamed, to be given back whole."""

    __slots__ = ("_room", "_signature", "_start", "_text")

    def __init__(self, start: Json, room: Room) -> None:
        self._room = room
        self._start = start
        self._text: list[str] = []
        self._signature: list[str] = []
        self.think(start.get("thinking"))

    def think(self, text: Any) -> None:
        """Take more text. Raises LimitExceeded."""
        if type(text) is str:
            self._room.take(len(text))
            self._text.append(text)

    def think_on(self, text: str, pieces: list[str]) -> bool:
        """Take more texts; False, and none is taken, if there is no room for all."""
        if not self._room.fits(len(text)):
            return False
        self._text.append(text)
        return True

    def sign(self, signature: Any) -> None:
        """Take more of the signature. Raises LimitExceeded."""
        if type(signature) is str:
            self._room.take(len(signature))
            self._signature.append(signature)

    def block(self) -> Json:
        """The block as its server wants it back."""
        return {**self._start, "thinking": "".join(self._text), "signature": "".join(self._signature)}

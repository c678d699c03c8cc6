"""Text blocks joined to the one string of a Chat message (mapping §4.2)."""

from __future__ import annotations


class JoinedText:
    """Joins text blocks: adjacent ones as they are, because citations split them; others as paragraphs."""

    __slots__ = ("_apart", "length", "pieces")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.length = 0
        self._apart = False

    def add(self, text: str) -> int:
        """Append a block's text. Returns its offset in the joined text."""
        if self._apart:
            self._apart = False
            self.pieces.append("\n\n")
            self.length += 2
        start = self.length
        self.pieces.append(text)
        self.length += len(text)
        return start

    def gap(self) -> None:
        """Make the next text a new paragraph, if there is text before it."""
        self._apart = bool(self.pieces)

    def __str__(self) -> str:
        return self.pieces[0] if len(self.pieces) == 1 else "".join(self.pieces)

"""Text blocks joined to the single string of a Chat message."""

from __future__ import annotations


class JoinedText:
    """Text blocks as one string: adjacent ones are one text that citations split, so nothing goes between them; ones
    that another block stood between are paragraphs (mapping §4.2)."""

    __slots__ = ("_apart", "length", "pieces")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.length = 0
        self._apart = False

    def add(self, text: str) -> int:
        """Append a block's text; gives its offset in the whole."""
        if self._apart:
            self._apart = False
            self.pieces.append("\n\n")
            self.length += 2
        start = self.length
        self.pieces.append(text)
        self.length += len(text)
        return start

    def gap(self) -> None:
        """Another block stands here."""
        self._apart = bool(self.pieces)

    def __str__(self) -> str:
        return self.pieces[0] if len(self.pieces) == 1 else "".join(self.pieces)

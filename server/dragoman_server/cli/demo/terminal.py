"""Output of two columns on a terminal, by appending lines only: a pipe and the scroll-back show the same picture.

On a narrow terminal the client's and the upstream's lines are stacked instead.
"""

from __future__ import annotations

import os
import shutil
import unicodedata
from collections.abc import Iterable, Mapping
from itertools import zip_longest
from typing import NamedTuple, TextIO

_SGR = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
    "title": "1;7",
}
_NARROW = 112
"""Below this number of columns the sides are stacked."""
_WIDEST = 160


class StyledText(NamedTuple):
    """A piece of a line and its style (a key of the colour table, or "")."""

    text: str
    style: str = ""


Line = tuple[StyledText, ...]


def line(text: str, style: str = "") -> Line:
    """Return a line of one span."""
    return (StyledText(text, style),)


def wants_colour(out: TextIO, env: Mapping[str, str] = os.environ) -> bool:
    """True if `out` is a terminal. NO_COLOR and FORCE_COLOR override that."""
    if env.get("NO_COLOR"):
        return False
    if env.get("FORCE_COLOR"):
        return True
    return out.isatty() and env.get("TERM") != "dumb"


def cells(text: str) -> int:
    """Return the number of columns of a text: two for wide characters, none for combining ones."""
    if text.isascii():
        return len(text)
    return sum(_cell(mark) for mark in text)


def _cell(mark: str) -> int:
    if unicodedata.combining(mark) or unicodedata.category(mark) in ("Cf", "Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(mark) in "WF" else 1


def fit(spans: Line, width: int) -> Line:
    """Return the line, cut to `width` columns with `…` at the cut."""
    if sum(cells(span.text) for span in spans) <= width:
        return spans
    kept: list[StyledText] = []
    left = width - 1
    for text, style in spans:
        short = _head(text, left)
        left -= cells(short)
        kept.append(StyledText(short, style))
        if len(short) < len(text):
            break
    return (*kept, StyledText("…", "dim"))


def _head(text: str, width: int) -> str:
    used = 0
    for at, mark in enumerate(text):
        used += _cell(mark)
        if used > width:
            return text[:at]
    return text


def wrap(text: str, width: int, rows: int) -> list[str]:
    """Return the text in at most `rows` lines of `width` columns, broken after commas and blanks if possible."""
    out: list[str] = []
    while text and len(out) < rows - 1 and cells(text) > width:
        head = _head(text, width)
        cut = max(head.rfind(","), head.rfind(" ")) + 1
        cut = cut if cut > width // 2 else len(head)
        out.append(text[:cut].rstrip())
        text = text[cut:].lstrip()
    return [*out, text] if text else out


class Terminal:
    """Prints lines, with colours if the terminal has them."""

    def __init__(self, out: TextIO, *, colour: bool | None = None, width: int | None = None) -> None:
        self._out = out
        self._colour = wants_colour(out) if colour is None else colour
        self.width = min(width or shutil.get_terminal_size((100, 24)).columns, _WIDEST)
        self.stacked = self.width < _NARROW
        self.column = self.width - 12 if self.stacked else (self.width - 5) // 2
        """Width of one side, in columns."""

    def paint(self, text: str, style: str) -> str:
        """Return the text in a style."""
        return f"\x1b[{_SGR[style]}m{text}\x1b[0m" if style and self._colour and text else text

    def print(self, *lines: str, style: str = "") -> None:
        """Print lines."""
        for text in lines:
            self._put(self.paint(text, style))

    def title(self, text: str) -> None:
        """Print a heading across the terminal."""
        if self._colour:
            self._put(self.paint(f" {text} ".ljust(self.width - 1), "title"))
        else:
            self._put(f"=== {text} ".ljust(self.width - 1, "="))

    def labelled(self, label: str, text: str, style: str = "") -> None:
        """Print a remark with a label, wrapped."""
        for row in wrap(text, self.width - 18, 4):
            self._put(f"  {self.paint(label.ljust(14), 'dim')} {self.paint(row, style)}")
            label = ""

    def sides(self, client: Iterable[Line], upstream: Iterable[Line], arrow: str) -> None:
        """Print lines of the client's side and of the upstream's side next to each other.

        `arrow` is `▶` for a request and `◀` for a reply.
        """
        if self.stacked:
            first, second = (("client", client), ("upstream", upstream))
            if arrow == "◀":
                first, second = second, first
            for name, lines in (first, second):
                mark = self.paint(f"{name:>8} │ ", "bold" if name == "client" else "dim")
                for row in lines:
                    self._put(mark + self._drawn(fit(row, self.column)))
            return
        middle = arrow or "│"
        empty: Line = ()
        for left, right in zip_longest(client, upstream, fillvalue=empty):
            fitted = fit(left, self.column)
            blank = " " * (self.column - sum(cells(span.text) for span in fitted))
            shown = f" {self._drawn(fitted)}{blank} {self.paint(middle, 'dim')} {self._drawn(fit(right, self.column))}"
            self._put(shown.rstrip())
            middle = "│"

    def _drawn(self, spans: Line) -> str:
        return "".join(self.paint(text, style) for text, style in spans)

    def _put(self, text: str) -> None:
        print(text, file=self._out, flush=True)

"""Tables of text that fit the terminal: columns with names are cut, and then rows are written as blocks."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence
from unicodedata import combining, east_asian_width

WIDTH = 80
"""Characters of a line where standard output is no terminal, and at least."""
LEAST = 6
"""Characters that a cut column keeps."""
_GAP = "  "


def line_width() -> int:
    """Return the width of the terminal, or `WIDTH`."""
    return max(WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else WIDTH


def text_width(text: str) -> int:
    """Return the columns of the terminal that a text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(each) else 2 if east_asian_width(each) in "WF" else 1 for each in text)


def cut(text: str, width: int) -> str:
    """Return a text that takes at most `width` columns; a text that is cut ends with an ellipsis."""
    if text_width(text) <= width:
        return text
    kept = text[: width - 1]
    while text_width(kept) > width - 1:
        kept = kept[:-1]
    return f"{kept}…"


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], texts: int, width: int) -> list[str] | None:
    """Return the lines of a table whose first `texts` columns are texts, which are cut, and the others numbers.

    None if it does not fit even then.
    """
    whole = [titles, *rows]
    widths = [max(text_width(row[column]) for row in whole) for column in range(len(titles))]
    too_wide = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    while too_wide > 0 and texts and max(widths[:texts]) > LEAST:
        widest = max(range(texts), key=widths.__getitem__)
        widths[widest] -= 1
        too_wide -= 1
    if too_wide > 0:
        return None
    return [_line(row, widths, texts) for row in whole]


def _line(row: Sequence[str], widths: Sequence[int], texts: int) -> str:
    cells = []
    for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
        shown = cut(cell, width)
        space = " " * (width - text_width(shown))
        cells.append(shown + space if column < texts else space + shown)
    return _GAP.join(cells).rstrip()


def blocks(titles: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return each row as lines of a title and a value, with an empty line between two rows."""
    title_width = max(map(text_width, titles))
    lines: list[str] = []
    for row in rows:
        lines += [""] * bool(lines)
        for title, cell in zip(titles, row, strict=True):
            lines.append(cut(f"{title}{' ' * (title_width - text_width(title))}{_GAP}{cell}".rstrip(), width))
    return lines


def wrapped(text: str, width: int) -> list[str]:
    """Return a text as lines; those after the first are indented."""
    if text_width(text) != len(text):
        width //= 2  # textwrap counts characters
    return textwrap.wrap(text, width, subsequent_indent=_GAP, break_on_hyphens=False) or [""]


def short_number(number: int) -> str:
    """Return a number with three or four digits: `999`, `12.3k`, `4.56M`."""
    value, units = float(number), ("", "k", "M", "G", "T")
    for unit in units:
        if abs(value) < 999.5 or unit == units[-1]:
            break
        value /= 1000
    return f"{number}" if not unit else f"{value:.3g}{unit}"

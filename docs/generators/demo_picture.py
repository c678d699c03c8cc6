"""Draws docs/images/demo.svg: the first scene of `dragoman demo` on a terminal.

    python docs/generators/demo_picture.py

The demo runs, with real requests through a gateway. Its colours become those of the drawing.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path

from dragoman_server.cli.demo.terminal import cells

PICTURE = Path(__file__).resolve().parent.parent / "images" / "demo.svg"
COLUMNS = 116
_SECONDS = 120.0
_CELL, _LINE, _DESCENT, _MARGIN = 7.2, 17, 4, 14
"""Width of a column, height of a line, the part of it below the letters, and the space around the text, in pixels."""
_ESCAPE = re.compile(r"\x1b\[([\d;]*)m")
_CLASSES = {"1": "bold", "2": "dim", "31": "red", "32": "green", "33": "yellow", "34": "blue", "35": "magenta"}
_CLASSES |= {"36": "cyan", "1;7": "title"}
_STYLE = """<style>
text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d1d7e0 }
text { white-space: pre }
.bold, .title { font-weight: 600 }
.title { fill: #ffffff }
.dim { fill: #7d8590 }
.red { fill: #ff7b72 }
.green { fill: #7ee787 }
.yellow { fill: #e3b341 }
.blue { fill: #79c0ff }
.magenta { fill: #d2a8ff }
.cyan { fill: #56d4dd }
</style>"""


def scene() -> list[str]:
    """Run the demo, and return the lines of its first scene with their colours."""
    command = [sys.executable, "-m", "dragoman_server", "demo", "--once", "--port", "0", "--pace", "0.02"]
    environment = os.environ | {"COLUMNS": str(COLUMNS), "FORCE_COLOR": "1", "PYTHONUTF8": "1"}
    environment.pop("NO_COLOR", None)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=True)
    (shown,) = re.findall(r"^(\S* 1/9 .*?)\n\n\S* 2/9 ", done.stdout, re.DOTALL | re.MULTILINE)
    return [line.rstrip() for line in shown.splitlines()]


def plain(line: str) -> str:
    """Return a line without its colours and the spaces at its end."""
    return _ESCAPE.sub("", line).rstrip()


def place(x: float, y: int) -> tuple[int, int]:
    """Return the number of the line and the column of a text in the drawing."""
    return (y + _DESCENT - _MARGIN) // _LINE - 1, round((x - _MARGIN) / _CELL)


def draw(lines: list[str]) -> str:
    """Return the drawing of these lines."""
    width, height = round(COLUMNS * _CELL) + 2 * _MARGIN, len(lines) * _LINE + 2 * _MARGIN
    body = []
    for number, line in enumerate(lines):
        y = _MARGIN + (number + 1) * _LINE - _DESCENT
        for column, style, text in _pieces(line):
            x, length = _MARGIN + column * _CELL, cells(text) * _CELL
            kind = f' class="{style}"' if style else ""
            body.append(f'<text x="{x:.1f}" y="{y}" textLength="{length:.1f}"{kind}>{escape(text)}</text>')
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            'role="img" aria-label="One request in two APIs, as dragoman demo shows it">',
            _STYLE,
            f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>',
            *body,
            "</svg>\n",
        ]
    )


def _pieces(line: str) -> Iterator[tuple[int, str, str]]:
    """The pieces of a line that have one style: column, style and text, without the spaces around them."""
    column, style = 0, ""
    for number, part in enumerate(_ESCAPE.split(line)):
        if number % 2:
            style = _CLASSES.get(part, "")
            continue
        if text := part.strip():
            yield column + cells(part) - cells(part.lstrip()), style, text
        column += cells(part)


def main() -> None:
    """Draw the picture."""
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(draw(scene()), "utf-8")


if __name__ == "__main__":
    main()

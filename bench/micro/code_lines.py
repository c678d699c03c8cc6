"""Count the lines of code by package: without blank lines, comments and docstrings.

python bench/micro/code_lines.py [--depth 1] [FOLDER …]

Without folders, these are `engine/dragoman` and `server/dragoman_server`. A text that documents a field is a docstring.
"""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT / "engine/dragoman", ROOT / "server/dragoman_server")
_NO_CODE = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)


def code_lines(source: str) -> int:
    """Return the number of lines of code of a module."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def by_package(folder: Path, depth: int) -> Counter[str]:
    """Return the lines of code of the packages in a folder, `depth` levels below it."""
    found: Counter[str] = Counter()
    for path in folder.rglob("*.py"):
        package = "/".join(path.relative_to(folder).parent.parts[:depth])
        found[package] += code_lines(path.read_text("utf-8"))
    return found


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path, default=FOLDERS, metavar="FOLDER")
    parser.add_argument("--depth", type=int, default=1, help="levels of packages (%(default)s)")
    options = parser.parse_args()
    for folder in options.folders:
        found = by_package(folder, options.depth)
        print(f"{sum(found.values()):>8,}  {folder.name}")
        for package, lines in sorted(found.items()):
            print(f"{lines:>8,}    {package or '(modules)'}")


if __name__ == "__main__":
    main()

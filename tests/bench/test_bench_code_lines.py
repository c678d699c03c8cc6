"""The count of lines of code."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "bench" / "micro" / "code_lines.py"))
code_lines: Callable[[str], int] = SCRIPT["code_lines"]
by_package: Callable[[Path, int], dict[str, Any]] = SCRIPT["by_package"]


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("", 0),
        ('"""A module."""\n\n# A comment.\n', 0),
        ('X = 1  # of code\n"""The text of a field,\nin two lines."""\n', 1),
        ('def f():\n    """Return a text."""\n\n    return """a\n\n    b"""\n', 4),
        ("x = [\n    1,\n    # one\n    2,\n]\n", 4),
    ],
)
def test_comments_docstrings_and_blank_lines_are_no_code(source: str, lines: int) -> None:
    assert code_lines(source) == lines


def test_packages_are_counted_to_a_depth(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name in ("one.py", "a/two.py", "a/b/three.py"):
        (tmp_path / name).write_text("x = 1\n")
    assert by_package(tmp_path, 1) == {"": 1, "a": 2}
    assert by_package(tmp_path, 2) == {"": 1, "a": 1, "a/b": 1}

"""The code uses the words of docs/reference/glossary.md, and its docstrings are statements."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.paths import ROOT
from support.vocabulary import findings

FOLDERS = ("engine", "server", "bench", "docs", "tests")
FILES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


def test_no_banned_word_is_used() -> None:
    found = [f"{path.relative_to(ROOT)}:{line}: {text}" for path in FILES for _, line, text in findings(path)]
    assert found == []
    assert len(FILES) > 1500


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def told():\n    pass\n", "identifier told: told"),
        ("class LastWordsSaid:\n    pass\n", "identifier LastWordsSaid: said"),
        ('def f():\n    """What it is."""\n', "docstring opens with ['What', 'it', 'is.']"),
        ('def f():\n    """True if it is so?"""\n', "docstring is a question"),
        ("x = 1  # whoever asks\n", "comment: whoever"),
    ],
)
def test_a_banned_word_is_found(source: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(source)
    assert [finding.text for finding in findings(path)] == [expected]


def test_quoted_words_are_allowed(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("x = 1  # the wire event `said`\n")
    assert list(findings(path)) == []

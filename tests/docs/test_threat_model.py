"""docs/explanation/threat-model.md: each threat has a control, and names tests that exist and run."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from support.paths import ROOT

PAGE = ROOT / "docs" / "explanation" / "threat-model.md"
_REFERENCE = re.compile(r"`(tests/[\w/.]+)(?:::(\w+))?`")


def rows() -> list[list[str]]:
    """The rows of the tables of threats."""
    found, inside = [], False
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith("| threat |"):
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and not line.startswith("|---"):
            found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


@pytest.mark.parametrize("row", rows(), ids=[row[0] for row in rows()])
def test_a_threat_has_a_control_and_a_test(row: list[str]) -> None:
    threat, control, tests = row
    assert threat
    assert control
    named = _REFERENCE.findall(tests)
    assert named, "no test is named"
    for path, name in named:
        place = ROOT / path
        files = sorted(place.glob("test_*.py")) + sorted(place.glob("*.py")) if place.is_dir() else [place]
        assert files, path
        assert all(file.is_file() for file in files), path
        if name:
            assert _is_run(place, name), f"{path} has no test {name}"


def _is_run(file: Path, name: str) -> bool:
    """True if a file has a test of this name that is not switched off."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
            marks = " ".join(ast.unparse(each) for each in node.decorator_list)
            return "mark.skip(" not in marks and "xfail" not in marks
    return False


def test_the_page_has_a_row_for_each_party() -> None:
    text = PAGE.read_text("utf-8")
    for title in (
        "Clients",
        "Web pages",
        "Other tenants",
        "Operators",
        "Upstreams",
        "Stores and hosts",
        "Supply chain",
    ):
        assert f"\n## {title}" in text
    assert len(rows()) >= 30

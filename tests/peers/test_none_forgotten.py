"""Every failure that users of other gateways reported has a test of its name here, or a reason why not yet."""

from __future__ import annotations

import ast
import re
from pathlib import Path

GROUPS = {
    "A": range(1, 7),
    "B": range(10, 18),
    "C": range(20, 29),
    "D": range(30, 32),
    "E": range(40, 48),
}
"""The numbers of the groups that concern translation itself."""

LATER = {
    "T16": "encrypted reasoning items and their ids exist in Responses only",
    "T17": "the shape of replayed reasoning items concerns Responses only",
    "T25": "`response.done` is an alias of a Responses event",
}
"""Reports that only concern the Responses dialect."""

_NAMED = re.compile(r"test_(T\d\d)_\w+\Z")


def _tests() -> list[tuple[str, ast.FunctionDef]]:
    files = sorted(Path(__file__).parent.glob("test_*.py"))
    nodes = [node for path in files for node in ast.parse(path.read_text("utf-8")).body]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    return [(name[1], node) for node in functions if (name := _NAMED.match(node.name))]


def test_every_report_has_a_test_or_a_reason() -> None:
    wanted = {f"T{number:02}" for group in GROUPS.values() for number in group}
    named = {name for name, _ in _tests()}
    assert named | LATER.keys() == wanted
    assert not named & LATER.keys()


def test_every_test_tells_the_users_symptom() -> None:
    assert not [node.name for _, node in _tests() if not ast.get_docstring(node)]

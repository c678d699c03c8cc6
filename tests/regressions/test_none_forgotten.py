"""Every failure that users of other gateways reported has a test of its name here."""

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
    "F": range(50, 52),
}
"""The numbers of the groups that concern translation itself."""
BESIDE = {"G": range(60, 63), "H": range(70, 79), "I": range(80, 82)}
"""Those of the groups that concern what stands around it: endpoints, connections, load, caches."""

_NAMED = re.compile(r"test_(T\d\d)_\w+\Z")
_REPORT = re.compile(r"[\w.-]+/[\w.-]+#\d+")


def _modules() -> dict[str, list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]]:
    """The named tests of each module, with their numbers."""
    modules = {}
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        functions = [
            node
            for node in ast.parse(path.read_text("utf-8")).body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        modules[path.stem] = [(name[1], node) for node in functions if (name := _NAMED.match(node.name))]
    return modules


def test_every_report_has_a_test() -> None:
    wanted = {f"T{number:02}" for group in [*GROUPS.values(), *BESIDE.values()] for number in group}
    assert {name for tests in _modules().values() for name, _ in tests} == wanted


def test_every_report_has_a_test_where_responses_is_a_side() -> None:
    """Two dialects were there first: whatever their users suffered must not come back by the third."""
    wanted = {f"T{number:02}" for group in [*GROUPS.values(), *BESIDE.values()] for number in group}
    later = {module: tests for module, tests in _modules().items() if module not in BEFORE_RESPONSES}
    assert {name for tests in later.values() for name, _ in tests} == wanted


BEFORE_RESPONSES = {
    "test_envelopes",
    "test_life_cycle",
    "test_refused_requests",
    "test_thinking",
    "test_tool_calls",
    "test_usage",
}
"""Modules whose tests concern Chat and Messages only."""


def test_every_test_reports_the_users_symptom() -> None:
    nodes = [node for tests in _modules().values() for _, node in tests]
    assert not [node.name for node in nodes if not ast.get_docstring(node)]


def test_every_number_names_a_report() -> None:
    noted: dict[str, bool] = {}
    for name, node in (test for tests in _modules().values() for test in tests):
        noted[name] = noted.get(name, False) or bool(_REPORT.search(ast.get_docstring(node) or ""))
    assert all(noted.values()), noted

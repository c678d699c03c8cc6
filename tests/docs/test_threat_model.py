"""docs/explanation/threat-model.md: each threat has a control, each limit a test; the named tests exist and run."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from dragoman.limits import Limits
from dragoman_server.config.overload import Overload
from support.named_tests import is_run
from support.paths import ROOT

PAGE = ROOT / "docs" / "explanation" / "threat-model.md"
_REFERENCE = re.compile(r"`(tests/[\w/.]+)::(\w+)`")


def rows(first: str = "threat") -> list[list[str]]:
    """The rows of the tables whose first column has this title."""
    found, inside = [], False
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith(f"| {first} |"):
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and not line.startswith("|---"):
            found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


BOTH = [*rows(), *rows("limit")]


@pytest.mark.parametrize("row", BOTH, ids=[row[0] for row in BOTH])
def test_a_row_has_a_control_and_tests(row: list[str]) -> None:
    threat, control, tests = row
    assert threat
    assert control
    assert tests.startswith("`tests/")
    assert tests.count("`tests/") == len(_REFERENCE.findall(tests)), "a test is named with its file"
    for path, name in _REFERENCE.findall(tests):
        assert is_run(ROOT / path, name), f"{path} has no test {name}"


def test_each_limit_of_the_configuration_has_a_row() -> None:
    named = {name for row in rows("limit") for name in re.findall(r"`([\w.]+)`", row[0])}
    assert {field.name for field in fields(Limits)} <= named
    assert {f"overload.{field.name}" for field in fields(Overload)} <= named


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

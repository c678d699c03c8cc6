"""docs/reference/reliability.md: each promise has a figure and a date, and its command or test exists."""

from __future__ import annotations

import re
import shlex

import pytest

from dragoman_proof import cli
from support.named_tests import is_run
from support.paths import ROOT

PAGE = (ROOT / "docs" / "reference" / "reliability.md").read_text("utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("|") and not line.startswith(("| promise |", "| ---"))
]
_PROOF = "python -m dragoman_proof "
_MACHINES = set(re.findall(r"^Machine (\w):", PAGE, re.MULTILINE))


@pytest.mark.parametrize("row", ROWS, ids=[row[0][:60] for row in ROWS])
def test_a_promise_has_a_figure_and_what_measures_it(row: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    promise, figure, when, measured = row
    assert promise.endswith(".")
    assert re.search(r"\d", figure), "a figure"
    date, machine = when.split(", ")
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", date)
    assert machine in _MACHINES
    commands = re.findall(r"`([^`]+)`", measured)
    assert commands
    for command in commands:
        check(command, capsys)


def check(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Fail if a command cannot be run, or names a test that does not exist."""
    if command.startswith(_PROOF):
        name, *options = command.removeprefix(_PROOF).split()
        with pytest.raises(SystemExit) as ended:
            cli.main([name, "--help"])
        assert ended.value.code == 0
        shown = capsys.readouterr().out
        assert all(option in shown for option in options if option.startswith("--"))
        return
    words = [word for word in shlex.split(command) if word.startswith("tests/")]
    assert words, command
    for path, _, name in (word.partition("::") for word in words):
        assert (ROOT / path).is_file(), path
        assert not name or is_run(ROOT / path, name), f"{path} has no test {name}"


def test_the_page_has_the_proofs() -> None:
    assert len(ROWS) >= 10
    assert {"faults", "controls"} <= set(re.findall(r"dragoman_proof (\w+)", PAGE))

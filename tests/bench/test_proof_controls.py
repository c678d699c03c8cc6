"""The controls that `python -m dragoman_proof controls` removes: each edit applies, and verdicts are right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dragoman_proof import cli
from dragoman_proof.controls import command
from dragoman_proof.controls.edits import CONTROLS, Control, Edit, EditFails
from dragoman_proof.controls.run import Verdict, try_all
from support.paths import ROOT

THREATS = (ROOT / "docs" / "explanation" / "threat-model.md").read_text("utf-8")
FILE = "engine/dragoman/flag.py"
TESTED = """
from pathlib import Path

def test_flag() -> None:
    assert Path("engine/dragoman/flag.py").read_text() == "ON = True\\n"

def test_nothing() -> None:
    assert True

def test_broken() -> None:
    assert False
"""


@pytest.mark.parametrize("control", CONTROLS, ids=[control.name for control in CONTROLS])
def test_an_edit_applies_once_and_leaves_python(control: Control) -> None:
    text = control.edit.apply(ROOT)
    compile(text, control.edit.file, "exec")
    assert text != (ROOT / control.edit.file).read_text("utf-8")


@pytest.mark.parametrize("control", CONTROLS, ids=[control.name for control in CONTROLS])
def test_the_threat_model_names_the_test(control: Control) -> None:
    assert f"`{control.test}`" in THREATS


def test_there_are_ten_controls_of_all_parts() -> None:
    assert len(CONTROLS) >= 10
    assert len({control.name for control in CONTROLS}) == len(CONTROLS)
    assert len({control.edit.file for control in CONTROLS}) >= 8


@pytest.mark.parametrize("text", ["", "x = 1\n", "ON = True\nON = True\n"])
def test_a_text_that_is_not_there_once_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "file.py").write_text(text)
    with pytest.raises(EditFails, match="times"):
        Edit("file.py", "ON = True", "ON = False").apply(tmp_path)


@pytest.mark.whole
def test_verdicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A control is proven only if its test passes with it and fails without it."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the plugins take most of the time of six processes
    for name in ("engine/dragoman", "server", "bench", "tests", "docs"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / FILE).write_text("ON = True\n")
    (tmp_path / "tests" / "test_flag.py").write_text(TESTED)
    edit = Edit(FILE, "ON = True", "ON = False")
    proven = Control("a flag", edit, "tests/test_flag.py::test_flag")
    tried = [
        proven,
        *(replace(proven, test=f"tests/test_flag.py::{name}") for name in ("test_nothing", "test_broken", "test_no")),
    ]
    found = [(verdict.passes, verdict.fails) for verdict in try_all(tried, tmp_path)]
    assert found == [(True, True), (True, False), (False, False), (False, False)]
    assert (tmp_path / FILE).read_text() == "ON = True\n"


def test_the_command_fails_if_a_control_is_not_proven(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = CONTROLS[:2]
    verdicts = [Verdict(first, True, True, ""), Verdict(second, True, False, "1 passed")]
    monkeypatch.setattr(command, "try_all", lambda controls: iter(verdicts))
    assert cli.main(["controls"]) == 1
    shown = capsys.readouterr().out
    assert f"1 of {len(CONTROLS)} controls" in shown
    assert "1 passed" in shown
    monkeypatch.setattr(command, "try_all", lambda controls: iter(verdicts[:1]))
    assert cli.main(["controls"]) == 0
    assert cli.main(["controls", "--only", "no such control"]) == 1


@pytest.mark.whole
def test_a_removed_control_is_noticed() -> None:
    """One control for all; the command tries each."""
    [verdict] = try_all([control for control in CONTROLS if "WebSocket" in control.name])
    assert verdict.holds, verdict.output

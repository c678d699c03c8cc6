"""The load proofs of `dragoman_proof`: a sample of each scenario holds, by counts; the limit of open files is named."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman_proof import cli
from dragoman_proof.load import sizes
from dragoman_proof.load.command import SCENARIOS
from dragoman_proof.load.neighbours import ratio_of
from dragoman_proof.load.outcome import Outcome
from dragoman_proof.load.report import lines, save
from dragoman_proof.load.sizes import SAMPLE, TooFewFiles, files_needed, fitting


@pytest.mark.whole
@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_sample_of_each_scenario_holds(name: str) -> None:
    outcome = await SCENARIOS[name](SAMPLE)
    assert outcome.held, lines(outcome)
    assert len(outcome.checks) >= 1
    assert outcome.figures


def test_fewer_streams_than_files_allow_are_opened_with_a_remark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "open_files_limit", lambda: 1128)
    assert fitting(500, 1) == (500, "")
    count, remark = fitting(10_000, 1)
    assert count == 500
    assert "need `ulimit -n 20128` or more, and it is 1128: 500 streams were opened" in remark
    assert fitting(10_000, 2)[0] == 970
    monkeypatch.setattr(sizes, "open_files_limit", lambda: 128)
    with pytest.raises(TooFewFiles, match="raise it"):
        fitting(10_000, 1)


def test_a_stream_without_a_client_has_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "open_files_limit", lambda: 20_000)
    assert fitting(20_000, 2)[0] == 19_275
    assert fitting(20_000, 2, detached=1_500) == (20_000, "")
    assert fitting(10_000, 1, detached=200) == (10_000, "")


@pytest.mark.whole
async def test_streams_whose_clients_have_left_are_complete() -> None:
    outcome = await SCENARIOS["open-2"](replace(SAMPLE, detached=10))
    assert outcome.held, lines(outcome)
    assert "10 are runs" in outcome.about


@pytest.mark.parametrize("workers", [1, 2])
def test_the_named_limit_is_enough(monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    needed = files_needed(20_000, workers)
    monkeypatch.setattr(sizes, "open_files_limit", lambda: needed + 2)
    assert fitting(20_000, workers) == (20_000, "")


def test_an_outcome_is_written(tmp_path: Path) -> None:
    outcome = Outcome("open-1", "streams", {"memory": [{"streams": 10, "worker_bytes": [5_000_000]}], "x": 1.5})
    outcome.check("all complete", False, "9 of 10")
    place = save([outcome.ended()], tmp_path)
    assert json.loads((place / "results.json").read_text())["scenarios"][0]["checks"][0]["found"] == "9 of 10"
    page = (place / "README.md").read_text()
    assert "## open-1: does not hold" in page
    assert "| all complete | **no** | 9 of 10 |" in page
    assert "| `x` | 1.50 |" in page
    assert "10 streams" in (place / "memory.svg").read_text()


def test_an_unknown_scenario_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["load", "--scenarios", "quiet"]) == 2
    assert "no scenario is named 'quiet'; known: stopped" in capsys.readouterr().err


def test_the_command_prints_verdicts(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["load", "--scenarios", "leaving", "--sample"]) == 0
    assert "leaving: holds" in capsys.readouterr().out


def test_a_window_is_compared_with_those_around_it() -> None:
    """Other work that slows all three windows of a turn changes no ratio."""
    assert ratio_of([1.0, 1.0, 1.0], [1.1, 1.1]) == pytest.approx(1.1)
    assert ratio_of([1.0, 3.0, 9.0, 9.0], [2.2, 6.6, 9.9]) == pytest.approx(1.1)
    with pytest.raises(ValueError, match="zip"):
        ratio_of([1.0], [1.0])


def test_an_unknown_load_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["load", "--scenarios", "neighbours", "--loads", "nothing"]) == 2
    assert "no load is named 'nothing'; known: stopped, slow" in capsys.readouterr().err

"""The inputs that fuzzing has kept break no promise, and the fuzzer's parts work without atheris."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from dragoman_proof import cli
from dragoman_proof.fuzz import command, corpus, run, totals
from dragoman_proof.fuzz.finds import Finds
from dragoman_proof.fuzz.mutate import Trees, changed_json, changed_stream
from dragoman_proof.fuzz.target import MODULES, PromiseBroken, load, pieces, require
from support.stages import is_second, some_of

_SAMPLE = 60
"""Inputs of a target that the first stage replays."""
_SECOND = 200
"""Inputs of a target that the second stage replays. With `-m ""` it is all of them."""
_MOST_BYTES = 5_000_000
_KEPT = sorted(path.stem for path in corpus.FOLDER.glob("*.zip"))


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def _replay(name: str, inputs: list[bytes]) -> None:
    target = load(name)
    for data in inputs:
        try:
            target.check(data)
        except Exception as error:
            error.add_note(f"the input is {data!r}")
            raise


@pytest.mark.few
@pytest.mark.parametrize("name", _KEPT)
def test_a_sample_of_what_is_kept_breaks_no_promise(name: str) -> None:
    inputs = corpus.kept(name)
    assert inputs
    _replay(name, inputs[:: max(1, len(inputs) // _SAMPLE)])


@pytest.mark.whole
@pytest.mark.parametrize("name", _KEPT)
def test_what_is_kept_breaks_no_promise(name: str) -> None:
    inputs = corpus.kept(name)
    _replay(name, list(some_of(inputs, _SECOND)) if is_second() else inputs)


@pytest.mark.few
@pytest.mark.parametrize("name", MODULES)
def test_seeds_break_no_promise_and_mutations_change_them(name: str) -> None:
    target = load(name)
    for data in target.seeds[:10]:
        target.check(data)
    if target.mutate is not None:
        changed = [target.mutate(data, target.seeds[0], Random(1)) for data in target.seeds[:10]]
        assert any(data is not None and data not in target.seeds for data in changed)


def test_the_corpus_is_small_and_written_alike(tmp_path: Path) -> None:
    assert sum(path.stat().st_size for path in corpus.FOLDER.glob("*.zip")) < _MOST_BYTES
    inputs = [b"bb", b"a", b"a"]
    assert corpus.keep("x", inputs, tmp_path) == 2
    first = (tmp_path / "x.zip").read_bytes()
    corpus.keep("x", reversed(inputs), tmp_path)
    assert (tmp_path / "x.zip").read_bytes() == first


def test_failures_of_one_kind_are_kept_once_and_the_shortest_of_them(tmp_path: Path) -> None:
    finds = Finds(tmp_path, "sse")
    for data in (b"long", b"no", b"longer"):
        try:
            require(False, "it holds")
        except PromiseBroken as error:
            finds.add(data, error)
    assert len(finds) == 1
    (path,) = [path for path in tmp_path.iterdir() if path.suffix != ".txt"]
    assert path.read_bytes() == b"no"
    assert "it holds" in path.with_suffix(".txt").read_text("utf-8")


def test_pieces_join_to_the_input() -> None:
    for split in pieces(b"data: x\n\n"):
        assert b"".join(split) == b"data: x\n\n"


def test_mutations_keep_the_structure() -> None:
    trees = Trees(["word"])
    for seed in range(200):
        changed = changed_json(trees, b'{"a":[1,{"b":"c"}]}', b'{"d":{"e":2}}', Random(seed))
        assert changed is not None
        json.loads(changed)
        stream = changed_stream(
            trees, b'data: {"a":1}\n\n: c\n\ndata: {"b":"x"}\n\n', b'data: {"c":[]}\n\n', Random(seed)
        )
        assert stream is not None
    assert changed_json(trees, b"{", b"{}", Random(1)) is None


def test_figures_of_runs_are_added_up(tmp_path: Path) -> None:
    path, page = tmp_path / "fuzz.json", tmp_path / "page.md"
    page.write_text("| What reads bytes from outside is fuzzed. | none | 2026-01-01, A | `x` |\n", "utf-8")
    for name, edges, finds in (("sse", 210, 1), ("sse", 200, 0), ("sse", 200, 0), ("forms", 200, 0)):
        totals.save(run.Run(name, 1800.4, 1000, 200, edges, finds, 40), path, page)
    sse, forms = totals.read(path)
    assert (sse.runs, sse.cpu_seconds, sse.executions, sse.finds, sse.inputs) == (3, 5400, 3000, 1, 40)
    assert (sse.edges, sse.quiet_seconds, forms.quiet_seconds) == (200, 3600, 1800)
    figure = "2 targets, 4,000 executions in 2.00 hours of CPU; 1 inputs found, repaired"
    assert page.read_text("utf-8") == (
        f"| What reads bytes from outside is fuzzed. | {figure} | {forms.date}, A | `x` |\n"
    )


def test_the_page_has_the_saved_totals() -> None:
    saved = totals.read()
    assert {total.target for total in saved} <= set(MODULES)
    assert f"| {totals.figure(saved)} |" in totals.PAGE.read_text("utf-8")


def test_without_the_fuzzer_the_command_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "is_installed", lambda: False)
    assert cli.main(["fuzz", "sse"]) == 2
    assert "--extra fuzz" in capsys.readouterr().err


def test_a_fuzzer_finds_what_breaks_a_promise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("atheris", reason=run.MISSING)
    done = run.fuzz("sse", 2, None, tmp_path, keeps=False)
    assert done.executions > 0
    assert done.edges > 100
    assert (done.finds, list(tmp_path.iterdir())) == (0, [])

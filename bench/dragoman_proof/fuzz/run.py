"""Runs the process that fuzzes a target, and reads its figures."""

from __future__ import annotations

import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from dragoman_proof.fuzz import corpus
from dragoman_proof.fuzz.target import load

MISSING: Final = "atheris is not installed: uv sync --extra fuzz. It has wheels for Linux and CPython 3.11 to 3.13."
_SECONDS_OF_ONE: Final = 60
"""An input that takes longer is a find. On a busy machine a second of CPU may take many."""
_MEMORY: Final = 2048
"""Megabytes of the process; an input that makes it take more is a find."""
_WALL: Final = 10
"""A run may take so many times its seconds: on a busy machine the inputs of a corpus alone take minutes."""
_MERGE_SECONDS: Final = 900
_EDGES = re.compile(r"#\d+\s+(\w+)\s+cov: (\d+)")
_EXECUTIONS = re.compile(r"stat::number_of_executed_units: (\d+)")


@dataclass(frozen=True, slots=True)
class Run:
    """The figures of a run. `cpu` are seconds; `begun` is the number of edges that the first inputs reach."""

    target: str
    cpu: float
    executions: int
    begun: int
    edges: int
    finds: int
    inputs: int
    """Inputs that are kept of it; those that were there before if none were kept."""

    def __str__(self) -> str:
        edges = f"{self.edges} edges ({self.edges - self.begun} new)"
        return f"{self.target}: {self.executions} executions, {self.cpu:.0f} s of CPU, {edges}, {self.finds} finds"


def is_installed() -> bool:
    """True if there is a fuzzer for this Python."""
    return find_spec("atheris") is not None


def fuzz(name: str, seconds: int, folder: Path | None, finds: Path, *, keeps: bool) -> Run:
    """Fuzz a target for some seconds. `folder` is the corpus to work in; a temporary one without.

    Inputs that break a promise are written to `finds`. With `keeps`, the smallest inputs that reach all that was
    reached are kept in the checkout.
    """
    with tempfile.TemporaryDirectory() as own:
        work = folder or Path(own, "corpus")
        target = load(name)
        corpus.write_all(work, (*target.seeds, *corpus.kept(name)))
        words = Path(own, "words")
        words.write_text("".join(f'"{_escaped(word)}"\n' for word in target.words), "ascii")
        program = _program(Path(own, "fuzz"), name, finds)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        found = set(finds.glob("*"))
        flags = [
            f"-max_total_time={seconds}",
            f"-max_len={target.longest}",
            f"-dict={words}",
            "-len_control=0",
            str(work),
        ]
        output = _call(program, finds, flags, _WALL * (seconds + 120))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        inputs = _keep(name, program, finds, work, Path(own, "merged")) if keeps else len(corpus.kept(name))
        edges = [(event, int(count)) for event, count in _EDGES.findall(output)]
        if not edges:
            raise SystemExit(f"the fuzzer did not start:\n{output[-3000:]}")
        executions = _EXECUTIONS.search(output)
        return Run(
            name,
            after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            int(executions[1]) if executions is not None else 0,
            next((count for event, count in edges if event == "INITED"), 0),
            max(count for _, count in edges),
            len([path for path in set(finds.glob("*")) - found if path.suffix != ".txt"]),
            inputs,
        )


def _program(path: Path, name: str, finds: Path) -> Path:
    """Write a program that fuzzes. libFuzzer starts it by its name when it merges."""
    call = shlex.join([sys.executable, "-m", "dragoman_proof.fuzz.process", str(path), name, str(finds)])
    path.write_text(f'#!/bin/sh\nexec {call} "$@"\n', "ascii")
    path.chmod(0o700)
    return path


def _call(program: Path, finds: Path, flags: list[str], seconds: float) -> str:
    """Run libFuzzer. Return what it printed."""
    finds.mkdir(parents=True, exist_ok=True)
    common = [
        f"-timeout={_SECONDS_OF_ONE}",
        f"-report_slow_units={_SECONDS_OF_ONE}",
        f"-rss_limit_mb={_MEMORY}",
        f"-artifact_prefix={finds}/",
        "-print_final_stats=1",
    ]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        [program, *common, *flags], capture_output=True, timeout=seconds, env=environment, check=False
    )
    return (done.stdout + done.stderr).decode("utf-8", "replace")


def _keep(name: str, program: Path, finds: Path, work: Path, merged: Path) -> int:
    """Keep the inputs of a corpus that are needed to reach what all of it reaches."""
    merged.mkdir()
    output = _call(program, finds, ["-merge=1", str(merged), str(work)], _MERGE_SECONDS)
    inputs = corpus.read_all(merged)
    if not inputs:
        raise SystemExit(f"the corpus cannot be merged:\n{output[-3000:]}")
    return corpus.keep(name, inputs)


def _escaped(word: bytes) -> str:
    return "".join(chr(byte) if 0x20 <= byte < 0x7F and byte not in b'"\\' else f"\\x{byte:02x}" for byte in word)

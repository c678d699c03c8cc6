"""Runs the test of each control in a copy of the checkout, with the control and without it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from compileall import compile_dir
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from dragoman_proof.controls.edits import Control

ROOT: Final = Path(__file__).parents[3]
_FOLDERS: Final = ("engine", "server", "bench", "tests", "docs", ".ci")
_COMPILED: Final = ("engine", "server")
_FILES: Final = ("pyproject.toml", "README.md", "CONTRIBUTING.md", "LICENSE", "uv.lock")
_SECONDS: Final = 600
_PASSED, _FAILED = 0, 1
"""Exit statuses of pytest. Any other one is no verdict: an error of collection, or no test."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The results of a control's test: `passes` with it, `fails` without it. `output` is the end of what it wrote."""

    control: Control
    passes: bool
    fails: bool
    output: str

    @property
    def holds(self) -> bool:
        """True if the test proves the control."""
        return self.passes and self.fails


def try_all(controls: Sequence[Control], root: Path = ROOT) -> Iterator[Verdict]:
    """Yield a verdict on each control of the checkout at `root`. Raises EditFails."""
    edited = [(control, control.edit.apply(root)) for control in controls]
    with _copy(root) as scratch:
        for control, text in edited:
            passed, output = _test(scratch, control.test)
            if passed != _PASSED:
                yield Verdict(control, False, False, output)
                continue
            file = scratch / control.edit.file
            kept = file.read_text("utf-8")
            file.write_text(text, "utf-8")
            try:
                failed, output = _test(scratch, control.test)
            finally:
                file.write_text(kept, "utf-8")
            yield Verdict(control, True, failed == _FAILED, output)


@contextmanager
def _copy(root: Path) -> Iterator[Path]:
    """Copy what the tests need, and remove it at the end."""
    with TemporaryDirectory(prefix="dragoman-controls-") as folder:
        scratch = Path(folder)
        for name in filter(lambda each: (root / each).exists(), _FOLDERS):
            ignored = shutil.ignore_patterns("__pycache__", "results")
            shutil.copytree(root / name, scratch / name, ignore=ignored, symlinks=True)
        for name in filter(lambda each: (root / each).exists(), _FILES):
            shutil.copy(root / name, scratch / name)
        # Tests that measure memory do not expect that modules are compiled meanwhile.
        for name in _COMPILED:
            compile_dir(scratch / name, quiet=2)
        yield scratch


def _test(scratch: Path, test: str) -> tuple[int, str]:
    """Run a test against the copy. Returns pytest's exit status and the end of its output."""
    paths = [str(scratch / name) for name in ("engine", "server", "bench")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "", test]
    done = subprocess.run(
        command, cwd=scratch, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    return done.returncode, (done.stdout + done.stderr)[-3000:]

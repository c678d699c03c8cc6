"""Mutated inputs are no defect in this build, and give the same in the compiled one.

The second test needs DRAGOMAN_COMPILED_PYTHON: the interpreter of an environment with the compiled wheel.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from compiled.compare import differences
from compiled.outputs import line

COMPILED = os.environ.get("DRAGOMAN_COMPILED_PYTHON", "")


def test_mutated_inputs_are_no_defect() -> None:
    lines = [line(1, number) for number in range(1500)]
    assert [text for text in lines if text.startswith("defect")] == []


@pytest.mark.skipif(not COMPILED, reason="DRAGOMAN_COMPILED_PYTHON is not set")
def test_the_builds_agree() -> None:
    command = [COMPILED, "-c", "from dragoman.gateway import BUILD; print(BUILD)"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "compiled\n"
    assert differences((sys.executable, COMPILED), seed=1, first=0, cases=3000) == []

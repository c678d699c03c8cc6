"""The profile by Python function, of outputs as callgrind writes them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dragoman_bench.instructions.functions import ROOT, Calls, Profile, names_of, read_profile

PERF_MAP = """\
5000 b py::Handler.start:/usr/lib/python3.13/site-packages/aiohttp/web.py
50a0 b py::Gateway._answer:/home/someone/engine/dragoman/gateway.py
50b0 b py::encode:/home/someone/server/dragoman_server/text.py
9000 40 not a function of Python
"""
START, ANSWER, ENCODE = (
    "Handler.start [aiohttp/web.py]",
    "Gateway._answer [dragoman/gateway.py]",
    "encode [dragoman_server/text.py]",
)
OUTPUT = """\
# callgrind format
events: Ir

fn=(1) py_trampoline_evaluator'_PyEval_Vector'task_step
1 20
cfn=(2) 0x0000000000005000
calls=2 7
* 1000

fn=(2)
3 40
cfn=(3) _PyEval_EvalFrameDefault
calls=2 9
* 960

fn=(4) py_trampoline_evaluator'_PyEval_Vector'_PyEval_EvalFrameDefault'0x0000000000005000'py_trampoline_evaluator
1 20
cfn=(5) 0x00000000000050a0
calls=2 7
+3 600

fn=(6) py_trampoline_evaluator'_PyEval_Vector'_PyEval_EvalFrameDefault'0x00000000000050a0
2 20
cfn=(7) 0x00000000000050b0
calls=4 7
-1 100
cfn=(7)
calls=1 7
-1 50
"""


def test_names_are_short_paths() -> None:
    assert names_of(PERF_MAP) == {0x5000: START, 0x50A0: ANSWER, 0x50B0: ENCODE}


def test_calls_are_those_between_functions_of_python() -> None:
    profile = read_profile(OUTPUT, names_of(PERF_MAP))
    assert profile.functions == {START: Calls(2, 1000), ANSWER: Calls(2, 600), ENCODE: Calls(5, 150)}
    assert profile.callees == {
        ROOT: {START: Calls(2, 1000)},
        START: {ANSWER: Calls(2, 600)},
        ANSWER: {ENCODE: Calls(5, 150)},
    }
    assert [profile.own(name) for name in (START, ANSWER, ENCODE)] == [400, 450, 150]


def test_the_tree_leaves_out_small_calls_and_divides() -> None:
    lines = [*read_profile(OUTPUT, names_of(PERF_MAP)).tree("^Handler", 100, 2)]
    assert [line.split() for line in lines] == [
        ["500", "200", "1.0", *START.split()],
        ["300", "225", "1.0", *ANSWER.split()],
    ]
    assert lines[1].index("Gateway") == lines[0].index("Handler") + 2


def test_a_function_that_calls_itself_ends_its_branch() -> None:
    profile = Profile({"f": Calls(2, 10)}, {"f": {"f": Calls(1, 4)}})
    assert len([*profile.tree("f", 0)]) == 2


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python names its functions")
def test_a_python_that_does_not_name_functions_is_refused() -> None:
    script = Path(__file__).parents[2] / "bench" / "micro" / "functions_cost.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Python 3.12 or later is needed" in done.stderr

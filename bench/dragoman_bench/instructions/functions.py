"""Instructions by Python function: callgrind's calls, in which CPython's perf trampolines are the functions' names.

Since Python 3.12, `python -X perf` calls each Python function through a piece of machine code of its own, and writes
the names of these pieces to `/tmp/perf-PID.map`. callgrind knows a piece by its address. A piece and what it calls in C
count for the function; another piece that is called further down begins another function.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

CALLGRIND = ("--separate-recs=1", "--separate-callers14=py_trampoline_evaluator")
"""Options of callgrind. A piece is called by this function of CPython, whose 14 callers reach up to the last piece."""
PYTHON = ("-X", "perf")
_NAME = re.compile(r"\((\d+)\)(?: (.*))?$")
_ADDRESS = re.compile(r"0x([0-9a-f]+)$")
_FUNCTION = re.compile(r"py::(.*):(.*?)$")
_FOLDER = re.compile(r".*/(?=dragoman(?:_server)?/)|.*/site-packages/|.*/lib/python3\.\d+/")
_EVALUATOR = "py_trampoline_evaluator'"
ROOT = "(the event loop)"
"""The caller of functions that no other Python function calls."""


@dataclass(slots=True)
class Calls:
    """Number of calls, and their instructions with those of everything called."""

    number: int = 0
    instructions: int = 0

    def add(self, number: int, instructions: int) -> None:
        """Count further calls."""
        self.number += number
        self.instructions += instructions


@dataclass(slots=True)
class Profile:
    """Calls of Python functions. `callees` has those of each function by the called one."""

    functions: dict[str, Calls] = field(default_factory=dict)
    callees: dict[str, dict[str, Calls]] = field(default_factory=dict)

    def own(self, function: str) -> int:
        """Return the instructions of a function without those of the Python functions that it calls."""
        called = sum(calls.instructions for calls in self.callees.get(function, {}).values())
        return self.functions[function].instructions - called

    def tree(self, roots: str, least: int, times: int = 1) -> Iterator[str]:
        """Yield a line for each call below the functions whose names match the pattern `roots`.

        The figures are inclusive instructions, own instructions, and calls, divided by `times`. Calls of fewer than
        `least` instructions are left out. A function with several callers is shown under each with its own share, and
        what it calls under each as a whole.
        """
        pattern = re.compile(roots)
        for name, calls in sorted(self.functions.items(), key=lambda each: -each[1].instructions):
            if pattern.search(name):
                yield from self._lines(name, calls, least * times, times, ())

    def _lines(self, name: str, calls: Calls, least: int, times: int, above: tuple[str, ...]) -> Iterator[str]:
        figures = f"{calls.instructions // times:>10,} {self.own(name) // times:>10,} {calls.number / times:>7.1f}"
        yield f"{figures} {'  ' * len(above)}{name}"
        if name in above:
            return
        for callee, inner in sorted(self.callees.get(name, {}).items(), key=lambda each: -each[1].instructions):
            if inner.instructions >= least:
                yield from self._lines(callee, inner, least, times, (*above, name))


def names_of(perf_map: str) -> dict[int, str]:
    """Return the names of functions by address, from the text of a perf map."""
    names = {}
    for line in perf_map.splitlines():
        address, _, name = line.split(" ", 2)
        if (found := _FUNCTION.match(name)) is not None:
            names[int(address, 16)] = f"{found[1]} [{_FOLDER.sub('', found[2])}]"
    return names


def read_profile(output: str, names: Mapping[int, str]) -> Profile:
    """Return the profile of an output of callgrind: see its manual, "Callgrind Format Specification"."""
    profile, known = Profile(), dict[str, str]()

    def resolve(token: str) -> str:
        """Return a function's name with its callers, of which each is a name or an address."""
        found = _NAME.match(token)
        if found is None:
            return token
        if found[2]:
            parts = found[2].split("'")
            known[found[1]] = "'".join(
                names.get(int(address[1], 16), part) if (address := _ADDRESS.match(part)) else part for part in parts
            )
        return known.get(found[1], token)

    caller = callee = ""
    functions = frozenset(names.values())
    lines = iter(output.splitlines())
    for line in lines:
        if line.startswith("fn="):
            caller = resolve(line[3:])
        elif line.startswith("cfn="):
            callee = resolve(line[4:])
        elif line.startswith("calls="):
            number, instructions = int(line[6:].split()[0]), int(next(lines).split()[-1])
            if callee in functions and caller.startswith(_EVALUATOR):
                above = next((part for part in caller.split("'")[1:] if part in functions), ROOT)
                profile.functions.setdefault(callee, Calls()).add(number, instructions)
                profile.callees.setdefault(above, {}).setdefault(callee, Calls()).add(number, instructions)
    return profile

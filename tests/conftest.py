"""Hypothesis profiles, and the marks of the stages (`support.stages`).

The first stage has the profile `sample`, the second one `whole`; `DRAGOMAN_HYPOTHESIS` chooses another one. `deep` is
for a whole night. `deep-run` tries as many examples, but neither shrinks a failing one nor keeps any, so that its time
is known:

    DRAGOMAN_HYPOTHESIS=deep-run pytest tests/properties/test_law_grammar.py -n auto
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers

from support import stages
from support.authorities import leave_out_authorities
from support.stages import WHOLE

# Before anyone imports them: the judges of `conformance` assert, and the sessions of `real_clients` use some of them.
_JUDGES = ("arrived", "broken", "judges", "judges_responses", "replies", "rounds", "speaker_chat", "speaker_messages")
pytest.register_assert_rewrite(*(f"conformance.{name}" for name in (*_JUDGES, "speaker_responses")))

_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)
_REPEATABLE: dict[str, Any] = {"deadline": None, "derandomize": True, "database": None, "suppress_health_check": _SLOW}
settings.register_profile("sample", max_examples=5, **_REPEATABLE)
settings.register_profile("whole", max_examples=25, **_REPEATABLE)
settings.register_profile("deep", deadline=None, max_examples=20_000, print_blob=True, suppress_health_check=_SLOW)
settings.register_profile(
    "deep-run",
    deadline=None,
    max_examples=20_000,
    database=None,
    derandomize=False,
    phases=(Phase.explicit, Phase.generate),
    print_blob=True,
    suppress_health_check=_SLOW,
)

TESTS = Path(__file__).parent

if sys.dont_write_bytecode:
    # Where the environment forbids bytecode next to the sources, it is kept with pytest's own files: without it each of
    # the workers and of some hundred processes compiles whatever it imports.
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(TESTS.parent / ".pytest_cache" / "bytecode")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix

M_MMAP_THRESHOLD, LARGE = -3, 1 << 18
COLLECTING = (100_000, 50, 1000)
"""Thresholds of the garbage collector while tests are collected: these are a million objects, and all stay."""
_thresholds = gc.get_threshold()
FAST = ("unit", "docs", "golden/test_requests.py")
"""Folders and files whose tests are fast, except for their properties."""


def pytest_configure(config: pytest.Config) -> None:
    """Choose the stage and its profile, before the modules with laws are imported."""
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):  # else glibc keeps large blocks that were freed
        mallopt(M_MMAP_THRESHOLD, LARGE)
    settings.load_profile(stages.choose(config.getoption("markexpr")))
    if not stages.many_examples():  # else each worker reads every module for the constants in it
        providers._get_local_constants = lambda: providers._local_constants
    leave_out_authorities()
    gc.set_threshold(*COLLECTING)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Start three workers on two cores: a third of a test's time is spent waiting."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + cores // 2


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Any:
    """Let every second worker import the modules from the last one on: each finds half of them compiled."""
    report = yield
    number = getattr(collector.config, "workerinput", {}).get("workerid", "gw0").removeprefix("gw")
    if int(number) % 2 and isinstance(collector, pytest.Directory):
        report.result.reverse()
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests of all workers into one order."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.path.parts)


def pytest_collection_finish() -> None:
    """Let the collector look at new objects only."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_thresholds)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let a worker without tests take those that wait at another one: a few tests take much longer than the rest."""
    from xdist.scheduler import WorkStealingScheduling  # type: ignore[import-untyped]

    return WorkStealingScheduling(config, log)


@cache
def is_fast(path: Path) -> bool:
    """True if a file or folder is fast, belongs to a fast one or contains one."""
    if not path.is_relative_to(TESTS):
        return False
    path = path.relative_to(TESTS)
    return any(path.is_relative_to(fast) or Path(fast).is_relative_to(path) for fast in FAST)


def is_law(item: pytest.Function) -> bool:
    """True for a test that runs in both stages."""
    return getattr(getattr(item, "obj", None), "is_hypothesis_test", False) or bool(item.get_closest_marker("law"))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore files that `-m "not slow"` leaves out: their import takes longer than many of the tests."""
    if config.getoption("markexpr") == "not slow" and TESTS in collection_path.parents and not is_fast(collection_path):
        return True
    return None


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Any:
    """Mark the rows of a test that the first stage leaves out as `whole`, and forget those that a stage does not run.

    pytest has no public name for rows. To forget items instead takes a worker ten seconds more.
    """
    yield
    rows, definition = metafunc._calls, metafunc.definition
    if len(rows) < 2 or definition.get_closest_marker("every_row") or (stages.is_second() and is_law(definition)):
        return
    marked = [row for row in rows if is_whole(row.marks)]
    short = [row for row in rows if not is_whole(row.marks)]
    values = [stages.values_of(row._idlist, row.params) for row in short]
    if definition.get_closest_marker(WHOLE):
        first = both = set()
    elif definition.get_closest_marker("turns"):
        first = both = {stages.turn(definition.path, len(short))} if short else set()
    elif definition.get_closest_marker("few"):
        first = both = stages.sample(values, stages.FEW)
    else:
        first, both = stages.first_rows(values), stages.both_rows(values)
    second = (both - first) | stages.second_rows([row.params for row in short], both)
    for number, row in enumerate(short):
        if number not in first:
            row.marks.append(pytest.mark.whole.mark)
    if metafunc.config.getoption("markexpr") == WHOLE:
        rows[:] = [*marked, *(short[number] for number in sorted(second))] or rows[:1]
    elif metafunc.config.getoption("markexpr") == f"not {WHOLE}":
        rows[:] = [short[number] for number in sorted(first)] or rows[:1]  # without rows, a test has no parameters


def is_whole(marks: Iterable[pytest.Mark]) -> bool:
    """True for the marks of a row that is left to the second stage."""
    return any(mark.name == WHOLE for mark in marks)


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector: pytest.Collector) -> Any:
    """Mark a test's items as `slow` and `whole`, and forget at once those of the other stage."""
    found = yield
    if not isinstance(found, list):
        return found
    expression = collector.config.getoption("markexpr")
    items = [item for item in found if isinstance(item, pytest.Function)]
    for item in items:
        mark(item)
    if expression in (WHOLE, f"not {WHOLE}"):
        left_out = {id(item) for item in items if bool(item.get_closest_marker(WHOLE)) is not (expression == WHOLE)}
        return [each for each in found if id(each) not in left_out]
    return found


def mark(item: pytest.Function) -> None:
    """Mark an item as `slow`, and a law as `whole` in the second stage."""
    law = is_law(item)
    if law and stages.is_second():
        item.add_marker(WHOLE)
    if law or not is_fast(item.path) or item.get_closest_marker(WHOLE):
        item.add_marker("slow")

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
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from support import stages
from support.stages import MATRICES, WHOLE

# Before anyone imports them: the judges of `conformance` assert, and the sessions of `real_clients` use some of them.
_JUDGES = ("arrived", "broken", "judges", "judges_responses", "replies", "rounds", "speaker_chat", "speaker_messages")
pytest.register_assert_rewrite(*(f"conformance.{name}" for name in (*_JUDGES, "speaker_responses")))

_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)
_REPEATABLE: dict[str, Any] = {"deadline": None, "derandomize": True, "database": None, "suppress_health_check": _SLOW}
settings.register_profile("sample", max_examples=5, **_REPEATABLE)
settings.register_profile("whole", max_examples=50, **_REPEATABLE)
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
FAST = ("unit", "docs", "golden/test_requests.py")
"""Folders and files whose tests are fast, except for their properties."""


def pytest_configure(config: pytest.Config) -> None:
    """Choose the stage and its profile, before the modules with laws are imported."""
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):  # else glibc keeps large blocks that were freed
        mallopt(M_MMAP_THRESHOLD, LARGE)
    settings.load_profile(stages.choose(config.getoption("markexpr")))


def pytest_collection_finish() -> None:
    """Let the collector look at new objects only: those of the collection are a million, and all stay."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let a worker without tests take those that wait at another one: a few tests take much longer than the rest."""
    from xdist.scheduler import WorkStealingScheduling  # type: ignore[import-untyped]

    return WorkStealingScheduling(config, log)


@cache
def is_fast(path: Path) -> bool:
    """True if a file or folder is fast, belongs to a fast one or contains one."""
    path = path.relative_to(TESTS)
    return any(path.is_relative_to(fast) or Path(fast).is_relative_to(path) for fast in FAST)


def is_law(item: pytest.Item) -> bool:
    """True for a test that runs in both stages."""
    return getattr(getattr(item, "obj", None), "is_hypothesis_test", False) or bool(item.get_closest_marker("law"))


@cache
def has_matrices(path: Path) -> bool:
    """True if each test of a file that is parametrized is a matrix."""
    return path.relative_to(TESTS).parts[0] in MATRICES


def is_matrix(item: pytest.Item) -> bool:
    """True for a test of which the first stage runs a sample."""
    return has_matrices(item.path) or bool(item.get_closest_marker("matrix"))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore files that `-m "not slow"` leaves out: their import takes longer than many of the tests."""
    if config.getoption("markexpr") == "not slow" and TESTS in collection_path.parents and not is_fast(collection_path):
        return True
    return None


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector: pytest.Collector) -> Any:
    """Mark a test's items as `slow` and `whole`, and forget at once those of the other stage."""
    found = yield
    if not isinstance(found, list):
        return found
    expression = collector.config.getoption("markexpr")
    items = [item for item in found if isinstance(item, pytest.Function)]
    mark(items)
    if expression in (WHOLE, f"not {WHOLE}"):
        left_out = {id(item) for item in items if bool(item.get_closest_marker(WHOLE)) is not (expression == WHOLE)}
        return [each for each in found if id(each) not in left_out]
    return found


def mark(items: list[pytest.Function]) -> None:
    """Mark the items of one test."""
    first = set(range(len(items)))
    if len(items) > 1 and items[0].get_closest_marker("turns"):
        first = {stages.turn(items[0].path, len(items))}
    elif len(items) > 1 and is_matrix(items[0]):
        first = stages.sample([stages.values_of(item.callspec._idlist, item.callspec.params) for item in items])
    for number, item in enumerate(items):
        if number not in first or (stages.is_second() and is_law(item)):
            item.add_marker(WHOLE)
        if not is_fast(item.path) or is_law(item) or item.get_closest_marker(WHOLE):
            item.add_marker("slow")

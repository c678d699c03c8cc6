"""Hypothesis profiles, chosen by `DRAGOMAN_HYPOTHESIS`: `fast` for every run, `deep` for the nightly one.

`deep-run` tries as many examples as `deep`, but neither shrinks a failing one nor keeps any, so that its time is known:

    DRAGOMAN_HYPOTHESIS=deep-run pytest tests/properties/test_law_grammar.py -n auto
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

# Before anybody imports them: the judges of `conformance` assert, and the sessions of `real_clients` use some of them.
_JUDGES = ("arrived", "broken", "judges", "judges_responses", "replies", "rounds", "speaker_chat", "speaker_messages")
pytest.register_assert_rewrite(*(f"conformance.{name}" for name in (*_JUDGES, "speaker_responses")))

_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)
settings.register_profile(
    "fast", deadline=None, max_examples=50, derandomize=True, database=None, suppress_health_check=_SLOW
)
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
settings.load_profile(os.environ.get("DRAGOMAN_HYPOTHESIS", "fast"))

TESTS = Path(__file__).parent
FAST = ("unit", "docs", "golden/test_requests.py")
"""Folders and files whose tests are fast, except for their properties."""


def is_fast(path: Path) -> bool:
    """True if a file or folder is fast, belongs to a fast one or contains one."""
    path = path.relative_to(TESTS)
    return any(path.is_relative_to(fast) or Path(fast).is_relative_to(path) for fast in FAST)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import what `-m "not slow"` leaves out: that takes longer than many of the tests."""
    if config.getoption("markexpr") == "not slow" and TESTS in collection_path.parents and not is_fast(collection_path):
        return True
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests as `slow` that the inner loop leaves out: properties, processes, real clients, whole matrices."""
    for item in items:
        if not is_fast(item.path) or getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("slow")

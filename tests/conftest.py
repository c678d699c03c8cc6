"""Hypothesis profiles, chosen by `DRAGOMAN_HYPOTHESIS`: `fast` for every run, `deep` for the nightly one.

`deep-run` tries as many examples as `deep`, but neither shrinks a failing one nor keeps any, so that its time is known:

    DRAGOMAN_HYPOTHESIS=deep-run pytest tests/properties/test_law_grammar.py -n auto
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from dragoman import BUILD

# Before anybody imports them: the judges of `conformance` assert, and the sessions of `clients` use some of them.
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

FAST = frozenset({"unit", "docs"})
"""Folders whose tests are fast, except for their properties."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests as `slow` that the inner loop leaves out: properties, processes, real clients, whole matrices."""
    tests = Path(__file__).parent
    for item in items:
        folder = item.path.relative_to(tests).parts[0]
        if folder not in FAST or getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("slow")
        if BUILD != "pure" and item.get_closest_marker("pure") is not None:
            item.add_marker(pytest.mark.skip(reason="needs the pure build"))

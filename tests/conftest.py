"""Hypothesis profiles: `fast` for every run, `deep` for the nightly one (`DRAGOMAN_HYPOTHESIS=deep`)."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)
settings.register_profile(
    "fast", deadline=None, max_examples=50, derandomize=True, database=None, suppress_health_check=_SLOW
)
settings.register_profile("deep", deadline=None, max_examples=20_000, print_blob=True, suppress_health_check=_SLOW)
settings.load_profile(os.environ.get("DRAGOMAN_HYPOTHESIS", "fast"))

"""The growth of a call's CPU time with its input: a ratio, which neither speed nor load of a machine changes much."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def growth(call: Callable[[T], object], small: T, large: T) -> float:
    """CPU time of the call with the large input, as a multiple of that with the small one; the best of five each."""
    return _seconds(call, large) / _seconds(call, small)


def _seconds(call: Callable[[T], object], given: T) -> float:
    """Seconds of one call, of at least ten milliseconds of calls."""
    best, times = float("inf"), 1
    for _ in range(5):
        taken = 0.0
        while taken < 0.01:
            began = time.thread_time()
            for _ in range(times):
                call(given)
            taken = time.thread_time() - began
            best = min(best, taken / times)
            times = times if taken >= 0.01 else times * 4
    return best

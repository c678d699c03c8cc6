"""Comparison of ways to run the steps of a request. All of them are coroutines (`dragoman_server.pipeline`).

python bench/experiments/steps.py

Eight steps that wait for nothing, multiples of the first row, minimum of 60 interleaved rounds. Instructions by
callgrind, CPython 3.11; a whole reply takes 767k.

| steps | instructions |
| --- | --- |
| 8 coroutines | 16.5k |
| 8 of either kind: 5 coroutines, 3 functions | 19.2k |
| 8 of either kind: coroutines only | 20.4k |
| 8 of either kind: functions only | 13.0k |

A coroutine that does not wait costs about 900 instructions more than a function. A request from Messages to Chat has
three steps that could be functions, and the test of what a step returned costs 500 for each of all. So requests would
cost more; even if no step waited, 0.5 % of a whole reply would be saved.
"""

from __future__ import annotations

import timeit
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

ROUNDS, TIMES = 60, 500


class Draft:
    """The object that steps change."""

    background: str | None = None


Step = Callable[[Draft], Awaitable[Draft] | Draft]


async def coroutine(draft: Draft) -> Draft:
    """A step that is a coroutine."""
    return draft


def function(draft: Draft) -> Draft:
    """A step that is a function."""
    return draft


async def run_coroutines(steps: Sequence[Callable[[Draft], Awaitable[Draft]]], draft: Draft) -> Draft:
    """Run steps that are coroutines."""
    for step in steps:
        draft = await step(draft)
        if draft.background is not None:
            break
    return draft


async def run_either(steps: Sequence[Step], draft: Draft) -> Draft:
    """Run steps that are coroutines or functions."""
    for step in steps:
        result = step(draft)
        draft = result if isinstance(result, Draft) else await result
        if draft.background is not None:
            break
    return draft


def run(work: Coroutine[Any, Any, Draft]) -> None:
    """Run a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration:
        return
    raise AssertionError("it waits")


CASES: dict[str, Callable[[], None]] = {
    "8 coroutines": lambda: run(run_coroutines((coroutine,) * 8, Draft())),
    "either: 5 coroutines, 3 functions": lambda: run(run_either((coroutine,) * 5 + (function,) * 3, Draft())),
    "either: 8 coroutines": lambda: run(run_either((coroutine,) * 8, Draft())),
    "either: 8 functions": lambda: run(run_either((function,) * 8, Draft())),
}


def main() -> None:
    """Print the times as multiples of the first."""
    least = dict.fromkeys(CASES, float("inf"))
    for _ in range(ROUNDS):
        for name, work in CASES.items():
            least[name] = min(least[name], timeit.timeit(work, number=TIMES))
    first = next(iter(least.values()))
    for name, seconds in least.items():
        print(f"{name:<36}{seconds / first:6.2f}")


if __name__ == "__main__":
    main()

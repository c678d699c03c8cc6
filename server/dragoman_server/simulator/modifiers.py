"""Modifiers of the scripts: words behind `+` in a model's name, such as `sim-text+uncounted+priority`.

They change what the upstream reports of a reply, or how the reply ends. Unknown words have no effect, so they can
number the requests of a test.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from dragoman_server.simulator.steps import Ending, Failure, Finish, Iteration, Scenario

BUSY, LOST = "busy", "lost"
"""Modifiers of the first request of a model: it is rejected with 503, or its connection is closed without a reply."""
_KEPT = 1024
ADVISER, FALLBACK = "sim-adviser", "sim-fallback"
"""Models that work in a reply besides the requested one."""


class FirstRequests:
    """The models whose first request was to fail, and did."""

    def __init__(self) -> None:
        self._failed: deque[str] = deque(maxlen=_KEPT)

    def failure_of(self, model: str) -> str | None:
        """Return how the request of a model fails, BUSY or LOST; None if it does not."""
        word = next((word for word in _words_of(model) if word in (BUSY, LOST)), None)
        if word is None or model in self._failed:
            return None
        self._failed.append(model)
        return word


def _words_of(model: str) -> list[str]:
    return model.split("+")[1:]


def modified(scenario: Scenario, model: str) -> Scenario:
    """Return the scenario with the modifiers of the model's name."""
    for word in _words_of(model):
        if (modify := MODIFIERS.get(word)) is not None:
            scenario = modify(scenario)
    return scenario


def _left_out(scenario: Scenario, ending: Ending, *last: Failure) -> Scenario:
    """Return the first two thirds of a scenario. A reply of an error status stays as it is."""
    steps = tuple(step for step in scenario.steps if type(step) is not Finish)
    return replace(scenario, steps=(*steps[: -(-2 * len(steps) // 3)], *last), ending=ending)


def _with_iteration(scenario: Scenario, iteration: Iteration) -> Scenario:
    return replace(scenario, iterations=(*scenario.iterations, iteration))


MODIFIERS: dict[str, Callable[[Scenario], Scenario]] = {
    "uncounted": lambda scenario: replace(scenario, reported=False),
    "written": lambda scenario: replace(scenario, cache_write=3),
    "apart": lambda scenario: replace(scenario, apart=True),
    "searched": lambda scenario: replace(scenario, searches=2),
    "priority": lambda scenario: replace(scenario, tier="priority"),
    "flex": lambda scenario: replace(scenario, tier="flex"),
    "compacted": lambda scenario: _with_iteration(scenario, Iteration("compaction")),
    "advised": lambda scenario: _with_iteration(scenario, Iteration("advisor_message", ADVISER)),
    "replaced": lambda scenario: _with_iteration(scenario, Iteration("fallback_message", FALLBACK)),
    "cut": partial(_left_out, ending=Ending.CUT),
    "reset": partial(_left_out, ending=Ending.RESET),
    "stalled": partial(_left_out, ending=Ending.STALL),
    "missing": partial(_left_out, ending=Ending.WHOLE),
    "failed": lambda scenario: _left_out(scenario, Ending.WHOLE, Failure()),
}
"""`uncounted`: no token counts. `written`: a part of the prompt is written to the cache. `apart` (Chat): reasoning is
not in the output, as xAI counts. `searched`: two paid searches. `priority`, `flex`: the tier that served. `compacted`,
`advised`, `replaced` (Messages): `usage.iterations` has a compaction, an advisor's message, or that of a fallback
model, which made the reply. `cut`, `reset`, `stalled`, `missing`, `failed`: the reply ends after two thirds."""

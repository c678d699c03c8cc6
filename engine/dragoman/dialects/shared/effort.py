"""Reasoning effort, rounded to a level that the upstream knows."""

from __future__ import annotations

from dragoman.canonical.request import EFFORTS, Thinking
from dragoman.errors import dotted
from dragoman.losses import LossCode, Losses


def round_effort(effort: str, efforts: tuple[str, ...]) -> str | None:
    """Return the highest level of `efforts` that is not above `effort`, else the lowest above; None if it is empty.

    An effort above `none` never becomes `none`, and `minimal` becomes `low` if there is such a level (mapping §5.5).
    """
    if effort in efforts:
        return effort
    rank = EFFORTS.index(effort)
    ranked = sorted(level for level in map(EFFORTS.index, efforts) if level > 0 or rank == 0)
    below = [level for level in ranked if level <= rank]
    if below:
        return EFFORTS[below[-1]]
    return EFFORTS[ranked[0]] if ranked else None


def drop_budget(wanted: Thinking, losses: Losses) -> None:
    """Record that the budget is not sent to an upstream that takes efforts, if the request has an effort too."""
    if wanted.budget is not None and wanted.at[:1] != ("thinking",):
        losses.add(LossCode.FIELD_OVERRIDDEN, ("thinking", "budget_tokens"), f"{dotted(wanted.at)} decides")


_BUDGET_STEPS = ((2047, "low"), (8191, "medium"), (32767, "high"), (63999, "xhigh"))
"""Largest budget in tokens that is read as each effort. Any larger one is `max`."""


def effort_of_budget(budget: int) -> str:
    """Return the effort that a thinking budget, in tokens, is read as."""
    return next((level for most, level in _BUDGET_STEPS if budget <= most), "max")

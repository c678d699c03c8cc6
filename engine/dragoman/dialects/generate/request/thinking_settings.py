"""Writes the thinking settings of a request: `thinkingConfig`, with a level or a budget, never both.

Levels and budgets of the model lines: ai.google.dev/gemini-api/docs/thinking.
"""

from __future__ import annotations

from typing import Final

from dragoman.canonical.request import Json, Request, Thinking
from dragoman.dialects.shared.effort import drop_budget, round_effort
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile

_LEVELS: Final = ("minimal", "low", "medium", "high", "xhigh")
_BUDGETS: Final = {"minimal": 512, "low": 1024, "medium": 4096, "high": 16384, "xhigh": 24576, "max": 24576}
"""Effort → thinking budget in tokens."""
_MOST: Final = 24576
"""Largest budget that every model with budgets takes, in tokens."""
_LEAST: Final = 512
"""Smallest one besides 0."""


def write_thinking(request: Request, profile: Profile, knobs: Knobs, losses: Losses) -> Json | None:
    """Return the `thinkingConfig` to send, or None for the model's default.

    With the profile's `thinking` `adaptive` it has a level, with `budget` a budget.
    """
    wanted = request.thinking
    if wanted is None:
        return None
    effort = wanted.effort
    if profile.thinking == "none":
        if effort not in (None, "none"):
            losses.add(LossCode.REASONING_MODE, wanted.at)
        return None
    config: Json = {}
    if effort is not None:
        write = _write_level if profile.thinking == "adaptive" else _write_budget
        write(config, effort, wanted, profile, losses)
    if effort != "none" and _is_shown(request, wanted, knobs):
        config["includeThoughts"] = True
    return config or None


def _is_shown(request: Request, wanted: Thinking, knobs: Knobs) -> bool:
    """True if the client gets the text of the reasoning. Gemini sends none by default."""
    if request.origin == "chat":  # which has no setting for it
        return wanted.effort is not None and knobs.reasoning_field != "off"
    return wanted.summary is not None if request.origin == "responses" else wanted.display != "omitted"


def _write_level(config: Json, effort: str, wanted: Thinking, profile: Profile, losses: Losses) -> None:
    drop_budget(wanted, losses)
    level = round_effort(effort, tuple(level for level in profile.efforts if level in _LEVELS))
    if level != effort:
        code = LossCode.EFFORT_FLOOR if effort == "none" else LossCode.EFFORT_ROUNDED
        losses.add(code, wanted.at, f"{effort} became {level or 'the default'}")
    if level is not None:
        config["thinkingLevel"] = level.upper()


def _write_budget(config: Json, effort: str, wanted: Thinking, profile: Profile, losses: Losses) -> None:
    if effort == "none":
        budget = 0 if profile.thinking_off else _LEAST
        if budget:
            losses.add(LossCode.EFFORT_FLOOR, wanted.at, f"the model always thinks; the budget is {budget}")
    else:
        whole = wanted.budget or _BUDGETS[effort]
        budget = min(max(whole, _LEAST), _MOST)
        if budget != whole:
            losses.add(LossCode.EFFORT_ROUNDED, wanted.at, f"the budget {whole} became {budget}")
    config["thinkingBudget"] = budget

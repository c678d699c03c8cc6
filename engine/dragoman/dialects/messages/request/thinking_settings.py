"""Reads and writes the thinking settings of a request: `thinking` and `output_config.effort` (mapping §5.5)."""

from __future__ import annotations

from typing import Final

from dragoman.canonical.request import Json, Request, Thinking
from dragoman.dialects.shared.effort import drop_budget, effort_of_budget, round_effort
from dragoman.dialects.shared.json_fields import drop_if_set, drop_unknown, one_of, optional, required
from dragoman.errors import ClientRequestError
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile

_LEVELS: Final = ("low", "medium", "high", "xhigh", "max")
_KEYS: Final = frozenset({"type", "budget_tokens", "display", "block_binding"})
_DISPLAYS: Final = ("summarized", "omitted", "updates")

_BUDGETS: Final = {"low": 1024, "medium": 4096, "high": 16384, "xhigh": 32768, "max": 64000}
"""Effort → thinking budget in tokens."""
_MIN_BUDGET: Final = 1024
"""Smallest budget that the API accepts, in tokens."""
_TEXT: Final = 8192
"""Tokens for the text after the thinking, below a cap that the client did not set."""


def read_effort(config: Json, losses: Losses) -> str | None:
    """Return `effort` of an `output_config`. Its `task_budget` is dropped and recorded."""
    drop_if_set(config, "task_budget", LossCode.TASK_BUDGET, losses, ("output_config",))
    return one_of(config, "effort", _LEVELS, ("output_config",))


def read_thinking(body: Json, effort: str | None, losses: Losses) -> Thinking | None:
    """Return the thinking settings, or None if the request has neither `thinking` nor an effort.

    An effort overrides a budget; `disabled` overrides an effort.
    """
    given = optional(body, "thinking", dict)
    if given is None:
        return None if effort is None else Thinking(effort, ("output_config", "effort"))
    drop_unknown(given, _KEYS, losses, ("thinking",))
    drop_if_set(given, "block_binding", LossCode.REASONING_MODE, losses, ("thinking",))
    kind = required(given, "type", str, ("thinking",))
    display = one_of(given, "display", _DISPLAYS, ("thinking",))
    if kind == "adaptive":
        return Thinking(effort, ("thinking",) if effort is None else ("output_config", "effort"), display)
    if kind == "enabled":
        budget = required(given, "budget_tokens", int, ("thinking",))
        if effort is not None:
            return Thinking(effort, ("output_config", "effort"), display, budget=budget)
        return Thinking(effort_of_budget(budget), ("thinking",), display, budget=budget)
    if kind == "between_tools":
        losses.add(LossCode.THINKING_MODE, ("thinking", "type"), "no thinking is requested")
    elif kind != "disabled":
        raise ClientRequestError(
            ("thinking", "type"), f"expected one of adaptive, enabled, disabled, between_tools; got {kind!r}"
        )
    if effort is not None:
        losses.add(LossCode.THINKING_MODE, ("output_config", "effort"), "thinking is off, so the effort was not sent")
    return Thinking("none", ("thinking",))


def write_thinking(
    request: Request, max_tokens: int, profile: Profile, knobs: Knobs, losses: Losses
) -> tuple[Json | None, str | None]:
    """Return the `thinking` object and the `output_config.effort` to send, each may be None.

    Args:
        request: the canonical request.
        max_tokens: the output cap that is sent; a thinking budget has to be smaller.
        profile: the upstream's abilities.
        knobs: whether Chat clients get reasoning.
        losses: where settings that cannot be sent are recorded.
    """
    wanted = request.thinking
    if wanted is None:
        return None, None
    effort = wanted.effort
    if profile.thinking == "none":
        if effort not in (None, "none"):
            losses.add(LossCode.REASONING_MODE, wanted.at)
        return None, None
    display = wanted.display or ("summarized" if wanted.summary else None)
    if display is None and request.origin == "chat" and profile.thinking == "adaptive":
        # Current models send no text of their thinking by default. Chat has no setting for it.
        display = None if knobs.reasoning_field == "off" else "summarized"
    if display is not None and (not profile.thinking_display or (display == "updates" and profile.rewrite)):
        # `updates` needs a beta header, which such upstreams do not receive.
        losses.add(LossCode.REASONING_MODE, ("thinking", "display") if wanted.display else ("reasoning", "summary"))
        display = None
    if effort is None:
        # No effort was requested: send the field only for its display, or if the client sent it.
        if profile.thinking == "adaptive" and (display is not None or wanted.at[:1] == ("thinking",)):
            return _with_display({"type": "adaptive"}, display), None
        return None, None
    if effort == "none":
        if profile.thinking_off:
            return {"type": "disabled"}, None
        losses.add(LossCode.EFFORT_FLOOR, wanted.at, "this model always thinks; the least effort was requested")
        return None, "low" if profile.thinking == "adaptive" and "low" in profile.efforts else None
    if effort == "minimal":
        losses.add(LossCode.EFFORT_ROUNDED, wanted.at, "minimal became low")
        effort = "low"
    if profile.thinking == "adaptive":
        drop_budget(wanted, losses)
        return _with_display({"type": "adaptive"}, display), _round_effort(effort, profile, wanted, losses)
    whole = wanted.budget or _BUDGETS[effort]
    chosen = request.max_tokens is None
    record = losses.note if chosen else losses.add
    budget = thinking_budget(whole, max_tokens, chosen=chosen)
    if not budget:
        record(LossCode.EFFORT_FLOOR, wanted.at, "the output cap leaves no room for a thinking budget")
        return None, None
    if budget < whole:
        record(LossCode.EFFORT_ROUNDED, wanted.at, f"the output cap leaves a thinking budget of {budget}")
    both = profile.thinking == "budget_and_effort"
    return _with_display({"type": "enabled", "budget_tokens": budget}, display), (
        _round_effort(effort, profile, wanted, losses) if both else None
    )


def thinking_budget(wanted: int, max_tokens: int, *, chosen: bool) -> int:
    """Return the thinking budget that fits below an output cap, at most `wanted` tokens; 0 if it leaves too few.

    A cap that was `chosen` here, not by the client, leaves tokens for the text that follows.
    """
    budget = min(wanted, max_tokens - (min(max_tokens // 2, _TEXT) if chosen else 1))
    return budget if budget >= _MIN_BUDGET else 0


def _with_display(thinking: Json, display: str | None) -> Json:
    if display is not None:
        thinking["display"] = display
    return thinking


def _round_effort(effort: str, profile: Profile, wanted: Thinking, losses: Losses) -> str | None:
    chosen = round_effort(effort, tuple(level for level in profile.efforts if level in _LEVELS))
    if chosen != effort:
        losses.add(LossCode.EFFORT_ROUNDED, wanted.at, f"{effort} became {chosen or 'the default'}")
    return chosen

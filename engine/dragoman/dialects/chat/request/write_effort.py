"""Writes the reasoning effort, in the field that the upstream has for it (mapping §5.5, chat §12)."""

from __future__ import annotations

from dragoman.canonical.request import Json
from dragoman.dialects.shared.effort import round_effort
from dragoman.errors import Path
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile


def write_effort(body: Json, effort: str | None, at: Path, profile: Profile, losses: Losses) -> None:
    """Write the requested effort. None means the upstream's default."""
    field = profile.thinking_field
    if field == "reasoning_split":  # else the text would contain the reasoning, between tags
        body[field] = True
    if effort is None:
        return
    if field in _SWITCHES:
        on = effort != "none"
        body[field] = _SWITCHES[field][on]
        if not on:
            return
        if not profile.efforts:
            losses.add(LossCode.EFFORT_ROUNDED, at, "the upstream has reasoning on and off, and no levels")
            return
    written = round_effort(effort, profile.efforts)
    if written != effort:
        code = LossCode.EFFORT_FLOOR if effort == "none" else LossCode.EFFORT_ROUNDED
        losses.add(code, at, f"{effort} became {written}" if written else "the upstream has no effort levels")
    if written is None:
        return
    if field == "reasoning":
        body[field] = {"effort": written}
    else:
        body["reasoning_effort"] = written


_SWITCHES: dict[str, tuple[object, object]] = {
    "thinking": ({"type": "disabled"}, {"type": "enabled"}),
    "enable_thinking": (False, True),
    # Chat templates have one of two names for it, and ignore the other.
    "chat_template_kwargs": (
        {"enable_thinking": False, "thinking": False},
        {"enable_thinking": True, "thinking": True},
    ),
}
"""Field → its values for reasoning off and on."""

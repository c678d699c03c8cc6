"""Adapts a tool choice to the forms that an upstream accepts (mapping §6.2).

A restriction stays in force: tools that must not be called are not sent. A forced call becomes `required` or `auto`.
"""

from __future__ import annotations

from dragoman.canonical.request import Json, ToolChoice
from dragoman.losses import LossCode, Losses

_FORCING = frozenset({"named", "words"})


def adapt_tool_choice(
    choice: str | Json, tools: list[Json], requested: ToolChoice | None, accepted: str, losses: Losses
) -> tuple[str | Json | None, list[Json]]:
    """Returns the choice to send, or None for none, and the tools to send.

    `accepted` is the profile's `tool_choice`, other than `all`.
    """
    at = requested.at if requested is not None else ("tool_choice",)
    if type(choice) is dict:
        if choice["type"] == "allowed_tools":
            allowed = choice["allowed_tools"]
            tools = _only(allowed["tools"], tools, at, losses)
            choice = allowed["mode"]
        elif accepted != "named":
            tools = _only([choice], tools, at, losses)
            choice = "required"
    if choice == "none":
        if accepted != "auto":
            return choice, tools
        if tools:
            losses.add(
                LossCode.TOOLS_FILTERED, at, "none of the tools was sent: the upstream cannot be told to call none"
            )
        return None, []
    if choice != "auto" and accepted not in _FORCING:
        losses.add(LossCode.CHOICE_DOWNGRADED, at, "the upstream takes no forced choice; auto was sent")
        choice = "auto"
    return choice, tools


def _only(named: list[Json], tools: list[Json], at: tuple[str | int, ...], losses: Losses) -> list[Json]:
    """Returns the tools whose name is in `named`; entries have the shape `{type, <type>: {name}}`."""
    names = {entry[entry["type"]]["name"] for entry in named}
    kept = [tool for tool in tools if tool[tool["type"]]["name"] in names]
    if len(kept) < len(tools):
        losses.add(LossCode.TOOLS_FILTERED, at, "the others were not sent")
    return kept

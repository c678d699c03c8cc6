"""Tool choices that an upstream does not take, brought down to what it does (mapping §6.2).

What is forbidden stays forbidden: tools that may not be called are not sent. What is only forced is asked for more
softly, as far as the upstream can be asked at all.
"""

from __future__ import annotations

from dragoman.canonical.request import Json, ToolChoice
from dragoman.losses import LossCode, Losses

_FORCING = frozenset({"named", "words"})


def adapt_tool_choice(
    choice: str | Json, tools: list[Json], asked: ToolChoice | None, taken: str, losses: Losses
) -> tuple[str | Json | None, list[Json]]:
    """The choice to send, or None for none, and the tools that stay. `taken` is the profile's flag, not `all`."""
    at = asked.at if asked is not None else ("tool_choice",)
    if type(choice) is dict:
        if choice["type"] == "allowed_tools":
            allowed = choice["allowed_tools"]
            tools = _only(allowed["tools"], tools, at, losses)
            choice = allowed["mode"]
        elif taken != "named":
            tools = _only([choice], tools, at, losses)
            choice = "required"
    if choice == "none":
        if taken != "auto":
            return choice, tools
        if tools:
            losses.add(
                LossCode.TOOLS_FILTERED, at, "none of the tools was sent: the upstream cannot be told to call none"
            )
        return None, []
    if choice != "auto" and taken not in _FORCING:
        losses.add(LossCode.CHOICE_DOWNGRADED, at, "the upstream takes no forced choice; auto was sent")
        choice = "auto"
    return choice, tools


def _only(named: list[Json], tools: list[Json], at: tuple[str | int, ...], losses: Losses) -> list[Json]:
    """The tools among `named`, each of which is `{type, <type>: {name}}` as the tools are."""
    names = {entry[entry["type"]]["name"] for entry in named}
    kept = [tool for tool in tools if tool[tool["type"]]["name"] in names]
    if len(kept) < len(tools):
        losses.add(LossCode.TOOLS_FILTERED, at, "the others were not sent")
    return kept

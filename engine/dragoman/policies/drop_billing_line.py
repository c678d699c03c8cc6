"""Drops the client's billing line, which changes with each request and which only its own vendor reads.

Claude Code begins its system prompt with a line for Anthropic's billing. For any other server it is a first token that
changes, so no prompt cache holds: 50 seconds a turn instead of 4 on a local model (T-80). Requests that are passed
through lose it through `dialects.messages.request.drop_billing_line`.
"""

from __future__ import annotations

from dragoman.canonical.parts import Text
from dragoman.canonical.request import Request
from dragoman.losses import LossCode, Losses

BILLING_LINE = "x-anthropic-billing-header:"
"""The line's first characters."""
BILLING_LINE_DROPPED = "the client's billing line was left out"
"""The text of the loss row."""


def drop_billing_line(request: Request, losses: Losses) -> None:
    """Drop the billing line at the start of the instructions, in place."""
    if not request.turns:
        return
    turn = request.turns[0]
    if turn.role != "instruction":
        return
    if isinstance(turn.compact, str) and not turn.compact.startswith(BILLING_LINE):
        return  # before `parts` expands the turn
    if not turn.parts:
        return
    first = turn.parts[0]
    if type(first) is not Text or not first.text.startswith(BILLING_LINE):
        return
    losses.add(LossCode.REQUEST_NOISE, first.at, BILLING_LINE_DROPPED)
    rest = without_first_line(first.text)
    if rest:
        turn.parts = [Text(rest, first.at, first.cache), *turn.parts[1:]]
    elif len(turn.parts) > 1:
        turn.parts = turn.parts[1:]
    else:
        del request.turns[0]


def without_first_line(text: str) -> str:
    """Return the lines after the first: clients that join their blocks put the prompt there."""
    return text.partition("\n")[2].lstrip("\n")

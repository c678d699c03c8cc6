"""Drops the client's billing line, which changes with each request and which only its own vendor reads.

Claude Code begins its system prompt with a line for Anthropic's billing. For any other server it is a first token that
changes, so no prompt cache holds: 50 seconds a turn instead of 4 on a local model (T-80).
"""

from __future__ import annotations

from typing import Final

from dragoman.canonical.request import Request, Role, Text
from dragoman.losses import LossCode, Losses

BILLING_LINE: Final = "x-anthropic-billing-header:"
TOLD: Final = "the client's billing line was left out"


def drop_billing_line(request: Request, losses: Losses) -> None:
    """Drop the billing line at the start of the instructions, in place."""
    if not request.turns:
        return
    turn = request.turns[0]
    if turn.role is not Role.INSTRUCTION or not turn.parts:
        return
    first = turn.parts[0]
    if type(first) is not Text or not first.text.startswith(BILLING_LINE):
        return
    losses.add(LossCode.REQUEST_NOISE, first.at, TOLD)
    rest = without_first_line(first.text)
    if rest:
        turn.parts = [Text(rest, first.at, first.cache), *turn.parts[1:]]
    elif len(turn.parts) > 1:
        turn.parts = turn.parts[1:]
    else:
        del request.turns[0]


def without_first_line(text: str) -> str:
    """Returns the text after its first line. Clients that join their blocks put the prompt there."""
    return text.partition("\n")[2].lstrip("\n")

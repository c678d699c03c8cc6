"""A conversation that begins with the assistant, for servers that want the user's word first (mapping §13)."""

from __future__ import annotations

from dragoman.canonical.parts import Text
from dragoman.canonical.request import Request
from dragoman.canonical.turn import Turn
from dragoman.losses import LossCode, Losses

PAD = "[The conversation begins with the assistant's message.]"
"""The text of the added turn. It names itself, as a model would take a greeting for the user's."""
PADDED = "a placeholder of the user's was put before it"


def pad_first_user(request: Request, losses: Losses) -> None:
    """Insert a user turn before a first turn of the assistant, in place."""
    for index, turn in enumerate(request.turns):
        if turn.role == "instruction" or turn.is_empty():
            continue
        if turn.role == "assistant":
            losses.add(LossCode.USER_PADDED, turn.at, PADDED)
            request.turns.insert(index, Turn("user", [Text(PAD, turn.at)], turn.at, plain=True))
        return

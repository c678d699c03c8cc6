"""Consecutive turns of one role become one, for servers that refuse two in a row (mapping §13).

Their parts are put together as they are: no texts are joined, so boundaries, media and cache marks survive. Messages
needs none of this, as its writer builds alternating messages anyway. An instruction between two turns keeps them apart.
"""

from __future__ import annotations

from ..losses import Code, Losses
from ..model import Request, Role, Text, Turn
from .turns import has_words, is_empty

_USER = Role.USER
_ASSISTANT = Role.ASSISTANT


def alternate(request: Request, losses: Losses) -> None:
    """Merge neighbours of one role, in place, with a row for each that lost its own message.

    Tool results are no user's message: they become messages of their own where roles have to alternate.
    """
    kept: list[Turn] = []
    for turn in request.turns:
        if is_empty(turn):
            continue  # no writer would send it
        last = kept[-1] if kept else None
        if last is not None and last.role is turn.role and _are_one(last, turn):
            kept[-1] = _merged(last, turn, losses)
        else:
            kept.append(turn)
    request.turns = kept


def _are_one(last: Turn, turn: Turn) -> bool:
    if turn.role is _USER:
        return has_words(last) and has_words(turn)
    return turn.role is _ASSISTANT


def _merged(last: Turn, turn: Turn, losses: Losses) -> Turn:
    losses.add(Code.TURNS_MERGED, turn.at, "joined the message before it")
    if last.name != turn.name:
        losses.add(Code.PARTICIPANT_NAME, (*turn.at, "name"), "the message now has two authors")
    parts = list(turn.parts)
    if turn.role is _ASSISTANT and parts and type(parts[0]) is Text:
        first = parts[0]
        # Two messages are two paragraphs, where two blocks of one message are one text (mapping §4.2).
        parts[0] = Text(first.text, first.at, first.cache, first.citations, first.logprobs, apart=True)
    name = last.name if last.name == turn.name else None
    return Turn(last.role, [*last.parts, *parts], last.at, last.spelling, name=name)

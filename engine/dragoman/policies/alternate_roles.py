"""Consecutive turns of one role become one, for servers that refuse two in a row (mapping §13).

Their parts are put together as they are: no texts are joined, so boundaries, media and cache marks survive. Messages
needs none of this, as its writer builds alternating messages anyway. An instruction between two turns keeps them apart.
"""

from __future__ import annotations

from dragoman.canonical.parts import Text
from dragoman.canonical.request import Request
from dragoman.canonical.turn import Turn
from dragoman.losses import LossCode, Losses


def alternate(request: Request, losses: Losses) -> None:
    """Merge neighbours of one role, in place, with a row for each that lost its own message.

    Tool results are no user's message: they become messages of their own where roles have to alternate.
    """
    kept: list[Turn] = []
    last: Turn | None = None
    has_content = merged = False  # of the last turn kept; `merged`: it was made here of several
    for turn in request.turns:
        if turn.is_empty():
            continue  # writers leave it out
        role = turn.role
        # A merged turn keeps its content, so it is not searched again for each turn that joins it.
        content = role == "assistant" or (role == "user" and turn.has_content())
        if last is not None and last.role is role and has_content and content:
            if not merged:
                last = kept[-1] = Turn(last.role, list(last.parts), last.at, last.original, name=last.name)
                merged = True
            _join(last, turn, losses)
            continue
        kept.append(turn)
        last, has_content, merged = turn, content, False
    request.turns = kept


def _join(last: Turn, turn: Turn, losses: Losses) -> None:
    """Add the parts of `turn` to `last`, in place."""
    losses.add(LossCode.TURNS_MERGED, turn.at, "joined the message before it")
    if last.name != turn.name:
        losses.add(LossCode.PARTICIPANT_NAME, (*turn.at, "name"), "the message now has two authors")
        last.name = None
    parts = list(turn.parts)
    if turn.role == "assistant" and parts and type(parts[0]) is Text:
        first = parts[0]
        # Two messages are two paragraphs, where two blocks of one message are one text (mapping §4.2).
        parts[0] = Text(first.text, first.at, first.cache, first.citations, first.logprobs, apart=True)
    last.parts += parts

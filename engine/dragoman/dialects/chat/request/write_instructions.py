"""Moves instructions inside the conversation, for servers that accept one system message only (mapping §3).

Their chat templates fail on any other system message. A moved instruction changes the prefix that servers cache, so it
is moved only for such servers.
"""

from __future__ import annotations

from dragoman.canonical.parts import Part, Text
from dragoman.canonical.turn import Turn
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile


def place_instructions(turns: list[Turn], profile: Profile, knobs: Knobs, losses: Losses) -> list[Turn]:
    """Return the turns with later instructions in place, joined to the first ones, or as user text."""
    mode = knobs.mid_system
    if mode == "auto":
        mode = "inline" if profile.system_inline else "hoist"
    if mode == "inline":
        return turns if profile.text_parts else _join_first(turns, losses)
    instructions: list[Turn] = []
    rest: list[Turn] = []
    for turn in turns:
        if turn.role != "instruction":
            rest.append(turn)
        elif rest and mode == "user":
            losses.add(LossCode.SYSTEM_DEMOTED, turn.at, "became user text")
            rest.append(Turn("user", [_as_user_text(part) for part in turn.parts], turn.at, plain=turn.plain))
        else:
            if rest or instructions:
                code = LossCode.SYSTEM_MOVED if rest else LossCode.TURNS_MERGED
                losses.add(code, turn.at, "joined the first instructions")
            instructions.append(turn)
    return [_joined(instructions), *rest] if instructions else rest


def _join_first(turns: list[Turn], losses: Losses) -> list[Turn]:
    """Return the turns with the instructions at their beginning as one turn.

    Templates of such servers take one system message only, as the text of one message is one string.
    """
    count = 0
    for turn in turns:
        if turn.role != "instruction" or turn.name is not None:
            break
        count += 1
    if count < 2:
        return turns
    for turn in turns[1:count]:
        losses.add(LossCode.TURNS_MERGED, turn.at, "joined the first instructions")
    return [_joined(turns[:count]), *turns[count:]]


def _joined(instructions: list[Turn]) -> Turn:
    """Return one turn with the parts of all."""
    first = instructions[0]
    parts = [part for turn in instructions for part in turn.parts]
    if len(parts) == len(first.parts):
        return first
    return Turn("instruction", parts, first.at, first.original, False, first.name)


def _as_user_text(part: Part) -> Part:
    if type(part) is Text:
        return Text(f"<system>\n{part.text}\n</system>", part.at, cache=part.cache)
    return part

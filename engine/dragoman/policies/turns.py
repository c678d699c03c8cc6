"""What the policies ask of a turn, short ones (`steps`) without unpacking them."""

from __future__ import annotations

from dragoman.canonical.compact_turns import CompactAssistantTurn, CompactResultTurn
from dragoman.canonical.request import Text, ToolResult, Turn


def is_empty(turn: Turn) -> bool:
    """A turn that the writers leave out, as if the client had not sent it."""
    if type(turn) is CompactResultTurn and turn.results is not None:
        return not turn.results
    if type(turn) is CompactAssistantTurn and turn.calls is not None:
        return not (turn.calls or turn.text or turn.reasoning)
    parts = turn.parts
    if len(parts) == 1:  # as most have, and a generator costs as much again
        part = parts[0]
        return type(part) is Text and not part.text
    return all(type(part) is Text and not part.text for part in parts)


def has_results(turn: Turn) -> bool:
    """Does a user turn hold a tool result?"""
    if type(turn) is CompactResultTurn and turn.results is not None:
        return bool(turn.results)
    return any(type(part) is ToolResult for part in turn.parts)


def has_text(turn: Turn) -> bool:
    """Does a user turn hold anything beside tool results and empty texts?"""
    if type(turn) is CompactResultTurn and turn.results is not None:
        return False
    return any(type(part) is not ToolResult and not (type(part) is Text and not part.text) for part in turn.parts)

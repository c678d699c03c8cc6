"""Writes a conversation of texts, as chats have it, without the state that calls, media and cache marks need."""

from __future__ import annotations

from dragoman.canonical.request import Json
from dragoman.canonical.turn import Turn


def write_texts(turns: list[Turn]) -> tuple[list[Json], list[Json]] | None:
    """Return the blocks of `system`, and `messages`, of another dialect's conversation of texts.

    The user and the assistant take turns in it, after the instructions, and the user has the last word. None for any
    other conversation, and where a text is blank: `write_conversation` writes those turn by turn, and would write these
    messages alike.
    """
    system: list[Json] = []
    messages: list[Json] = []
    role = ""
    for turn in turns:
        compact = turn.compact
        text = compact if type(compact) is str else None
        if type(compact) is tuple:
            reasoning, text, _, _, calls = compact
            if reasoning or calls:
                return None
        if not text or text.isspace():
            return None
        if turn.role == "instruction":
            if messages:
                return None
            system.append({"type": "text", "text": text})
            continue
        if (role == "user") is (turn.role == "user"):
            return None
        role = turn.role
        messages.append({"role": role, "content": text if turn.plain else [{"type": "text", "text": text}]})
    return (system, messages) if role == "user" else None

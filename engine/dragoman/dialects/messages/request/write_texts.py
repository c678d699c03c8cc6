"""Writes a conversation of texts, as chats have it, without the state that calls, media and cache marks need."""

from __future__ import annotations

from dragoman.canonical.compact_turns import CompactAssistantTurn, CompactTextTurn
from dragoman.canonical.request import Json, Turn


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
        if type(turn) is CompactTextTurn:
            text = turn.text
            if not text or text.isspace():
                return None
            if turn.role != "user":
                if messages:
                    return None
                system.append({"type": "text", "text": text})
                continue
            if role == "user":
                return None
            role = "user"
        elif type(turn) is CompactAssistantTurn:
            text = turn.text
            if not text or text.isspace() or role != "user":
                return None
            if turn.reasoning or turn.calls is None or turn.calls:
                return None
            role = "assistant"
        else:
            return None
        messages.append({"role": role, "content": text if turn.plain else [{"type": "text", "text": text}]})
    return (system, messages) if role == "user" else None

"""Writes a conversation of texts, as chats have it, without the state that calls, media and cache marks need."""

from __future__ import annotations

from dragoman.canonical.request import Json
from dragoman.canonical.turn import Turn
from dragoman.dialects.openai.media import text_part
from dragoman.profiles.profile import Profile


def instruction_role(turn: Turn, origin: str, profile: Profile) -> str:
    """Return the role of a message with instructions, which a client of the dialect `origin` sent."""
    role: str = profile.instruction_role
    if role == "developer" and origin != "messages" and turn.original == "system":
        return "system"  # such an upstream accepts both roles, and the client chose this one
    return role


def write_texts(turns: list[Turn], origin: str, profile: Profile) -> list[Json] | None:
    """Return the messages of another dialect's conversation of texts that ends with the user's.

    None for any other conversation, and where a text is empty: `write_messages` writes those turn by turn, and would
    write these messages alike.
    """
    messages: list[Json] = []
    role = ""
    for turn in turns:
        compact = turn.compact
        content: str | list[Json] | None
        if type(compact) is str:
            content = compact
            is_user = turn.role == "user"
            role = "user" if is_user else instruction_role(turn, origin, profile)
            if not turn.plain and compact and (is_user or profile.text_parts):
                content = [text_part(compact)]
        elif type(compact) is tuple:
            reasoning, content, _, _, calls = compact
            if reasoning or calls:
                return None
            role = "assistant"
        else:
            return None
        if not content:
            return None
        messages.append({"role": role, "content": content})
    return messages if role == "user" else None

"""Reads the common messages of tool loops into compact turns: nearly all of an agent's long history.

Messages are never rejected here and lose nothing: all but the common forms are read field by field, in `read.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dragoman.canonical.turn import CallFields, ReasoningFields, Role, Turn, compact_turn
from dragoman.dialects.chat.stop_and_usage import DIALECT
from dragoman.errors import Path

_ROLES: dict[str, Role] = {"user": "user", "system": "instruction", "developer": "instruction"}


def read_compact_turns(
    numbered: Iterator[tuple[int, Any]], turns: list[Turn], custom: set[str]
) -> tuple[int, Any] | None:
    """Append a turn for each message, up to the first that has no common form.

    Returns that message with its number, or None after the last message. The common forms are an assistant message of
    reasoning, text and function calls; a text result of such a call; and one string from the user or as instructions,
    which may be the only part of an array. `custom` has the ids of custom tools' calls. Keys are accessed without a
    check, which costs half as much: a missing one means another form.
    """
    number, message = 0, None
    try:
        for number, message in numbered:
            role, content, size = message["role"], message["content"], len(message)
            at: Path = ("messages", number)
            if role == "tool":
                call_id = message["tool_call_id"]
                if size != 3 or type(content) is not str or type(call_id) is not str or not call_id:
                    return number, message
                if custom and call_id in custom:
                    return number, message
                turns.append(compact_turn("user", [(call_id, content, at, False)], at, "", False))
            elif role == "assistant":
                plain = type(content) is str
                if not plain and content is not None:
                    return number, message
                calls: list[CallFields] = []
                reasoning: list[ReasoningFields] = []
                if size > 2 and not _read_reasoning_and_calls(message, number, reasoning, calls):
                    return number, message
                fields = reasoning, content, ("messages", number, "content"), False, calls
                turns.append(compact_turn("assistant", fields, at, "", plain))
            elif size == 2:
                plain = type(content) is str
                text = content if plain else _only_text(content)
                if text is None:
                    return number, message
                turns.append(compact_turn(_ROLES[role], text, at, "" if role == "user" else role, plain))
            else:
                return number, message
    except (KeyError, TypeError):  # TypeError: an object or string is expected, and another type was sent
        return number, message
    return None


def _only_text(content: Any) -> str | None:
    """Return the text of a content array with nothing but a text part, or None for any other content."""
    if type(content) is not list or len(content) != 1:
        return None
    part = content[0]
    text = part["text"]
    return text if part["type"] == "text" and len(part) == 2 and type(text) is str else None


def _read_reasoning_and_calls(
    message: Any, number: int, reasoning: list[ReasoningFields], calls: list[CallFields]
) -> bool:
    """Append the reasoning and the calls of an assistant message.

    Return False if the message has anything else, or a call that is not the plain call of a function.
    """
    size = len(message)
    if "reasoning_content" in message:
        text = message["reasoning_content"]
        if type(text) is not str or not text:
            return False
        reasoning.append((text, ("messages", number), DIALECT, None, False, None, None))
        size -= 1
    if size == 2:
        return True
    tool_calls = message["tool_calls"]
    if size > 3 or type(tool_calls) is not list:
        return False
    for call in tool_calls:
        call_id, function = call["id"], call["function"]
        name, arguments = function["name"], function["arguments"]
        if call["type"] != "function" or len(call) != 3 or len(function) != 2:
            return False
        if type(call_id) is not str or type(name) is not str or type(arguments) is not str:
            return False
        if not call_id or not name:
            return False
        calls.append((call_id, name, arguments, ("messages", number, "tool_calls", len(calls))))
    return True

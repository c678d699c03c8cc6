"""The steps of a tool loop, read in short: nearly all messages of an agent's long history (`steps`).

Nothing is refused or lost here: a message that is anything else is read field by field.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dragoman.canonical.compact_turns import CompactAssistantTurn, CompactResultTurn, single_text_turn
from dragoman.canonical.request import CallFields, Role, Turn
from dragoman.dialects.chat.wire import DIALECT
from dragoman.errors import Path

_PLAIN = {"user": Role.USER, "system": Role.INSTRUCTION, "developer": Role.INSTRUCTION}


def read_steps(numbered: Iterator[tuple[int, Any]], turns: list[Turn], custom: set[str]) -> tuple[int, Any] | None:
    """Append a turn for each message that is still to come, up to the first that is no step; gives that one with its
    number, or None if all were steps.

    A step is what the assistant says: reasoning, a text and calls of functions; or the text that such a call gave; or a
    bare string of anyone else's. `custom` has the ids of the calls of other tools. Keys are looked up as if they were
    there, which costs half of asking for them, and what lacks one is no step.
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
                answered = CompactResultTurn()
                answered.at = at
                answered.results = [(call_id, content, at, False)]
                turns.append(answered)
            elif role == "assistant":
                calls: list[CallFields] = []
                spoken = CompactAssistantTurn()
                spoken.plain = plain = type(content) is str
                if not plain and content is not None:
                    return number, message
                spoken.at = at
                spoken.text = content
                spoken.text_at = ("messages", number, "content")
                spoken.apart = False
                spoken.reasoning = []
                spoken.calls = calls
                if size > 2:
                    if "reasoning_content" in message:
                        thought = message["reasoning_content"]
                        if type(thought) is not str or not thought:
                            return number, message
                        spoken.reasoning.append((thought, at, DIALECT, None, False, None, None))
                        size -= 1
                    if size > 2 and (size > 3 or not _read_calls(message["tool_calls"], number, calls)):
                        return number, message
                turns.append(spoken)
            elif type(content) is str and size == 2:
                spelling = "" if role == "user" else role
                turns.append(single_text_turn(_PLAIN[role], content, ("messages", number, "content"), at, spelling))
            else:
                return number, message
    except (KeyError, TypeError):  # TypeError: what should be an object is none
        return number, message
    return None


def _read_calls(given: Any, number: int, calls: list[CallFields]) -> bool:
    """Append the calls of a message; gives whether each is the bare call of a function."""
    if type(given) is not list:
        return False
    for call in given:
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

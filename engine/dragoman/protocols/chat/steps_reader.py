"""The steps of a tool loop, read in short: nearly all messages of an agent's long history (`steps`).

Nothing is refused or lost here: a message that is anything else is read field by field.
"""

from __future__ import annotations

from typing import Any

from ...model import Part, Role, Text, Turn
from ...steps import Call, Thought, answered, spoken
from .wire import DIALECT

_USER = Role.USER  # member access on an enum class costs more than a global


def read_steps(messages: list[Any], start: int, turns: list[Turn], custom: set[str]) -> int:
    """Append a turn for each message from `start` on, up to the first that is no step; gives the place of that one.

    A step is what the assistant says: reasoning, a text and calls of functions; or the text that such a call gave; or a
    bare string of the user's. `custom` has the ids of the calls of other tools. Keys are looked up as if they were
    there, which costs half of asking for them, and what lacks one is no step.
    """
    number = start
    try:
        for number in range(start, len(messages)):
            message = messages[number]
            role, content = message["role"], message["content"]
            if role == "tool":
                call_id = message["tool_call_id"]
                if len(message) != 3 or type(content) is not str or type(call_id) is not str or not call_id:
                    return number
                if call_id in custom:
                    return number
                at = ("messages", number)
                turns.append(answered(at, [(call_id, content, at, False, None)]))
            elif role == "assistant":
                turn = _spoken(message, content, number)
                if turn is None:
                    return number
                turns.append(turn)
            elif role == "user" and type(content) is str and len(message) == 2:
                said: list[Part] = [Text(content, ("messages", number, "content"))]
                turns.append(Turn(_USER, said, ("messages", number), "", True))
            else:
                return number
    except (KeyError, TypeError):  # TypeError: what should be an object is none
        return number
    return len(messages)


def _spoken(message: Any, content: Any, number: int) -> Turn | None:
    plain = type(content) is str
    if not plain and content is not None:
        return None
    size = len(message)
    thoughts: list[Thought] = []
    at = ("messages", number)
    if "reasoning_content" in message:
        thought = message["reasoning_content"]
        if type(thought) is not str or not thought:
            return None
        size -= 1
        thoughts.append((thought, at, DIALECT, None, None))
    calls: list[Call] = []
    if size > 2:
        given = message["tool_calls"]
        if size > 3 or type(given) is not list:
            return None
        for call in given:
            call_id, function = call["id"], call["function"]
            name, arguments = function["name"], function["arguments"]
            if call["type"] != "function" or len(call) != 3 or type(function) is not dict:
                return None
            if type(call_id) is not str or not call_id or type(name) is not str or not name:
                return None
            if type(arguments) is not str:
                return None
            calls.append((call_id, name, arguments, ("messages", number, "tool_calls", len(calls))))
    return spoken(at, thoughts, content, ("messages", number, "content"), calls, False, plain)

"""The steps of a tool loop, read in short: nearly all messages of an agent's long history (`steps`).

Nothing is refused or lost here: a message that is anything else is read block by block.
"""

from __future__ import annotations

from typing import Any, Final

from orjson import dumps

from ...model import Json, Role, Text, Turn
from ...steps import Call, Result, Thought, answered, spoken
from .wire import DIALECT

_USER: Final = Role.USER  # member access on an enum class costs more than a global
_EPHEMERAL: Final = {"type": "ephemeral"}


def read_steps(messages: list[Any], start: int, turns: list[Turn]) -> int:
    """Append a turn for each message from `start` on, up to the first that is no step; gives the place of that one.

    A step is what the assistant says: signed thoughts, one text and calls, in this order; or results of text alone; or
    a bare string of either side's. Keys are looked up as if they were there, which costs half of asking for them, and
    what lacks one is no step.
    """
    number = start
    try:
        for number in range(start, len(messages)):
            message = messages[number]
            role, content = message["role"], message["content"]
            if not content or len(message) != 2 or (role != "assistant" and role != "user"):
                return number
            if type(content) is str:
                turn: Turn | None = _plain(role, content, number)
            elif type(content) is list:
                turn = _spoken(content, number) if role == "assistant" else _answered(content, number)
            else:
                return number
            if turn is None:
                return number
            turns.append(turn)
    except (KeyError, TypeError):  # TypeError: what should be an object is none, or holds half a surrogate pair
        return number
    return len(messages)


def _plain(role: str, content: str, number: int) -> Turn:
    at, inside = ("messages", number), ("messages", number, "content")
    if role == "user":
        return Turn(_USER, [Text(content, inside)], at, "", True)
    return spoken(at, [], content, inside, [], False, True)


def _spoken(content: list[Any], number: int) -> Turn | None:
    thoughts: list[Thought] = []
    calls: list[Call] = []
    text = text_at = None
    index = -1
    for block in content:
        index += 1
        kind, at = block["type"], ("messages", number, "content", index)
        if kind == "tool_use":
            given, call_id, name = block["input"], block["id"], block["name"]
            if len(block) != 4 or type(given) is not dict or type(call_id) is not str or type(name) is not str:
                return None
            calls.append((call_id, name, dumps(given).decode(), at))
        elif calls or text:
            return None
        elif kind == "text":
            text, text_at = block["text"], at
            if len(block) != 2 or type(text) is not str or not text:
                return None
        elif kind == "thinking":
            thought, signature = block["thinking"], block["signature"]
            # No signature holds a dot, and every envelope does.
            if type(thought) is not str or type(signature) is not str or not signature or "." in signature:
                return None
            thoughts.append((thought, at, DIALECT, signature, block))
        else:
            return None
    return spoken(("messages", number), thoughts, text, text_at, calls)


def _answered(content: list[Any], number: int) -> Turn | None:
    results: list[Result] = []
    for block in content:
        if block["type"] != "tool_result":
            return None
        call_id, text, size = block["tool_use_id"], block["content"], len(block)
        if type(call_id) is not str or type(text) is not str:
            return None
        failed = False
        cache: Json | None = None
        if size > 3:
            if "is_error" in block:
                failed = block["is_error"]
                if type(failed) is not bool:
                    return None
                size -= 1
            if "cache_control" in block:
                if block["cache_control"] != _EPHEMERAL:
                    return None
                cache = {"ttl": None}
                size -= 1
            if size > 3:
                return None
        results.append((call_id, text, ("messages", number, "content", len(results)), failed, cache))
    return answered(("messages", number), results)

"""The steps of a tool loop, read in short: nearly all messages of an agent's long history (`steps`).

Nothing is refused or lost here: a message that is anything else is read block by block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from orjson import dumps

from dragoman.canonical.compact_turns import (
    CompactAssistantTurn,
    CompactResultTurn,
    compact_assistant_turn,
    plain_text,
    single_text_turn,
    to_tool_result,
)
from dragoman.canonical.request import (
    CallFields,
    Image,
    Inline,
    Json,
    Part,
    ReasoningFields,
    ResultFields,
    Role,
    Text,
    Turn,
)
from dragoman.dialects.messages.request.read_content import recalled
from dragoman.errors import Path

# Member access on an enum class costs more than a global.
_PLAIN: Final = {"user": (Role.USER, ""), "system": (Role.INSTRUCTION, "system")}
_USER: Final = Role.USER


def read_steps(numbered: Iterator[tuple[int, Any]], turns: list[Turn]) -> tuple[int, Any] | None:
    """Append a turn for each message that is still to come, up to the first that is no step; gives that one with its
    number, or None if all were steps.

    A step is what the assistant says: thoughts, one text and calls, in this order; or what the user's side gives:
    results, texts and pictures; or a bare string of anyone's. Keys are looked up as if they were there, which costs
    half of asking for them, and what lacks one is no step.
    """
    number, message = 0, None
    try:
        for number, message in numbered:
            role, content = message["role"], message["content"]
            if not content or len(message) != 2:
                return number, message
            turn: Turn | None
            if type(content) is list:
                if role == "assistant":
                    turn = _spoken(content, number)
                elif role == "user":
                    turn = _given(content, number)
                else:
                    return number, message
                if turn is None:
                    return number, message
            elif type(content) is not str:
                return number, message
            elif role == "assistant":
                turn = compact_assistant_turn(
                    ("messages", number), [], content, ("messages", number, "content"), [], False, True
                )
            else:
                who, spelling = _PLAIN[role]
                turn = single_text_turn(who, content, ("messages", number, "content"), ("messages", number), spelling)
            turns.append(turn)
    except (KeyError, TypeError):  # TypeError: what should be an object is none, or holds half a surrogate pair
        return number, message
    return None


def _spoken(content: list[Any], number: int) -> CompactAssistantTurn | None:
    thoughts: list[ReasoningFields] = []
    calls: list[CallFields] = []
    text: str | None = None
    text_at: Path | None = None
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
            if type(thought) is not str or type(signature) is not str:
                return None
            thoughts.append(recalled(thought, signature or None, block, at))
        elif kind == "redacted_thinking" and type(block["data"]) is str:
            thoughts.append(recalled("", block["data"], block, at, redacted=True))
        else:
            return None
    turn: CompactAssistantTurn = CompactAssistantTurn()
    turn.at = ("messages", number)
    turn.plain = turn.apart = False
    turn.text = text
    turn.text_at = text_at
    turn.reasoning = thoughts
    turn.calls = calls
    return turn


def _given(content: list[Any], number: int) -> Turn | None:
    results: list[ResultFields] = []
    parts: list[Part] | None = None  # instead of `results`, once there is anything else
    index = -1
    for block in content:
        index += 1
        at = ("messages", number, "content", index)
        if block["type"] != "tool_result":
            part = _shown(block, at)
            if part is None:
                return None
            if parts is None:
                parts = [to_tool_result(result) for result in results]
            parts.append(part)
            continue
        call_id, told, size = block["tool_use_id"], block["content"], len(block)
        failed = False
        if size > 3:
            failed = block["is_error"]
            if size > 4 or (failed is not False and failed is not True):
                return None
        if type(call_id) is not str:
            return None
        if type(told) is not str:
            told = _told(told, (*at, "content"))
            if told is None:
                return None
            if parts is None:
                parts = [to_tool_result(result) for result in results]
        if parts is None:
            results.append((call_id, told, at, failed))
        else:
            parts.append(to_tool_result((call_id, told, at, failed)))
    if parts is not None:
        return Turn(_USER, parts, ("messages", number))
    turn: CompactResultTurn = CompactResultTurn()
    turn.at = ("messages", number)
    turn.results = results
    return turn


def _told(content: Any, at: Path) -> list[Part] | None:
    """What a result shows, if it is texts and pictures alone."""
    if type(content) is not list:
        return None
    parts: list[Part] = []
    for block in content:
        part = _shown(block, (*at, len(parts)))
        if part is None:
            return None
        parts.append(part)
    return parts


def _shown(block: Json, at: Path) -> Text | Image | None:
    """A text, or a picture in the body, with nothing beside it."""
    if len(block) != 2:
        return None
    if block["type"] == "text":
        text = block["text"]
        return plain_text(text, at) if type(text) is str else None
    if block["type"] == "image":
        source = block["source"]
        media_type, data = source["media_type"], source["data"]
        if source["type"] == "base64" and len(source) == 3 and type(media_type) is str and type(data) is str:
            return Image(Inline(media_type, data), at)
    return None

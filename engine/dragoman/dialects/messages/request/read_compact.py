"""Reads the usual messages of a tool loop into compact turns: nearly all of an agent's long history.

A fast path in front of `read_content`: it rejects and drops nothing, and leaves any other message to the full reader.
See `Turn.compact`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from orjson import dumps

from dragoman.canonical.parts import Image, Json, Part, Text, ToolResult
from dragoman.canonical.turn import (
    AssistantFields,
    CallFields,
    ReasoningFields,
    ResultFields,
    Role,
    Turn,
    compact_turn,
    plain_text,
)
from dragoman.dialects.messages.block_types import DIRECT
from dragoman.dialects.messages.request.read_content import reasoning_fields
from dragoman.dialects.shared.inline_data import read_image_data
from dragoman.errors import ClientRequestError, Path
from dragoman.losses import Losses
from dragoman.wire.json_codec import MAY_BE_ROUNDED, has_float

_STRING_ROLES: Final[dict[str, tuple[Role, str]]] = {"user": ("user", ""), "system": ("instruction", "system")}


def read_compact_turns(
    numbered: Iterator[tuple[int, Any]], turns: list[Turn], losses: Losses | None = None
) -> tuple[int, Any] | None:
    """Append a turn for each of the following messages, up to the first that is not of a usual form.

    The usual forms are: a string as the content; reasoning, at most one text and calls of the assistant, in this order;
    results, texts and inline images of the user. Keys are looked up without a check, which costs half of `get`; a
    message that lacks one is not of a usual form.

    Args:
        numbered: the messages with their positions; those that are read are consumed.
        turns: the list to extend.
        losses: gets the mark `may_be_rounded`, and no rows.

    Returns:
        The first other message with its position, already consumed; None if there are no more messages.
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
                    turn = _assistant_turn(content, number, losses)
                elif role == "user":
                    turn = _result_turn(content, number)
                else:
                    return number, message
                if turn is None:
                    return number, message
            elif type(content) is not str:
                return number, message
            elif role == "assistant":
                fields: AssistantFields = ([], content, ("messages", number, "content"), False, [])
                turn = compact_turn("assistant", fields, ("messages", number), "", True)
            else:
                canonical_role, original = _STRING_ROLES[role]
                turn = compact_turn(canonical_role, content, ("messages", number), original, True)
            turns.append(turn)
    except (
        KeyError,
        TypeError,
        ClientRequestError,
    ):  # TypeError: not an object where one is expected, or half a surrogate pair in it
        return number, message
    return None


def _assistant_turn(content: list[Any], number: int, losses: Losses | None) -> Turn | None:
    reasoning: list[ReasoningFields] = []
    calls: list[CallFields] = []
    text: str | None = None
    text_at: Path = ()
    index = -1
    for block in content:
        index += 1
        kind, at = block["type"], ("messages", number, "content", index)
        if kind == "tool_use":
            given, call_id, name = block["input"], block["id"], block["name"]
            if len(block) != 4 and (len(block) != 5 or block["caller"] != DIRECT):
                return None
            if type(given) is not dict or type(call_id) is not str or type(name) is not str:
                return None
            for value in given.values():
                if type(value) is not str and type(value) in MAY_BE_ROUNDED:
                    _note_rounding(given, losses)
                    break
            calls.append((call_id, name, dumps(given).decode(), at))
        elif calls or text:
            return None
        elif kind == "text":
            text, text_at = block["text"], at
            if len(block) != 2 and (len(block) != 3 or block["citations"] is not None):
                return None
            if type(text) is not str or not text:
                return None
        elif kind == "thinking":
            thinking, signature = block["thinking"], block["signature"]
            if type(thinking) is not str or type(signature) is not str:
                return None
            reasoning.append(reasoning_fields(thinking, signature or None, block, at))
        elif kind == "redacted_thinking" and type(block["data"]) is str:
            reasoning.append(reasoning_fields("", block["data"], block, at, redacted=True))
        else:
            return None
    return compact_turn("assistant", (reasoning, text, text_at, False, calls), ("messages", number), "", False)


def _note_rounding(given: Any, losses: Losses | None) -> None:
    """Note that the arguments of a call may have a number that was rounded."""
    if losses is not None and has_float(given):
        losses.may_be_rounded = True


def _result_turn(content: list[Any], number: int) -> Turn | None:
    if len(content) == 1 and content[0]["type"] == "text":
        text = content[0]["text"]
        if len(content[0]) != 2 or type(text) is not str:
            return None
        return compact_turn("user", text, ("messages", number))
    results: list[ResultFields] = []
    parts: list[Part] | None = None  # instead of `results`, once there is anything else
    index = -1
    for block in content:
        index += 1
        at = ("messages", number, "content", index)
        if block["type"] != "tool_result":
            part = _text_or_image(block, at)
            if part is None:
                return None
            if parts is None:
                parts = [ToolResult(*result) for result in results]
            parts.append(part)
            continue
        call_id, output, size = block["tool_use_id"], block["content"], len(block)
        failed = False
        if size > 3:
            failed = block["is_error"]
            if size > 4 or (failed is not False and failed is not True):
                return None
        if type(call_id) is not str:
            return None
        if type(output) is not str:
            output = _result_parts(output, (*at, "content"))
            if output is None:
                return None
            if parts is None:
                parts = [ToolResult(*result) for result in results]
        if parts is None:
            results.append((call_id, output, at, failed))
        else:
            parts.append(ToolResult(call_id, output, at, failed))
    if parts is not None:
        return Turn("user", parts, ("messages", number))
    return compact_turn("user", results, ("messages", number), "", False)


def _result_parts(content: Any, at: Path) -> list[Part] | None:
    """Return the parts of a result, or None unless it holds only texts and inline images."""
    if type(content) is not list:
        return None
    parts: list[Part] = []
    for block in content:
        part = _text_or_image(block, (*at, len(parts)))
        if part is None:
            return None
        parts.append(part)
    return parts


def _text_or_image(block: Json, at: Path) -> Text | Image | None:
    """Return a text or an inline image, or None if the block is anything else or has further fields."""
    if len(block) != 2:
        return None
    if block["type"] == "text":
        text = block["text"]
        return plain_text(text, at) if type(text) is str else None
    if block["type"] == "image":
        source = block["source"]
        media_type, data = source["media_type"], source["data"]
        if source["type"] == "base64" and len(source) == 3 and type(media_type) is str and type(data) is str:
            return Image(read_image_data(media_type, data, at), at)
    return None

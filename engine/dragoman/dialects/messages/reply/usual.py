"""Complete Messages replies that are forwarded: whether clients read them as they were meant.

Required members are those of Anthropic's types; clients run calls by their ids, with `input` as an object.
"""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.request import Json
from dragoman.dialects.shared.completed_reply import are_calls_usual, has_all
from dragoman.reply_context import ReplyContext

_TEXTS: Final = {"text": "text", "thinking": "thinking", "redacted_thinking": "data"}
"""Type of a block → its member that is a text. Other servers than Anthropic's leave the signature out."""

_START: Final = frozenset(("id", "role", "model", "content", "usage"))


def is_usual_start(message: Json) -> bool:
    """True if clients read the message of a `message_start`, which has no content yet."""
    if not _START.issubset(message) or message["content"] != [] or type(usage := message["usage"]) is not dict:
        return False
    given, made = usage.get("input_tokens"), usage.get("output_tokens")
    if not (type(given) is type(made) is int and given >= 0 <= made):
        return False
    return message["role"] == "assistant" and type(message["id"]) is type(message["model"]) is str


def is_usual(body: Json, context: ReplyContext) -> bool:
    """True if clients read a message as it was meant."""
    content, usage = body.get("content"), body.get("usage")
    if type(content) is not list or type(usage) is not dict:
        return False
    if not has_all(body, "id", "type", "role", "model", "stop_reason"):
        return False
    if type(usage.get("input_tokens")) is not int or type(usage.get("output_tokens")) is not int:
        return False
    calls = [block for block in content if type(block) is dict and block.get("type") == "tool_use"]
    return all([_is_usual_block(block) for block in content]) and (
        not calls or are_calls_usual([call.get("id") for call in calls], [], cut=False)
    )


def _is_usual_block(block: Any) -> bool:
    if type(block) is not dict or type(kind := block.get("type")) is not str:
        return False
    if kind == "tool_use":
        return type(block.get("input")) is dict and type(name := block.get("name")) is str and name != ""
    return kind not in _TEXTS or (type(block.get(_TEXTS[kind])) is str and block.get("signature", "") is not None)

"""Complete Responses that are forwarded, and their items: whether clients read them as they were meant.

Required members are those without which OpenAI's SDKs, Codex or the AI SDK fail, or drop an item.
"""

from __future__ import annotations

from typing import Any

from dragoman.canonical.request import Json
from dragoman.dialects.shared.completed_reply import are_calls_usual, has_all
from dragoman.reply_context import ReplyContext


def is_usual(response: Json, context: ReplyContext) -> bool:
    """True if clients read a response as it was meant. Other objects, and those without a result, are not looked at."""
    output, status = response.get("output"), response.get("status")
    if response.get("object") not in (None, "response") or status in ("queued", "in_progress", "failed", "cancelled"):
        return True
    if type(output) is not list or not has_all(response, "id", "object", "created_at", "model", "status"):
        return False
    if not output and response.get("output_text"):
        return False
    cut = status == "incomplete"
    calls = [item for item in output if type(item) is dict and item.get("type") == "function_call"]
    return all([is_usual_item(item, cut=cut) for item in output]) and (
        not calls or are_calls_usual([call.get("call_id") for call in calls], [], cut=cut)
    )


def is_usual_item(item: Any, *, cut: bool) -> bool:
    """True if clients read a finished item as it was meant. Arguments may be `cut`."""
    if type(item) is not dict or type(kind := item.get("type")) is not str:
        return False
    if kind == "message":
        content = item.get("content")
        if type(content) is not list or item.get("id") is None or item.get("role") is None:
            return False
        return all([_is_usual_part(part) for part in content])
    if kind == "reasoning":
        return item.get("id") is not None and type(item.get("summary")) is list
    if kind == "function_call":
        return has_all(item, "id", "name") and are_calls_usual([item.get("call_id")], [item.get("arguments")], cut=cut)
    return True


def _is_usual_part(part: Any) -> bool:
    if type(part) is not dict or type(kind := part.get("type")) is not str:
        return False
    if kind == "output_text":
        return type(part.get("text")) is str and type(part.get("annotations")) is list
    return kind != "refusal" or type(part.get("refusal")) is str

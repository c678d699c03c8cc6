"""Complete Chat replies that are forwarded: whether clients read them as they were meant.

Required members are those of OpenAI's types; clients join content as a text, run calls by their ids, and parse the
arguments as one JSON object.
"""

from __future__ import annotations

from typing import Any

from dragoman.canonical.events import CUTS
from dragoman.canonical.request import Json
from dragoman.dialects.chat.stop_and_usage import READ_FINISH
from dragoman.dialects.shared.completed_reply import are_calls_usual, has_all
from dragoman.reply_context import ReplyContext


def is_usual(body: Json, context: ReplyContext) -> bool:
    """True if clients read a reply as it was meant. Several choices that were requested are not looked at."""
    choices = body.get("choices")
    if context.several:
        return True
    if type(choices) is not list or not choices or not has_all(body, "id", "object", "created", "model"):
        return False
    if type(body["id"]) is not str or type(body["created"]) is not int:
        return False
    if len(choices) > 1 and any([_has_calls(choice) for choice in choices[1:]]):
        return False
    return all([_is_usual_choice(choice, context) for choice in choices])


def _has_calls(choice: Any) -> bool:
    message = choice.get("message") if type(choice) is dict else None
    return type(message) is dict and bool(message.get("tool_calls"))


def _is_usual_choice(choice: Any, context: ReplyContext) -> bool:
    if type(choice) is not dict or type(choice.get("index")) is not int:
        return False
    message, finish = choice.get("message"), choice.get("finish_reason")
    if type(message) is not dict or "finish_reason" in message or type(finish) is not str or not finish:
        return False
    content = message.get("content")
    if type(message.get("role")) is not str or not (content is None or type(content) is str):
        return type(content) is list and context.profile.reasoning_key == "thinking" and message.get("role") is not None
    calls = message.get("tool_calls")
    return not calls or _are_usual(calls, cut=READ_FINISH.get(finish) in CUTS)


def _are_usual(calls: Any, *, cut: bool) -> bool:
    if type(calls) is not list:
        return False
    arguments: list[Any] = []
    for call in calls:
        if type(call) is not dict or type(kind := call.get("type")) is not str:
            return False
        body = call.get(kind)
        if kind == "function":
            if type(body) is not dict or not body.get("name"):
                return False
            arguments.append(body.get("arguments"))
    return are_calls_usual([call.get("id") for call in calls], arguments, cut=cut)

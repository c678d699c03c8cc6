"""Chunks and replies of servers that write a member in a form, or at a place, of their own, with one possible meaning.

- `choices` or `tool_calls` as an object in place of an array of one
- a call with `name` and `arguments` at its top level, as Responses has them
- a `finish_reason` inside the message
- a chunk in an envelope, as whole replies come too (`errors.read.unwrapped`)
"""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.request import Json
from dragoman.dialects import Dialect
from dragoman.dialects.errors.read import unwrapped
from dragoman.dialects.shared.json_fields import is_empty
from dragoman.errors import Path
from dragoman.losses import LossCode, Losses
from dragoman.wire.json_codec import dumps, loads_exact

_CHOICES: Final[Path] = ("choices",)
_MEMBERS: Final = frozenset(("name", "arguments", "input"))
"""The members of a call's `function` or `custom`."""
_OF_CALL: Final = frozenset(("id", "function", "custom", *_MEMBERS))
ENVELOPE: Final = "a chunk came in an envelope"
FINISH: Final = "a finish_reason was inside the message"


def usual_chunk(data: bytes, losses: Losses) -> bytes | None:
    """Return the JSON of a chunk without its envelope and with an array of choices, or None if it has neither form."""
    payload = loads_exact(data)
    chunk = unwrapped(payload, Dialect.CHAT)
    choices = chunk.get("choices")
    if type(choices) is dict and choices:
        chunk = _with_array(chunk, choices, losses)
    elif chunk is payload or type(choices) is not list:
        return None
    if chunk is not payload and "choices" not in payload:
        losses.add_once(LossCode.REPLY_REPAIRED, "", ENVELOPE)
    return dumps(chunk)


def usual_reply(body: Any, losses: Losses) -> Any:
    """Return a complete reply in the usual form; the object itself if it has it."""
    choices: Any = body.get("choices") if type(body) is dict else None
    if type(choices) is dict and choices:
        body = _with_array(body, choices, losses)
        choices = body["choices"]
    for at, choice in enumerate(choices if type(choices) is list else ()):
        if (usual := _usual_choice(choice, losses)) is not choice:
            choices = [*choices[:at], usual, *choices[at + 1 :]]
            body = {**body, "choices": choices}
    return body


def _with_array(body: Json, choice: Json, losses: Losses) -> Json:
    losses.add_once(LossCode.REPLY_REPAIRED, _CHOICES, "choices were an object instead of an array")
    return {**body, "choices": [choice]}


def _usual_choice(choice: Any, losses: Losses) -> Any:
    message = choice.get("message") if type(choice) is dict else None
    if type(message) is not dict:
        return choice
    if inner := message.get("finish_reason"):
        native = choice.get("finish_reason") or inner
        message = {key: value for key, value in message.items() if key != "finish_reason"}
        choice = {**choice, "message": message, "finish_reason": native}
        losses.add_once(LossCode.REPLY_REPAIRED, (*_CHOICES, 0, "finish_reason"), FINISH)
    if not (calls := message.get("tool_calls")):
        return choice
    at = (*_CHOICES, 0, "message", "tool_calls")
    calls = calls_in(calls, at, losses)
    if type(calls) is list:
        usual = [nested_call(call, at, losses) for call in calls]
        if calls is not message["tool_calls"] or any(one is not other for one, other in zip(usual, calls, strict=True)):
            choice = {**choice, "message": {**message, "tool_calls": usual}}
    return choice


def calls_in(calls: Any, at: Path, losses: Losses) -> Any:
    """Return the value of `tool_calls`; an object that is a call, or a fragment of one, in an array."""
    if type(calls) is dict and not _OF_CALL.isdisjoint(calls):
        losses.add_once(LossCode.REPLY_REPAIRED, at, "tool_calls were an object instead of an array")
        return [calls]
    return calls


def nested_call(call: Any, at: Path, losses: Losses) -> Any:
    """Return a call, or a fragment of one, with its name and arguments in `function` or `custom`."""
    if type(call) is not dict or _MEMBERS.isdisjoint(call):
        return call
    if not (is_empty(call.get("function")) and is_empty(call.get("custom"))):
        return call
    losses.add_once(LossCode.REPLY_REPAIRED, at, "a call had its name and arguments at its top level")
    kind = "custom" if call.get("type") == "custom" else "function"
    rest = {key: value for key, value in call.items() if key not in _MEMBERS and key not in ("function", "custom")}
    return {**rest, kind: {key: value for key, value in call.items() if key in _MEMBERS}}

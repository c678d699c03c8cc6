"""Calls of the history without an id or a name, and results that name no call.

Servers send such calls, clients keep them, and each request after that was refused (huggingface/tau#715,
pipecat-ai/pipecat#5023). A call gets an id and a name here, and a result the next call of its turn without one. The
former `function_call` is such a call, and a message of the role `function` such a result.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from dragoman.canonical.request import Json
from dragoman.dialects.shared.odd_history import known_id
from dragoman.losses import LossCode, Losses

RESULT_ROLES: Final = ("tool", "function")
"""The roles of results; the second one is that of the former functions."""
_NO_NAME: Final = "unnamed_tool"


class UnnamedCalls:
    """Completes the calls and results of one conversation, whose messages it only reads."""

    def __init__(self, messages: list[Any], losses: Losses) -> None:
        self._messages, self._losses = messages, losses
        self._waiting: deque[str] = deque()
        """Ids of the calls of a turn that no result names."""
        self._run = range(0)
        """Numbers of the results of that turn."""

    def complete(self, message: Json, number: int) -> Json:
        """Return an assistant message with an id and a name in each of its calls."""
        calls = _calls_of(message)
        if type(message.get("function_call")) is dict:
            if message.get("tool_calls"):
                at = ("messages", number, "function_call")
                self._losses.add(LossCode.FIELD_OVERRIDDEN, at, "tool_calls decides")
            message = {key: value for key, value in message.items() if key != "function_call"}
        if type(calls) is not list or all(_is_complete(call) for call in calls):
            return message
        at = ("messages", number, "tool_calls")
        complete = []
        for k, call in enumerate(calls):
            if type(call) is dict and not _is_complete(call):
                self._losses.add_once(LossCode.CALL_ID, at, "a call of the history without an id or a name")
                kind = "custom" if type(call.get("custom")) is dict else "function"
                body = call[kind] if type(call.get(kind)) is dict else {}
                call = {**call, "id": _id_of(call, number, k), kind: {**body, "name": body.get("name") or _NO_NAME}}
            complete.append(call)
        return {**message, "tool_calls": complete}

    def result(self, message: Json, number: int) -> Json:
        """Return a `tool` or `function` message with the id of the call that it answers, or one that no call has."""
        if number not in self._run:
            self._find_run(number)
        self._losses.add_once(LossCode.CALL_ID, ("messages", number), "a result of the history without a call's id")
        return {**message, "tool_call_id": self._waiting.popleft() if self._waiting else f"call_of_{number}"}

    def _find_run(self, number: int) -> None:
        first = last = number
        messages = self._messages
        while first and _role(messages[first - 1]) in RESULT_ROLES:
            first -= 1
        while last + 1 < len(messages) and _role(messages[last + 1]) in RESULT_ROLES:
            last += 1
        self._run = range(first, last + 1)
        calls = _calls_of(messages[first - 1]) if first and _role(messages[first - 1]) == "assistant" else None
        named = {messages[n].get("tool_call_id") for n in self._run if type(messages[n].get("tool_call_id")) is str}
        ids = [
            _id_of(call, first - 1, k) for k, call in enumerate(calls if type(calls) is list else ()) if _is_dict(call)
        ]
        self._waiting = deque(call_id for call_id in ids if call_id not in named)


def _calls_of(message: Json) -> Any:
    """Return the calls of an assistant message; one without them may have the former `function_call`."""
    former = message.get("function_call")
    calls = message.get("tool_calls")
    return calls if calls or type(former) is not dict else [{"type": "function", "function": former}]


def _role(message: Any) -> Any:
    return message.get("role") if _is_dict(message) else None


def _is_dict(value: Any) -> bool:
    return type(value) is dict


def _id_of(call: Json, number: int, k: int) -> str:
    return known_id(call.get("id")) or f"call_{number}_{k}"


def _is_complete(call: Any) -> bool:
    """True for a call with an id and a name, and for what is no call."""
    if type(call) is not dict:
        return True
    if call.get("id") not in (None, "") and type(call.get("id")) is not str:
        return True
    body = call.get("function") or call.get("custom")
    name = body.get("name") if type(body) is dict else None
    return bool(call.get("id")) and (bool(name) or type(body) is not dict)

"""Keys of a reply that its vendor's SDK does not know: each must be carried, or recorded as a loss."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from anthropic.types import Message, RawMessageDeltaEvent
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionMessage
from openai.types.chat.chat_completion import Choice
from openai.types.chat.chat_completion_chunk import Choice as ChunkChoice
from openai.types.chat.chat_completion_chunk import ChoiceDelta
from openai.types.responses import Response

Json = dict[str, Any]
_READ: dict[str, frozenset[str]] = {
    "chat": frozenset({"reasoning", "reasoning_content", "reasoning_details", "event_id"}),
    "messages": frozenset(),
    "responses": frozenset({"frequency_penalty", "output_text", "presence_penalty", "store"}),
}
"""Keys outside the SDKs' types that the readers know, or that repeat the request or the output."""
_EMPTY: tuple[Any, ...] = (None, "", [], {}, False, 0)


def silent_keys(
    dialect: str, events: list[Json], final: Json, losses: Iterable[Any], data: bytes = b""
) -> tuple[str, ...]:
    """The names of unknown keys with a value that are neither in the client's reply nor in a loss row."""
    unknown = {key for event in events for key, value in _unknown(dialect, event) if value not in _EMPTY}
    if not unknown:
        return ()
    told = json.dumps(final) + data.decode("utf-8", "replace") + "\n".join(map(str, losses))
    return tuple(sorted(key for key in unknown - _READ[dialect] if key not in told))


def _unknown(dialect: str, event: Json) -> Iterator[tuple[str, Any]]:
    if dialect == "chat":
        streamed = str(event.get("object") or "").endswith("chunk")
        yield from _beyond(event, ChatCompletionChunk if streamed else ChatCompletion)
        for choice in event.get("choices") or ():
            yield from _beyond(choice, ChunkChoice if streamed else Choice)
            part = choice.get("delta" if streamed else "message") or {}
            yield from _beyond(part, ChoiceDelta if streamed else ChatCompletionMessage)
    elif dialect == "messages":
        if "content" in event:
            yield from _beyond(event, Message)
        elif event.get("type") == "message_start":
            yield from _beyond(event["message"], Message)
        elif event.get("type") == "message_delta":
            yield from _beyond(event, RawMessageDeltaEvent)
    else:
        response = event.get("response") if str(event.get("type", "")).startswith("response.") else event
        if isinstance(response, dict) and "output" in response:
            yield from _beyond(response, Response)


def _beyond(value: Json, kind: Any) -> list[tuple[str, Any]]:
    known = _fields(kind)
    return [(key, found) for key, found in value.items() if key not in known]


@cache
def _fields(kind: Any) -> frozenset[str]:
    return frozenset(field.alias or name for name, field in kind.model_fields.items())

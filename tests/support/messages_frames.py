"""Frames of an upstream Messages stream, and the events that the reader makes of them."""

from __future__ import annotations

import json
from typing import Any

from dragoman.canonical.events import (
    Event,
)
from dragoman.dialects.messages.stream.reader import MessagesReader as Reader
from dragoman.reply_context import ReplyContext
from dragoman.wire.sse import Frame

Json = dict[str, Any]


def opened(index: int, **block: Any) -> Json:
    return {"type": "content_block_start", "index": index, "content_block": block}


def tool(index: int, call_id: str = "toolu_a", name: str = "f", given: Any = None) -> Json:
    return opened(index, type="tool_use", id=call_id, name=name, input={} if given is None else given)


def delta(index: int, form: str, **fields: Any) -> Json:
    return {"type": "content_block_delta", "index": index, "delta": {"type": form, **fields}}


def args(index: int, json_text: str) -> Json:
    return delta(index, "input_json_delta", partial_json=json_text)


def closed(index: int) -> Json:
    return {"type": "content_block_stop", "index": index}


def stopped(reason: str | None, usage: Json | None = None, **more: Any) -> Json:
    body = {"stop_reason": reason, "stop_sequence": None, **more}
    return {"type": "message_delta", "delta": body, "usage": {"output_tokens": 7} if usage is None else usage}


def written_text(text: str, citations: list[Json] | None = None) -> Json:
    """A text block as it is written, with each key of the API's schema."""
    return {"type": "text", "text": text, "citations": citations}


def written_call(call_id: str, name: str, given: Json) -> Json:
    """A `tool_use` block as it is written."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": given, "caller": {"type": "direct"}}


def written_usage(**counts: Any) -> Json:
    """The usage of a `message_delta` as it is written."""
    none = dict.fromkeys(("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"), 0)
    return {**none, "output_tokens_details": None, "server_tool_use": None, **counts}


def written_full_usage(**counts: Any) -> Json:
    """The usage of a message as it is written."""
    return {**written_usage(), "cache_creation": None, "inference_geo": None, "service_tier": None, **counts}


MESSAGE = {"id": "msg_u", "model": "m", "usage": {"input_tokens": 8, "cache_read_input_tokens": 4, "output_tokens": 1}}
START: Json = {"type": "message_start", "message": MESSAGE}
LAST: Json = {"type": "message_stop"}


def context(**settings: Any) -> ReplyContext:
    return ReplyContext("client-model", 1, "req", **settings)


def read(*events: Json | str, into: ReplyContext | None = None, eof: bool = True) -> list[Event]:
    reader = Reader(into or context())
    batch = [Frame("", (event if isinstance(event, str) else json.dumps(event)).encode()) for event in events]
    out = reader.feed(batch)
    return out + (reader.finish() if eof else [])

"""Plain traffic of Responses, written by hand: what `samples` gives for the other two dialects."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]

_USAGE = {
    "input_tokens": 5,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 9,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 14,
}


def response(status: str, output: Sequence[Json] = (), **more: Any) -> Json:
    """A Response object."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 7,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": "m",
        "output": list(output),
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": _USAGE if status == "completed" else None,
        **more,
    }


def message(text: str, status: str = "completed") -> Json:
    """A message item; one in progress has no parts yet."""
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    content = [part] if status == "completed" else []
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": status, "content": content}


def numbered(*events: Json) -> list[bytes]:
    """Events as frames, numbered from 0."""
    frames = []
    for number, event in enumerate(events):
        data = json.dumps({"type": event["type"], "sequence_number": number, **event}, ensure_ascii=False)
        frames.append(f"event: {event['type']}\ndata: {data}\n\n".encode())
    return frames


def text_events(words: Sequence[str]) -> list[Json]:
    """A whole stream of text."""
    text = "".join(words)
    at: Json = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    return [
        {"type": "response.created", "response": response("in_progress")},
        {"type": "response.in_progress", "response": response("in_progress")},
        {"type": "response.output_item.added", "output_index": 0, "item": message("", "in_progress")},
        {"type": "response.content_part.added", **at, "part": part},
        *({"type": "response.output_text.delta", **at, "delta": word, "logprobs": []} for word in words),
        {"type": "response.output_text.done", **at, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **at, "part": part | {"text": text}},
        {"type": "response.output_item.done", "output_index": 0, "item": message(text)},
        {"type": "response.completed", "response": response("completed", [message(text)])},
    ]


def failed_event(text: str) -> Json:
    """A stream's end in an error that states that the server is overloaded."""
    error = {"code": "server_is_overloaded", "message": text}
    return {"type": "response.failed", "response": response("failed", error=error)}

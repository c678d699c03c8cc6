"""Events of a Responses stream as a server sends them, and what the reader makes of them. No sequence numbers: the
reader does not want any."""

from __future__ import annotations

import json
from typing import Any

from dragoman.canonical.events import Event
from dragoman.dialects.responses.stream.reader import ResponsesReader as Reader
from dragoman.reply_context import ReplyContext
from dragoman.wire.sse import Frame

Json = dict[str, Any]
USAGE: Json = {
    "input_tokens": 12,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
    "output_tokens": 7,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 19,
}


def response(status: str = "in_progress", output: list[Any] | None = None, **more: Any) -> Json:
    """A snapshot."""
    return {"id": "resp_u", "model": "m", "created_at": 5, "status": status, "output": output or [], **more}


def created() -> Json:
    """`response.created`."""
    return {"type": "response.created", "response": response()}


def added(index: int, **item: Any) -> Json:
    """`response.output_item.added`."""
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index: int, **item: Any) -> Json:
    """`response.output_item.done`."""
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def at(index: int, name: str, place: int = 0, /, **fields: Any) -> Json:
    """Any event of an item's part."""
    return {"type": f"response.{name}", "item_id": f"i{index}", "output_index": index, "content_index": place, **fields}


def text_part(text: str = "", **more: Any) -> Json:
    """An `output_text` part."""
    return {"type": "output_text", "text": text, "annotations": [], **more}


def refusal_part(text: str = "") -> Json:
    """A `refusal` part."""
    return {"type": "refusal", "refusal": text}


def message(*parts: Json, status: str = "completed", **more: Any) -> Json:
    """A message item."""
    return {"type": "message", "id": "msg_a", "role": "assistant", "status": status, "content": list(parts), **more}


def call(call_id: str = "call_a", name: str = "f", arguments: Any = "{}", **more: Any) -> Json:
    """A function call item."""
    status = more.pop("status", "completed")
    return {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
    } | {
        "status": status,
        **more,
    }


def reasoned(*texts: str, summary: tuple[str, ...] = (), **more: Any) -> Json:
    """A reasoning item."""
    item: Json = {"type": "reasoning", "id": "rs_a", "summary": [{"type": "summary_text", "text": t} for t in summary]}
    if texts:
        item["content"] = [{"type": "reasoning_text", "text": text} for text in texts]
    return item | more


def opens(index: int, part: Json | None = None) -> list[Json]:
    """The start of a message with one part."""
    start = message(status="in_progress")
    return [added(index, **start), at(index, "content_part.added", part=text_part() if part is None else part)]


def writes(index: int, *texts: str) -> list[Json]:
    """Deltas of a text."""
    return [at(index, "output_text.delta", delta=text, logprobs=[]) for text in texts]


def closes(index: int, text: str, status: str = "completed") -> list[Json]:
    """The end of a message with one text."""
    return [
        at(index, "output_text.done", text=text, logprobs=[]),
        at(index, "content_part.done", part=text_part(text)),
        done(index, **message(text_part(text), status=status)),
    ]


def ended(*items: Json, usage: Any = None, **more: Any) -> Json:
    """`response.completed` with these items."""
    usage = USAGE if usage is None else usage
    return {"type": "response.completed", "response": response("completed", list(items), usage=usage, **more)}


def cut(reason: str | None, *items: Json) -> Json:
    """`response.incomplete`."""
    details = {"reason": reason} if reason else None
    snapshot = response("incomplete", list(items), usage=USAGE, incomplete_details=details)
    return {"type": "response.incomplete", "response": snapshot}


def frames(*events: Json | str) -> list[Frame]:
    """The events as frames; a string is a frame's data as it is."""
    return [
        Frame("", event.encode())
        if isinstance(event, str)
        else Frame(event.get("type", ""), json.dumps(event).encode())
        for event in events
    ]


def read(*events: Json | str, context: ReplyContext | None = None, finish: bool = True) -> list[Event]:
    """Return what the reader makes of the events, and of the end of the stream."""
    reader = Reader(context or ReplyContext("client-model"))
    out = reader.feed(frames(*events))
    return out + reader.finish() if finish else out

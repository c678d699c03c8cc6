"""Upstream streams written frame by frame, and what the client made of them. `→` reads client dialect → upstream's."""

from __future__ import annotations

import json
from typing import Any

from dragoman import Translation, direction
from oracles.grammar import Accumulated
from support.directions import Json, ask, judge, stream_through, translated

CHAT, MESSAGES = "chat", "messages"
USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}


def chunk(delta: Json | None, finish: str | None = None, **more: Any) -> bytes:
    """A Chat chunk; without a delta one without choices."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "up"}
    return b"data: " + json.dumps({**head, "choices": choices, "usage": None, **more}).encode() + b"\n\n"


ROLE = chunk({"role": "assistant", "content": ""})
DONE = b"data: [DONE]\n\n"


def start_call(index: int, call_id: str, name: str, arguments: str = "") -> Json:
    """The first fragment of a Chat call."""
    return {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def more_call(index: int, arguments: str) -> Json:
    """A later fragment of a Chat call."""
    return {"index": index, "function": {"arguments": arguments}}


def calls(*fragments: Json) -> bytes:
    """A chunk of call fragments."""
    return chunk({"tool_calls": list(fragments)})


def event(name: str, **fields: Any) -> bytes:
    """A Messages event."""
    return f"event: {name}\ndata: {json.dumps({'type': name, **fields})}\n\n".encode()


def begin(**usage: int) -> bytes:
    """`message_start`."""
    message: Json = {"id": "msg_1", "type": "message", "role": "assistant", "model": "up", "content": []}
    message |= {"stop_reason": None, "stop_sequence": None, "usage": usage or {"input_tokens": 9, "output_tokens": 1}}
    return event("message_start", message=message)


def block(index: int, **content: Any) -> bytes:
    """`content_block_start`."""
    return event("content_block_start", index=index, content_block=content)


def tool(index: int, call_id: str, name: str, given: Json | None = None) -> bytes:
    """`content_block_start` of a call."""
    return block(index, type="tool_use", id=call_id, name=name, input=given or {})


def delta(index: int, kind: str, text: str) -> bytes:
    """`content_block_delta` of text, thinking, arguments or a signature."""
    key = {"text": "text", "thinking": "thinking", "input_json": "partial_json", "signature": "signature"}[kind]
    return event("content_block_delta", index=index, delta={"type": f"{kind}_delta", key: text})


def stop(index: int) -> bytes:
    """`content_block_stop`."""
    return event("content_block_stop", index=index)


def end(reason: str | None, **usage: int) -> bytes:
    """`message_delta` and `message_stop`."""
    noted = {"stop_reason": reason, "stop_sequence": None}
    return event("message_delta", delta=noted, usage=usage or {"output_tokens": 3}) + event("message_stop")


def answer(
    client: str, upstream: str, *frames: bytes, profile: str | None = None, **fields: Any
) -> tuple[Accumulated, bytes]:
    """Return what a strict client accumulates of the translated stream, and its bytes."""
    out = stream_through(translated(direction(client, upstream), profile=profile, **fields), frames)
    return judge(client, out), out


def events_of(data: bytes) -> list[Json]:
    """The JSON payloads of a stream."""
    lines = [line[6:] for line in data.split(b"\n") if line.startswith(b"data: {")]
    return [json.loads(line) for line in lines]


def send(client: str, upstream: str, *, profile: str | None = None, **fields: Any) -> tuple[Json, Translation]:
    """Return what goes upstream for a request with these fields."""
    body = {key: value for key, value in ask(client, **fields).items() if value is not None}
    translation = translated(direction(client, upstream), body, profile=profile)
    return json.loads(translation.body), translation


def whole(client: str, upstream: str, body: Json, **fields: Any) -> Json:
    """A whole reply as the client gets it."""
    got: Json = json.loads(translated(direction(client, upstream), **fields).reply(json.dumps(body).encode()))
    return got


def messages_reply(reason: str, *content: Json) -> Json:
    """A whole Messages reply."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "up",
        "content": list(content),
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 9, "output_tokens": 3},
    }


def chat_reply(finish: str = "stop", *, usage: Json | None = None, **message: Any) -> Json:
    """A whole Chat reply."""
    choice = {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": finish}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "up"}
    return {**head, "choices": [choice], "usage": usage or USAGE}

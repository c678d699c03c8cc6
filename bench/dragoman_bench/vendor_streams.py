"""Streams of one block as the vendors send them: text, the arguments of a call, or reasoning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

KINDS = ("text", "tool", "thinking")
_WORDS = (
    " the",
    " quick",
    " brown",
    " fox",
    ",",
    " jumped",
    "—",
    " über",
    ' "',
    "lazy",
    '"',
    " dog",
    ".",
    "\n\n",
    " 4",
    "2",
)
"""Words as models stream them; three in sixteen have a character that JSON escapes."""


@dataclass(frozen=True)
class Stream:
    """A stream: the frames before the deltas, a frame for each of `texts`, and the frames after them."""

    head: bytes
    frames: Sequence[bytes]
    tail: bytes
    texts: Sequence[str]

    @property
    def payload(self) -> bytes:
        """The JSON of one delta."""
        return self.frames[0].partition(b"data: ")[2].strip()

    def batches(self, size: int) -> list[bytes]:
        """Return the network reads, with `size` events each."""
        middle = [b"".join(self.frames[at : at + size]) for at in range(0, len(self.frames), size)]
        return [self.head, *middle, self.tail]


def texts_of(kind: str, events: int) -> list[str]:
    """Return the texts of the deltas: words, or fragments of a JSON object."""
    words = [_WORDS[number % len(_WORDS)] for number in range(events)]
    if kind != "tool":
        return words
    return ['{"text": "', *(orjson.dumps(word).decode()[1:-1] for word in words[2:]), '"}']


def chat(kind: str, texts: Sequence[str]) -> Stream:
    """Return a stream as OpenAI sends it, with obfuscation; reasoning as compatible servers send it."""

    def frame(*choices: Any, usage: Any = None) -> bytes:
        chunk = {
            "id": "chatcmpl-x",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "service_tier": "default",
            "system_fingerprint": "fp_1",
            "choices": choices,
            "usage": usage,
            "obfuscation": "abcdef",
        }
        return b"data: %b\n\n" % orjson.dumps(chunk)

    def choice(delta: Any, stop: str | None = None) -> Any:
        return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": stop}

    def delta(piece: str) -> Any:
        if kind == "tool":
            return {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}
        return {"reasoning_content" if kind == "thinking" else "content": piece}

    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": ""}}
    head = frame(choice({"role": "assistant", "content": None if kind == "tool" else ""}))
    if kind == "tool":
        head += frame(choice({"tool_calls": [call]}))
    tail = frame(choice({}, "tool_calls" if kind == "tool" else "stop"))
    tail += frame(usage={"prompt_tokens": 8, "completion_tokens": 9, "total_tokens": 17}) + b"data: [DONE]\n\n"
    return Stream(head, [frame(choice(delta(piece))) for piece in texts], tail, texts)


def messages(kind: str, texts: Sequence[str]) -> Stream:
    """Return a stream as Anthropic sends it."""

    def frame(event: str, **rest: Any) -> bytes:
        return b"event: %b\ndata: %b\n\n" % (event.encode(), orjson.dumps({"type": event, **rest}))

    block, delta_type, key = {
        "text": ({"type": "text", "text": ""}, "text_delta", "text"),
        "tool": ({"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}, "input_json_delta", "partial_json"),
        "thinking": ({"type": "thinking", "thinking": "", "signature": ""}, "thinking_delta", "thinking"),
    }[kind]
    opening: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 8, "output_tokens": 1},
    }
    stop = {"stop_reason": "tool_use" if kind == "tool" else "end_turn", "stop_sequence": None}
    head = frame("message_start", message=opening) + frame("content_block_start", index=0, content_block=block)
    frames = [frame("content_block_delta", index=0, delta={"type": delta_type, key: piece}) for piece in texts]
    tail = (
        frame("content_block_stop", index=0)
        + frame("message_delta", delta=stop, usage={"output_tokens": len(texts)})
        + frame("message_stop")
    )
    return Stream(head, frames, tail, texts)


def responses(kind: str, texts: Sequence[str]) -> Stream:
    """Return a stream as OpenAI sends it without obfuscation, which the engine disables."""
    number = iter(range(len(texts) + 20))

    def frame(event: str, **rest: Any) -> bytes:
        return b"event: %b\ndata: %b\n\n" % (
            event.encode(),
            orjson.dumps({"type": event, "sequence_number": next(number), **rest}),
        )

    def response(status: str, output: list[Any]) -> dict[str, Any]:
        usage = {
            "input_tokens": 8,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 9,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 17,
        }
        return {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "model": "m",
            "output": output,
            "parallel_tool_calls": True,
            "temperature": 1.0,
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "usage": usage if output else None,
        }

    whole = "".join(texts)
    item: dict[str, Any]
    empty: dict[str, Any]
    full: dict[str, Any]
    more: dict[str, Any] = {}
    if kind == "tool":
        item = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "f"}
        part: dict[str, Any] | None = None
        empty, full = {"arguments": ""}, {"arguments": whole}
        name, where = "response.function_call_arguments", {"item_id": "fc_1", "output_index": 0}
        done = {"name": "f", "arguments": whole}
    else:
        item = {"id": "msg_1", "type": "message", "role": "assistant"}
        part = {"type": "output_text", "annotations": [], "logprobs": []}
        name = "response.output_text"
        if kind == "text":
            more = {"logprobs": []}
        else:
            item, part = {"id": "rs_1", "type": "reasoning", "summary": []}, {"type": "reasoning_text"}
            name = "response.reasoning_text"
        empty, full = {"content": []}, {"content": [{**part, "text": whole}]}
        where = {"item_id": item["id"], "output_index": 0, "content_index": 0}
        done = {"text": whole}
    begun = response("in_progress", [])
    head = frame("response.created", response=begun) + frame("response.in_progress", response=begun)
    head += frame("response.output_item.added", output_index=0, item={**item, **empty, "status": "in_progress"})
    if part is not None:
        head += frame("response.content_part.added", **where, part={**part, "text": ""})
    frames = [frame(f"{name}.delta", **where, delta=piece, **more) for piece in texts]
    tail = frame(f"{name}.done", **where, **done, **more)
    if part is not None:
        tail += frame("response.content_part.done", **where, part={**part, "text": whole})
    ended = {**item, **full, "status": "completed"}
    tail += frame("response.output_item.done", output_index=0, item=ended)
    tail += frame("response.completed", response=response("completed", [ended]))
    return Stream(head, frames, tail, texts)


STREAMS: dict[str, Callable[[str, Sequence[str]], Stream]] = {
    "chat": chat,
    "messages": messages,
    "responses": responses,
}

"""The synthetic reply of each dialect, byte for byte as its vendor sends it (OpenAI and Anthropic, November 2026).

Everything but a delta's mark is built once, with its chunk framing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from dragoman_bench.wire import CLOCK, MARK_BYTES, NUMBERS, filler

HEAD = (
    b"HTTP/1.1 200 OK\r\n"
    b"date: Sat, 21 Nov 2026 12:00:00 GMT\r\n"
    b"content-type: %b\r\n"
    b"connection: keep-alive\r\n"
    b"cache-control: no-cache\r\n"
    b"x-request-id: req_8d2f6c1e5b7a4930\r\n"
    b"x-ratelimit-limit-requests: 10000\r\n"
    b"x-ratelimit-limit-tokens: 2000000\r\n"
    b"x-ratelimit-remaining-requests: 9999\r\n"
    b"x-ratelimit-remaining-tokens: 1999000\r\n"
    b"x-ratelimit-reset-requests: 6ms\r\n"
    b"x-ratelimit-reset-tokens: 1ms\r\n"
    b"server: cloudflare\r\n"
    b"cf-ray: 9a2b7c4d5e6f7a8b-FRA\r\n"
    b"%b\r\n\r\n"
)
"""A reply's head with about as many fields as a vendor's; parameters: media type, field that frames the body."""

HOLE = "@text@"
"""The place of a delta's text in an event."""
MODEL = "bench-model-2026-10-01"
_LAST = b"[DONE]"


def head(media_type: bytes, framing: bytes) -> bytes:
    """Return a reply's head."""
    return HEAD % (media_type, framing)


def chunk(data: bytes) -> bytes:
    """Return one chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def sse_event(payload: dict[str, Any]) -> bytes:
    """Return a frame with an `event:` line."""
    return b"event: %b\ndata: %b\n\n" % (payload["type"].encode(), _json(payload))


class Reply:
    """A dialect's reply whose deltas have `size` bytes of text (at least a mark's).

    `opening` is the head with the events before the first delta, `whole` the reply without streaming.
    """

    opening: bytes
    whole: bytes
    needs_texts = False
    """True if `closing` needs the texts of all deltas, because the dialect repeats them."""
    breaks: frozenset[int] = frozenset()
    """The deltas before which `between` is sent."""

    def __init__(self, opening: Sequence[bytes], delta: bytes, closing: Sequence[bytes], whole: Any, size: int) -> None:
        self.opening = head(b"text/event-stream; charset=utf-8", b"transfer-encoding: chunked") + b"".join(
            map(chunk, opening)
        )
        self._filler = filler(size)
        before, after = delta.split(HOLE.encode())
        assert b"%" not in before + after
        self._before, self._after = before, self._filler + after
        length = len(before) + MARK_BYTES + len(self._after)
        self._delta = b"%x\r\n%b[%%010d%%b%%012d]%b\r\n" % (length, before, self._after)
        self._closing = b"".join(map(chunk, closing)) + b"0\r\n\r\n"
        body = _json(whole).replace(HOLE.encode(), mark(0, 0, 0, last=True) + self._filler)
        self.whole = head(b"application/json", b"content-length: %d" % len(body)) + body

    def delta(self, serial: int, number: int, sent: int, *, last: bool) -> bytes:
        """Return delta `number` (from 0) of stream `serial`, sent at `sent` monotonic ns."""
        return self._delta % (serial % 10000 * NUMBERS + number, b"!" if last else b"@", sent % CLOCK)

    def text(self, serial: int, number: int, sent: int, *, last: bool) -> bytes:
        """Return the text of that delta."""
        return mark(serial, number, sent, last=last) + self._filler

    def between(self, number: int, texts: Sequence[bytes]) -> bytes:
        """Return the bytes before delta `number`, which is one of `breaks`."""
        return b""

    def closing(self, texts: Sequence[bytes]) -> bytes:
        """Return the bytes after the last delta."""
        return self._closing


def mark(serial: int, number: int, sent: int, *, last: bool) -> bytes:
    """Return a delta's mark."""
    return b"[%010d%b%012d]" % (serial % 10000 * NUMBERS + number, b"!" if last else b"@", sent % CLOCK)


class ResponsesReply(Reply):
    """The reply in Responses, which numbers its events and repeats the whole text four times at the end."""

    needs_texts = True
    _OPENING = 4

    def __init__(self, size: int) -> None:
        begun = response_object("in_progress", [])
        where = {"item_id": "msg_0f3a9c5e7b1d4826", "output_index": 0, "content_index": 0}
        item = {"id": where["item_id"], "type": "message", "status": "in_progress", "role": "assistant"}
        added = item | {"content": []}
        part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        opening = (
            {"type": "response.created", "sequence_number": 0, "response": begun},
            {"type": "response.in_progress", "sequence_number": 1, "response": begun},
            {"type": "response.output_item.added", "sequence_number": 2, "output_index": 0, "item": added},
            {"type": "response.content_part.added", "sequence_number": 3, **where, "part": part},
        )
        content = {"delta": HOLE, "logprobs": []}
        delta = {"type": "response.output_text.delta", "sequence_number": "@n@", **where, **content}
        full = part | {"text": HOLE}
        done = item | {"status": "completed", "content": [full]}
        whole = response_object("completed", [done])
        closing = (
            {"type": "response.output_text.done", "sequence_number": "@n@", **where, "text": HOLE, "logprobs": []},
            {"type": "response.content_part.done", "sequence_number": "@n@", **where, "part": full},
            {"type": "response.output_item.done", "sequence_number": "@n@", "output_index": 0, "item": done},
            {"type": "response.completed", "sequence_number": "@n@", "response": whole},
        )
        super().__init__(
            [sse_event(event) for event in opening], sse_event(delta), (), response_object("completed", [done]), size
        )
        self._start, self._middle = self._before.split(b'"@n@"')
        self._room = len(self._start) + len(self._middle) + MARK_BYTES + len(self._after)
        self._ends = [sse_event(event).replace(b'"@n@"', b"@n@") for event in closing]

    def delta(self, serial: int, number: int, sent: int, *, last: bool) -> bytes:
        """Return a delta. The sequence number cannot be padded, so the chunk's size depends on it."""
        sequence = b"%d" % (number + self._OPENING)
        return b"%x\r\n%b%b%b[%010d%b%012d]%b\r\n" % (
            self._room + len(sequence),
            self._start,
            sequence,
            self._middle,
            serial % 10000 * NUMBERS + number,
            b"!" if last else b"@",
            sent % CLOCK,
            self._after,
        )

    def closing(self, texts: Sequence[bytes]) -> bytes:
        """Return the last events, each of which repeats the text."""
        text = b"".join(texts)
        first = self._OPENING + len(texts)
        return (
            b"".join(
                chunk(end.replace(b"@n@", b"%d" % (first + n)).replace(HOLE.encode(), text))
                for n, end in enumerate(self._ends)
            )
            + b"0\r\n\r\n"
        )


def response_object(status: str, output: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a Response, with its usage if it has output."""
    usage = {
        "input_tokens": 12,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 64,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 76,
    }
    return {
        "id": "resp_0f3a9c5e7b1d48260a",
        "object": "response",
        "created_at": 1795000000,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": 1024,
        "metadata": {},
        "model": MODEL,
        "output": list(output),
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "service_tier": "default",
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage if output else None,
    }


_CHAT = {
    "id": "chatcmpl-CkQ5vT3x8GmRZb1yPq0LwNfHs7uAd",
    "object": "chat.completion.chunk",
    "created": 1795000000,
    "model": MODEL,
    "service_tier": "default",
    "system_fingerprint": "fp_9a1c0b7f2e",
}


def chat_chunk(choices: Sequence[dict[str, Any]], usage: dict[str, Any] | None = None) -> bytes:
    """Return the event of a chunk of Chat Completions."""
    payload = {**_CHAT, "choices": list(choices), "usage": usage, "obfuscation": "q7Zt1a" if choices else "k3"}
    return b"data: %b\n\n" % _json(payload)


def chat_delta(change: dict[str, Any], finish: str | None = None) -> bytes:
    """Return the event of a delta of Chat Completions."""
    return chat_chunk([{"index": 0, "delta": change, "logprobs": None, "finish_reason": finish}])


def _chat(size: int) -> Reply:
    usage = {
        "prompt_tokens": 12,
        "completion_tokens": 64,
        "total_tokens": 76,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }

    message: dict[str, Any] = {"role": "assistant", "content": HOLE, "refusal": None, "annotations": []}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return Reply(
        [chat_delta({"role": "assistant", "content": "", "refusal": None})],
        chat_delta({"content": HOLE}),
        [chat_delta({}, "stop"), chat_chunk([], usage), b"data: " + _LAST + b"\n\n"],
        {**_CHAT, "object": "chat.completion", "choices": [choice], "usage": usage},
        size,
    )


_MESSAGES_USAGE = {
    "input_tokens": 12,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "output_tokens": 1,
    "service_tier": "standard",
}
_MESSAGE: dict[str, Any] = {
    "id": "msg_01XFDUDYJgAACzvnptvVoYEL",
    "type": "message",
    "role": "assistant",
    "model": MODEL,
    "content": [],
    "stop_reason": None,
    "stop_sequence": None,
    "usage": _MESSAGES_USAGE,
}


def message_start() -> bytes:
    """Return the first event of a stream of Messages."""
    return sse_event({"type": "message_start", "message": _MESSAGE})


def _messages(size: int) -> Reply:
    text = {"type": "text_delta", "text": HOLE}
    ended = {"stop_reason": "end_turn", "stop_sequence": None}
    full = {"content": [{"type": "text", "text": HOLE}], **ended, "usage": _MESSAGES_USAGE | {"output_tokens": 64}}
    return Reply(
        [
            message_start(),
            sse_event({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            sse_event({"type": "ping"}),
        ],
        sse_event({"type": "content_block_delta", "index": 0, "delta": text}),
        [
            sse_event({"type": "content_block_stop", "index": 0}),
            sse_event({"type": "message_delta", "delta": ended, "usage": {"output_tokens": 64}}),
            sse_event({"type": "message_stop"}),
        ],
        {**_MESSAGE, **full},
        size,
    )


@lru_cache(maxsize=64)
def reply(dialect: str, size: int) -> Reply:
    """Return the reply of a dialect."""
    if dialect == "chat":
        return _chat(size)
    return _messages(size) if dialect == "messages" else ResponsesReply(size)

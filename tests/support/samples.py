"""Plain traffic of the dialects, written by hand: a request, a whole reply, and streams as lists of frames."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.dialects import Dialect
from oracles.grammar import Accumulated, chat, messages, responses
from support import responses_samples

Json = dict[str, Any]

TEXT = "Grüße, 東京 👋🏽!"
"""The text of the sample replies."""
TOOL = {
    Dialect.CHAT: {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}},
    Dialect.MESSAGES: {"name": "look", "input_schema": {"type": "object"}},
    Dialect.RESPONSES: {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False},
}
PATHS = {
    Dialect.CHAT: "/v1/chat/completions",
    Dialect.MESSAGES: "/v1/messages",
    Dialect.RESPONSES: "/v1/responses",
}


def dump(value: Any) -> bytes:
    """JSON as bytes, characters as they are."""
    return json.dumps(value, ensure_ascii=False).encode()


def request(client: Dialect, *, model: str = "m", stream: bool = False, **fields: Any) -> Json:
    """A request body; fields that are not are left out."""
    body: Json = {"model": model, "messages": [{"role": "user", "content": "Hi"}], "stream": stream}
    if client is Dialect.RESPONSES:
        body = {"model": model, "input": "Hi", "stream": stream}
    if client is Dialect.MESSAGES:
        body["max_tokens"] = 100
    if client is Dialect.CHAT:
        body["max_completion_tokens"] = 100
    body.update(fields)
    return {name: value for name, value in body.items() if value is not None}


def chat_frame(delta: Json, finish: str | None = None, **more: Any) -> bytes:
    """One chunk of a chat stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "m", "choices": [choice]}
    return b"data: " + dump(chunk | more) + b"\n\n"


def messages_frame(kind: str, **fields: Any) -> bytes:
    """One event of a messages stream."""
    return b"event: " + kind.encode() + b"\ndata: " + dump({"type": kind, **fields}) + b"\n\n"


_CHAT_USAGE = {"prompt_tokens": 5, "completion_tokens": 9, "total_tokens": 14}
_MESSAGES_USAGE = {"input_tokens": 5, "output_tokens": 9}
_DONE = b"data: [DONE]\n\n"
_COUNTED = chat_frame({}, choices=[], usage=_CHAT_USAGE)
_START = messages_frame(
    "message_start",
    message={
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 5, "output_tokens": 1},
    },
)


def _generate(parts: list[Json], finish: str | None = None) -> Json:
    candidate = {
        "content": {"role": "model", "parts": parts},
        **({"finishReason": finish} if finish else {}),
        "index": 0,
    }
    usage = {"promptTokenCount": 5, "candidatesTokenCount": 9, "totalTokenCount": 14}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m", "responseId": "r1"}


def _generate_frame(parts: list[Json], finish: str | None = None) -> bytes:
    return b"data: " + dump(_generate(parts, finish)) + b"\r\n\r\n"


def _delta(index: int, **delta: str) -> bytes:
    return messages_frame("content_block_delta", index=index, delta=delta)


def _stop(reason: str) -> list[bytes]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [messages_frame("message_delta", delta=delta, usage=_MESSAGES_USAGE), messages_frame("message_stop")]


def text_stream(
    upstream: Dialect, words: Sequence[str] = ("Grüße, ", "東京 ", "👋🏽!"), *, counted: bool = True
) -> list[bytes]:
    """A whole stream of text, one frame a word. Chat sends its usage chunk only if it was asked for (`counted`)."""
    if upstream is Dialect.GENERATE:
        return [*(_generate_frame([{"text": word}]) for word in words), _generate_frame([{"text": ""}], "STOP")]
    if upstream is Dialect.RESPONSES:
        return responses_samples.numbered(*responses_samples.text_events(words))
    if upstream is Dialect.CHAT:
        stated = [chat_frame({"content": word}) for word in words]
        usage = [_COUNTED] if counted else []
        return [chat_frame({"role": "assistant", "content": ""}), *stated, chat_frame({}, "stop"), *usage, _DONE]
    stated = [_delta(0, type="text_delta", text=word) for word in words]
    start = messages_frame("content_block_start", index=0, content_block={"type": "text", "text": ""})
    end = messages_frame("content_block_stop", index=0)
    return [_START, start, *stated, end, *_stop("end_turn")]


def tool_stream(upstream: Dialect) -> list[bytes]:
    """A whole stream of one tool call; the call's opening is the second frame, then come two of arguments.

    In Gemini's API the call is one frame, the second.
    """
    if upstream is Dialect.GENERATE:
        part: Json = {"functionCall": {"id": "call_1", "name": "look", "args": {"city": "Köln"}}}
        return [_generate_frame([{"text": "Now."}]), _generate_frame([part]), _generate_frame([{"text": ""}], "STOP")]
    arguments = ('{"city": ', '"Köln"}')
    if upstream is Dialect.CHAT:
        call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "look", "arguments": ""}}
        stated = [chat_frame({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}) for piece in arguments]
        opening = [chat_frame({"role": "assistant", "content": None}), chat_frame({"tool_calls": [call]})]
        return [*opening, *stated, chat_frame({}, "tool_calls"), _COUNTED, _DONE]
    block = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
    stated = [_delta(0, type="input_json_delta", partial_json=piece) for piece in arguments]
    opening = [_START, messages_frame("content_block_start", index=0, content_block=block)]
    return [*opening, *stated, messages_frame("content_block_stop", index=0), *_stop("tool_use")]


def sign_of_life(upstream: Dialect) -> bytes:
    """Return what the dialect's servers send while they have nothing to state."""
    if upstream is Dialect.GENERATE:
        return b"\r\n"
    return b": keep-alive\n\n" if upstream is Dialect.CHAT else messages_frame("ping")


def error_frame(upstream: Dialect, message: str = "too much") -> bytes:
    """An in-band error that states that the server is overloaded."""
    if upstream is Dialect.GENERATE:
        return b"data: " + dump({"error": {"code": 503, "message": message, "status": "UNAVAILABLE"}}) + b"\r\n\r\n"
    if upstream is Dialect.CHAT:
        error = {"message": message, "type": "service_unavailable_error", "param": None, "code": "server_is_overloaded"}
        return b"data: " + dump({"error": error}) + b"\n\n"
    return messages_frame("error", error={"type": "overloaded_error", "message": message})


def reply(upstream: Dialect) -> Json:
    """A whole reply."""
    if upstream is Dialect.GENERATE:
        return _generate([{"text": TEXT}], "STOP")
    if upstream is Dialect.RESPONSES:
        return responses_samples.response("completed", [responses_samples.message(TEXT)])
    if upstream is Dialect.CHAT:
        message = {"role": "assistant", "content": TEXT, "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 7, "model": "m"}
        return {**head, "choices": [choice], "usage": _CHAT_USAGE}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": TEXT}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": _MESSAGES_USAGE,
    }


@dataclass(frozen=True, slots=True)
class ReportedError:
    """An error as its client reads it. `param` is `None` in Messages, which has no such field."""

    type: str
    message: str
    param: str | None = None
    code: str | None = None


def read_error(client: Dialect, body: bytes) -> ReportedError:
    """An error body in the client's own envelope. Raises GrammarError for anything else."""
    payload = json.loads(body)
    if client is not Dialect.MESSAGES:
        assert set(payload) == {"error"}, payload
        error = chat.check_error(payload["error"])
        return ReportedError(error["type"], error["message"], error["param"], error["code"])
    error = messages.check_error(payload)
    return ReportedError(error["type"], error["message"])


def judge(client: Dialect, stream: bytes, *, include_usage: bool = False, own: bool = True) -> Accumulated:
    """A stream as its client accumulates it, `own` if it was translated. Raises GrammarError."""
    if client is Dialect.CHAT:
        return chat.check(stream, include_usage=include_usage)
    if client is Dialect.RESPONSES:
        return responses.check(stream, own=own)
    return messages.check(stream)

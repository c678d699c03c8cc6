"""The grammar of a Messages stream (messages §8, §8.1, §9).

The rules are those that the official SDKs depend on: event names equal the types; one `message_start`; blocks start
empty, with indexes that count up from 0; deltas match the kind of their block, which is open; one `message_delta` with
the stop reason; `message_stop` or `error` is last.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from dragoman.stages.grammar.checker import LIMIT, Grammar
from dragoman.stages.grammar.values import (
    GrammarError,
    Json,
    an_object,
    count,
    key_set,
    members,
    parse_arguments,
    parse_object,
    require,
    string,
)

_STOP_REASONS: Final = key_set(
    *("end_turn", "max_tokens", "stop_sequence", "tool_use", "pause_turn", "refusal", "compaction"),
    "model_context_window_exceeded",
)
_CUT_SHORT: Final = key_set("max_tokens", "refusal", "model_context_window_exceeded")
"""Stop reasons with which the arguments of a call may be incomplete."""
_ERROR_TYPES: Final = key_set(
    *("invalid_request_error", "authentication_error", "billing_error", "permission_error", "not_found_error"),
    *("conflict_error", "request_too_large", "rate_limit_error", "api_error", "timeout_error", "overloaded_error"),
)
_COUNTS: Final = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_USAGE: Final = key_set(
    *_COUNTS,
    *("cache_creation", "output_tokens_details", "server_tool_use", "service_tier", "speed", "inference_geo"),
)
_START_USAGE: Final = key_set("input_tokens", "output_tokens")
_END_USAGE: Final = key_set("output_tokens")
_MESSAGE: Final = key_set("id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage")
_MESSAGE_EXTRA: Final = key_set("stop_details", "container")
_STOP: Final = key_set("stop_reason", "stop_sequence")
_STOP_DETAILS: Final = key_set("type", "category", "explanation")
_BLOCKS: Final = {
    "text": (key_set("type", "text"), key_set("citations")),
    "thinking": (key_set("type", "thinking", "signature"), key_set()),
    "redacted_thinking": (key_set("type", "data"), key_set()),
    "tool_use": (key_set("type", "id", "name", "input"), key_set("caller", "toolset_name")),
}
"""Type of block → its required and its optional keys. Blocks of any other type are the vendor's own."""
_EMPTY: Final = {"text": ("text", "citations"), "thinking": ("thinking", "signature"), "tool_use": ("input",)}
_DELTAS: Final = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("tool_use", "partial_json"),
    "signature_delta": ("thinking", "signature"),
    "citations_delta": ("text", "citation"),
}
"""Type of delta → the type of its block, and the key of its content."""
_CALL_ID: Final = re.compile(r"[A-Za-z0-9_-]+")
_BLOCK_SIZE: Final = 256
_PIECE_SIZE: Final = 64
"""Bytes that a block and a piece of a call's arguments take, apart from their texts."""


class _Block:
    """A block that is open: `pieces` are those of a call's arguments."""

    def __init__(self, kind: str) -> None:
        self.type = kind
        self.filled = self.signed = False
        self.pieces: list[str] = []


class MessagesGrammar(Grammar):
    """The grammar of one Messages stream. Blocks follow one another; if `overlapping`, several may be open."""

    def __init__(self, *, overlapping: bool = False, limit: int = LIMIT) -> None:
        super().__init__(limit)
        self._overlapping = overlapping
        self._started = False
        self._count = 0
        self._open: dict[int, _Block] = {}
        self._arguments: list[list[str]] = []
        """The pieces of the arguments of each call."""
        self._ids: set[str] = set()
        self._reason: str | None = None
        """The stop reason, once `message_delta` was read."""

    def read(self, event: str, data: str | None) -> None:
        """Read one event or comment."""
        if data is None:
            return
        payload = parse_object(data)
        require(event and event == payload.get("type"), "an event whose name is not its type: the SDK does not see it")
        handler = _HANDLERS.get(event)
        if handler is None:
            raise GrammarError("an event that is not of the dialect")
        require(self._started or event in ("ping", "error", "message_start"), "an event before message_start")
        handler(self, payload)

    def _ping(self, payload: Json) -> None:
        members(payload, key_set("type"), key_set(), "ping")

    def _error(self, payload: Json) -> None:
        check_error(payload)
        self.ended = True

    def _start(self, payload: Json) -> None:
        require(not self._started, "message_start twice (T-13)")
        self._started = True
        members(payload, key_set("type", "message"), key_set(), "message_start")
        message = members(payload["message"], _MESSAGE, _MESSAGE_EXTRA, "a message")
        string(message["id"], "the id of a message", empty=False)
        string(message["model"], "the model of a message")
        own = message["type"] == "message" and message["role"] == "assistant"
        require(own, "message_start without a message of the assistant's")
        empty = message["content"] == [] and message["stop_reason"] is None and message["stop_sequence"] is None
        require(empty, "message_start that has content or stops already")
        check_usage(message["usage"], _START_USAGE)

    def _start_block(self, payload: Json) -> None:
        members(payload, key_set("type", "index", "content_block"), key_set(), "content_block_start")
        require(self._reason is None, "a block after message_delta")
        index = count(payload["index"], "index")
        require(index == self._count, "a block whose index is not the next")
        require(self._overlapping or not self._open, "two blocks open at a time, although block_order forbids it")
        start = an_object(payload["content_block"], "content_block is not an object")
        kind = string(start.get("type"), "the type of a block", empty=False)
        if kind in _BLOCKS:
            members(start, *_BLOCKS[kind], "the start of a block")
        for key in _EMPTY.get(kind, ()):
            require(not start.get(key), "a block that starts with content: clients lose it")
        self.keep(_BLOCK_SIZE)
        block = _Block(kind)
        if kind == "redacted_thinking":
            string(start["data"], "the data of redacted thinking", empty=False)
        elif kind == "thinking":
            require(start["thinking"] == "" and start["signature"] == "", "thinking that starts without its texts")
        elif kind == "text":
            require(start["text"] == "", "a text block that starts without its text")
        elif kind == "tool_use":
            self._start_call(start, block)
        self._count = index + 1
        self._open[index] = block

    def _start_call(self, start: Json, block: _Block) -> None:
        call_id = string(start["id"], "the id of a call", empty=False)
        require(_CALL_ID.fullmatch(call_id), "a call id that cannot be sent back")
        require(call_id not in self._ids, "a call id twice")
        string(start["name"], "the name of a call", empty=False)
        require(start["input"] == {}, "a call that starts without its empty input")
        self.keep(len(call_id))
        self._ids.add(call_id)
        self._arguments.append(block.pieces)

    def _open_block(self, payload: Json) -> _Block:
        block = self._open.get(count(payload["index"], "index"))
        if block is None:
            raise GrammarError("an event of a block that is not open (T-02)")
        return block

    def _delta(self, payload: Json) -> None:
        members(payload, key_set("type", "index", "delta"), key_set(), "content_block_delta")
        block, delta = self._open_block(payload), an_object(payload["delta"], "delta is not an object")
        kind = string(delta.get("type"), "the type of a delta")
        if block.type not in _BLOCKS:
            return
        owner, key = _DELTAS.get(kind, ("", ""))
        require(block.type == owner, "a delta of another kind than its block (T-12)")
        members(delta, key_set("type", key), key_set(), "a delta")
        require(not block.signed, "a delta after the signature, which comes last")
        if kind == "citations_delta":
            citation = an_object(delta["citation"], "citation is not an object")
            string(citation.get("type"), "the type of a citation", empty=False)
            return
        text = string(delta[key], key)
        block.signed = kind == "signature_delta"
        block.filled |= text != ""
        if kind == "input_json_delta" and text:
            self.keep(_PIECE_SIZE + len(text))
            block.pieces.append(text)

    def _end_block(self, payload: Json) -> None:
        members(payload, key_set("type", "index"), key_set(), "content_block_stop")
        block = self._open_block(payload)
        require(block.type != "text" or block.filled, "an empty text block: the API refuses it when it comes back")
        content = block.type != "thinking" or block.filled or block.signed
        require(content, "a thinking block without text or signature")
        del self._open[payload["index"]]

    def _finish(self, payload: Json) -> None:
        extra = key_set("context_management", "input_transformations")
        members(payload, key_set("type", "delta", "usage"), extra, "message_delta")
        require(not self._open, "message_delta while a block is open")
        require(self._reason is None, "message_delta twice")
        delta = members(payload["delta"], _STOP, _MESSAGE_EXTRA, "the delta of message_delta")
        reason, sequence = delta["stop_reason"], delta["stop_sequence"]
        require(type(reason) is str and reason in _STOP_REASONS, "a stop_reason that the dialect does not have")
        matched = sequence is None or (type(sequence) is str and reason == "stop_sequence")
        require(matched, "a stop_sequence with another reason")
        details = delta.get("stop_details")
        if details is not None:
            members(details, _STOP_DETAILS, key_set(), "stop_details")
            refusal = details["type"] == "refusal" and reason == "refusal"
            require(refusal, "details of a refusal with another reason")
        check_usage(payload["usage"], _END_USAGE)
        calls = self._arguments
        require(reason != "tool_use" or calls, "stop_reason tool_use without a call")
        require(reason not in ("end_turn", "stop_sequence") or not calls, "calls, but not stop_reason tool_use")
        if reason not in _CUT_SHORT:
            for pieces in calls:
                parse_arguments("".join(pieces) or "{}")
        self._reason = reason

    def _end(self, payload: Json) -> None:
        members(payload, key_set("type"), key_set(), "message_stop")
        require(self._reason is not None, "message_stop without message_delta")
        self.ended = True


_HANDLERS: Final[dict[str, Callable[[MessagesGrammar, Json], None]]] = {
    "ping": MessagesGrammar._ping,
    "error": MessagesGrammar._error,
    "message_start": MessagesGrammar._start,
    "content_block_start": MessagesGrammar._start_block,
    "content_block_delta": MessagesGrammar._delta,
    "content_block_stop": MessagesGrammar._end_block,
    "message_delta": MessagesGrammar._finish,
    "message_stop": MessagesGrammar._end,
}


def check_usage(raw: Any, required: frozenset[str]) -> Json:
    """Return a usage object; the required counts must be there. Raises GrammarError."""
    usage = members(raw, required, _USAGE, "usage")
    for name in _COUNTS:
        if name in usage and (name in required or usage[name] is not None):
            count(usage[name], name)
    details = usage.get("output_tokens_details")
    if details is not None:
        for value in an_object(details, "output_tokens_details is not an object").values():
            count(value, "a count in details")
    return usage


def check_error(raw: Any) -> Json:
    """Return the `error` of an error envelope. Raises GrammarError."""
    envelope = members(raw, key_set("type", "error"), key_set("request_id"), "an error")
    require(envelope["type"] == "error", "an error of another type")
    error = members(envelope["error"], key_set("type", "message"), key_set("details"), "an error")
    require(
        type(error["type"]) is str and error["type"] in _ERROR_TYPES, "an error type that the dialect does not have"
    )
    string(error["message"], "the message of an error", empty=False)
    return error

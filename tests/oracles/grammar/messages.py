"""The strict grammar of a Messages stream (messages §8, §8.1, §9)."""

from __future__ import annotations

from typing import Any

from . import sse
from .accumulated import Accumulated, Call, Json, integer, keys, parse_object, require, string

STOP_REASONS = {
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
    "compaction",
}
CUT_SHORT = {"max_tokens", "refusal", "model_context_window_exceeded"}
ERROR_TYPES = {
    "invalid_request_error",
    "authentication_error",
    "billing_error",
    "permission_error",
    "not_found_error",
    "conflict_error",
    "request_too_large",
    "rate_limit_error",
    "api_error",
    "timeout_error",
    "overloaded_error",
}
_KIND = {"text": "text", "thinking": "reasoning", "redacted_thinking": "redacted", "tool_use": "tool"}
_USAGE = {
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "cache_creation",
    "output_tokens_details",
    "server_tool_use",
    "service_tier",
    "speed",
    "inference_geo",
}
_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_MESSAGE = {"id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"}
_DELTA_OF = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("tool_use", "partial_json"),
    "signature_delta": ("thinking", "signature"),
    "citations_delta": ("text", "citation"),
}


class _Block:
    def __init__(self, start: Json) -> None:
        self.type: str = start["type"]
        self.start = start
        self.content = ""
        self.signed = False
        self.open = True


def check_usage(raw: Any, where: str, *, required: set[str]) -> Json:
    """A usage object; the named counts must be there. Raises GrammarError."""
    usage = keys(raw, required, _USAGE, where)
    for name in _COUNTS:
        if name in usage and (name in required or usage[name] is not None):
            integer(usage[name], f"{where}.{name}")
    details = usage.get("output_tokens_details")
    if details is not None:
        require(type(details) is dict, f"{where}.output_tokens_details is not an object")
        for name, value in details.items():
            integer(value, f"{where}.output_tokens_details.{name}")
    return usage


def check_error(raw: Any) -> Json:
    """The error envelope; returns its `error`. Raises GrammarError."""
    envelope = keys(raw, {"type", "error"}, {"request_id"}, "error")
    require(envelope["type"] == "error", f"type is {envelope['type']!r}")
    error = keys(envelope["error"], {"type", "message"}, {"details"}, "error.error")
    require(error["type"] in ERROR_TYPES, f"error type {error['type']!r}")
    string(error["message"], "error.message", empty=False)
    return error


class _Checker:
    def __init__(self, overlapping: bool) -> None:
        self.overlapping = overlapping
        self.result = Accumulated()
        self.usage: Json | None = None
        self.blocks: list[_Block] = []
        self.stop_reason: str | None = None
        self.done = False

    def item(self, item: sse.Item) -> None:
        require(not self.done, f"something after the terminal event: {item!r}")
        if item.data is None:
            self.result.pings += 1
            return
        require(item.data != b"[DONE]", "`[DONE]` in a Messages stream")
        payload = parse_object(item.data)
        require(item.event != "", "a frame without `event:` line: the SDK ignores it")
        require(item.event == payload.get("type"), f"event {item.event!r}, but type {payload.get('type')!r}")
        handler = getattr(self, f"on_{item.event}", None)
        require(handler is not None, f"unknown event {item.event!r}")
        assert handler is not None
        if item.event not in ("ping", "error", "message_start"):
            require(self.usage is not None, f"{item.event} before message_start")
        handler(payload)

    def on_ping(self, payload: Json) -> None:
        keys(payload, {"type"}, set(), "ping")
        self.result.pings += 1

    def on_error(self, payload: Json) -> None:
        self.result.error = check_error(payload)
        self.done = True

    def on_message_start(self, payload: Json) -> None:
        require(self.usage is None, "message_start twice (T-13)")
        keys(payload, {"type", "message"}, set(), "message_start")
        message = keys(payload["message"], _MESSAGE, {"stop_details", "container"}, "message")
        self.result.id = string(message["id"], "message.id", empty=False)
        self.result.model = string(message["model"], "message.model")
        require(message["type"] == "message" and message["role"] == "assistant", f"not a message: {message!r}")
        require(message["content"] == [], "message_start already has content")
        require(message["stop_reason"] is None and message["stop_sequence"] is None, "message_start already stops")
        self.usage = dict(check_usage(message["usage"], "message.usage", required={"input_tokens", "output_tokens"}))

    def on_content_block_start(self, payload: Json) -> None:
        keys(payload, {"type", "index", "content_block"}, set(), "content_block_start")
        require(self.stop_reason is None, "a block after message_delta")
        index = integer(payload["index"], "index")
        require(index == len(self.blocks), f"block {index} started, {len(self.blocks)} was due")
        if not self.overlapping:
            require(not any(block.open for block in self.blocks), "two blocks open at a time")
        start = payload["content_block"]
        require(type(start) is dict and "type" in start, f"not a content block: {start!r}")
        match start["type"]:
            case "text":
                keys(start, {"type", "text"}, {"citations"}, "text block")
                require(start["text"] == "", "text inside content_block_start: `text_stream` loses it")
                require(not start.get("citations"), "citations inside content_block_start")
            case "thinking":
                keys(start, {"type", "thinking", "signature"}, set(), "thinking block")
                require(start["thinking"] == "" and start["signature"] == "", f"thinking starts filled: {start!r}")
            case "redacted_thinking":
                keys(start, {"type", "data"}, set(), "redacted_thinking block")
                string(start["data"], "data", empty=False)
            case "tool_use":
                keys(start, {"type", "id", "name", "input"}, {"caller", "toolset_name"}, "tool_use block")
                call_id = string(start["id"], "tool_use.id", empty=False)
                require(all(c.isascii() and (c.isalnum() or c in "_-") for c in call_id), f"call id {call_id!r}")
                require(call_id not in [b.start.get("id") for b in self.blocks], f"call id {call_id!r} twice")
                string(start["name"], "tool_use.name", empty=False)
                require(start["input"] == {}, f"input inside content_block_start: {start['input']!r}")
            case other:
                string(other, "content_block.type", empty=False)
        self.blocks.append(_Block(start))

    def block(self, payload: Json) -> _Block:
        index = integer(payload["index"], "index")
        require(index < len(self.blocks) and self.blocks[index].open, f"block {index} is not open (T-02)")
        return self.blocks[index]

    def on_content_block_delta(self, payload: Json) -> None:
        keys(payload, {"type", "index", "delta"}, set(), "content_block_delta")
        block = self.block(payload)
        delta = payload["delta"]
        require(type(delta) is dict and "type" in delta, f"not a delta: {delta!r}")
        kind = delta["type"]
        if block.type not in _KIND:
            return
        require(kind in _DELTA_OF, f"delta type {kind!r}")
        owner, name = _DELTA_OF[kind]
        keys(delta, {"type", name}, set(), kind)
        require(block.type == owner, f"{kind} on a {block.type} block (T-12)")
        require(not block.signed, "a delta after the signature, which comes just before the stop")
        if kind == "citations_delta":
            citation = delta["citation"]
            require(type(citation) is dict and type(citation.get("type")) is str, f"not a citation: {citation!r}")
            self.result.annotations.append(citation)
        elif kind == "signature_delta":
            self.result.signatures.append(string(delta["signature"], "signature"))
            block.signed = True
        else:
            block.content += string(delta[name], f"delta.{name}")

    def on_content_block_stop(self, payload: Json) -> None:
        keys(payload, {"type", "index"}, set(), "content_block_stop")
        block = self.block(payload)
        require(block.type != "text" or block.content, "an empty text block: the API refuses it when it comes back")
        require(block.type != "thinking" or block.content or block.signed, "a thinking block without text or proof")
        block.open = False

    def on_message_delta(self, payload: Json) -> None:
        keys(payload, {"type", "delta", "usage"}, {"context_management", "input_transformations"}, "message_delta")
        require(not any(block.open for block in self.blocks), "message_delta while a block is open")
        require(self.stop_reason is None, "message_delta twice")
        delta = keys(payload["delta"], {"stop_reason", "stop_sequence"}, {"stop_details", "container"}, "delta")
        reason = delta["stop_reason"]
        require(reason in STOP_REASONS, f"stop_reason {reason!r}")
        sequence = delta["stop_sequence"]
        require(sequence is None or type(sequence) is str, f"stop_sequence {sequence!r}")
        require(sequence is None or reason == "stop_sequence", f"stop_sequence {sequence!r} beside {reason!r}")
        details = delta.get("stop_details")
        if details is not None:
            keys(details, {"type", "category", "explanation"}, set(), "stop_details")
            require(details["type"] == "refusal" and reason == "refusal", f"stop_details {details!r} beside {reason!r}")
        assert self.usage is not None
        # Values are cumulative: they overwrite those of message_start, absent or null ones leave them.
        usage = check_usage(payload["usage"], "message_delta.usage", required={"output_tokens"})
        self.usage.update({name: value for name, value in usage.items() if value is not None})
        self.stop_reason = reason
        self.result.finish, self.result.sequence, self.result.stop_details = reason, sequence, details

    def on_message_stop(self, payload: Json) -> None:
        keys(payload, {"type"}, set(), "message_stop")
        require(self.stop_reason is not None, "message_stop without message_delta")
        tools = [block for block in self.blocks if block.type == "tool_use"]
        require(self.stop_reason != "tool_use" or tools, "stop_reason tool_use without a call")
        require(
            self.stop_reason not in ("end_turn", "stop_sequence") or not tools, "calls, but not stop_reason tool_use"
        )
        if self.stop_reason not in CUT_SHORT:
            for block in tools:
                parse_object(block.content or "{}")
        self.done = True

    def close(self) -> Accumulated:
        require(self.done, "neither message_stop nor an error at the end (T-20)")
        result = self.result
        for block in self.blocks:
            kind = _KIND.get(block.type, "opaque")
            content = block.start["data"] if kind == "redacted" else block.content
            result.blocks.append((kind, content))
            if kind == "text":
                result.text += content
            elif kind == "reasoning":
                result.reasoning += content
            elif kind == "tool":
                result.calls.append(Call(block.start["id"], block.start["name"], content))
        result.usage = self.usage
        return result


def check(data: bytes, *, include_usage: bool = True, overlapping: bool = False) -> Accumulated:
    """Judge a whole stream that we wrote. Blocks follow one another; with `overlapping` several may be open.

    `include_usage` is there for likeness with the other dialects: a Messages stream always has its counts.
    """
    checker = _Checker(overlapping)
    for item in sse.written(data):
        checker.item(item)
    return checker.close()

"""Raw upstream streams with what they mean: bytes made from canonical events by a small renderer of the tests' own.

The renderers know nothing of the engine's writers. They vary what real servers vary, all of it legal or tolerated:
`quirks` adds what only some compatible servers do (chat §7.3, messages §12).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from dragoman.canonical.events import (
    Annotation,
    BlockEnd,
    BlockKind,
    BlockStart,
    Delta,
    End,
    Error,
    Event,
    Finish,
    Opaque,
    Ping,
    Start,
    StopReason,
    Usage,
)
from dragoman.errors import FailureKind

from .strategies import CHAT, MESSAGES, Shape, event_streams

Json = dict[str, Any]


@dataclass(slots=True)
class Upstream:
    """`data` is what the server sends; `events` what a reader should make of it (compare with `canonical.check`).

    `notes` names the variations, for the reader of a failing example.
    """

    data: bytes
    events: list[Event]
    notes: dict[str, Any]


CHAT_REASONS = {
    StopReason.END: "stop",
    StopReason.REFUSAL: "stop",
    StopReason.TOOL_CALLS: "tool_calls",
    StopReason.LENGTH: "length",
    StopReason.FILTERED: "content_filter",
}
MESSAGES_REASONS = {
    StopReason.END: "end_turn",
    StopReason.STOP_SEQUENCE: "stop_sequence",
    StopReason.TOOL_CALLS: "tool_use",
    StopReason.LENGTH: "max_tokens",
    StopReason.CONTEXT: "model_context_window_exceeded",
    StopReason.FILTERED: "refusal",
    StopReason.PAUSED: "pause_turn",
}
_CHAT_ERRORS = {
    FailureKind.RATE_LIMIT: ("rate_limit_error", "rate_limit_exceeded"),
    FailureKind.CONTEXT_LENGTH: ("invalid_request_error", "context_length_exceeded"),
    FailureKind.OVERLOADED: ("service_unavailable_error", "server_is_overloaded"),
    FailureKind.INVALID_REQUEST: ("invalid_request_error", None),
}
_MESSAGES_ERRORS = {
    FailureKind.INVALID_REQUEST: "invalid_request_error",
    FailureKind.RATE_LIMIT: "rate_limit_error",
    FailureKind.OVERLOADED: "overloaded_error",
    FailureKind.TIMEOUT: "timeout_error",
    FailureKind.API: "api_error",
}


@dataclass(slots=True)
class Wire:
    """The form of frames on the wire: line end, space after the colon, JSON form, comments between frames."""

    newline: bytes
    space: bytes
    ascii: bool
    compact: bool
    bom: bool
    comments: set[int]
    count: int = 0

    def json(self, payload: Any) -> bytes:
        """A payload in the form of this server."""
        return json.dumps(
            payload, ensure_ascii=self.ascii, separators=(",", ":") if self.compact else (", ", ": ")
        ).encode()

    def frame(self, data: bytes, event: str = "", *, event_last: bool = False) -> bytes:
        """One frame, perhaps behind a comment."""
        lines = [b"data:" + self.space + data]
        if event:
            lines.insert(1 if event_last else 0, b"event:" + self.space + event.encode())
        self.count += 1
        comment = b": OPENROUTER PROCESSING" + self.newline * 2 if self.count in self.comments else b""
        return comment + self.newline.join(lines) + self.newline * 2


@st.composite
def wires(draw: st.DrawFn) -> Wire:
    """Any of the ways."""
    return Wire(
        draw(st.sampled_from((b"\n", b"\n", b"\r\n", b"\r"))),
        draw(st.sampled_from((b" ", b" ", b""))),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.sampled_from((False, False, False, True))),
        draw(st.sets(st.integers(1, 12), max_size=2)),
    )


def chat_usage(usage: Usage) -> Json:
    """Chat's form of whole counts (input and output known)."""
    assert usage.input_total is not None
    assert usage.output_total is not None
    out: Json = {
        "prompt_tokens": usage.input_total,
        "completion_tokens": usage.output_total,
        "total_tokens": usage.input_total + usage.output_total,
    }
    prompt = {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write}
    prompt = {name: count for name, count in prompt.items() if count is not None}
    if prompt:
        out["prompt_tokens_details"] = prompt
    if usage.reasoning is not None:
        out["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning}
    return out


def messages_usage(usage: Usage) -> Json:
    """Messages' form of whole counts: `input_tokens` without the caches."""
    assert usage.input_total is not None
    out: Json = {"input_tokens": usage.input_total - (usage.cache_read or 0) - (usage.cache_write or 0)}
    if usage.cache_read is not None:
        out["cache_read_input_tokens"] = usage.cache_read
    if usage.cache_write is not None:
        out["cache_creation_input_tokens"] = usage.cache_write
    if usage.output_total is not None:
        out["output_tokens"] = usage.output_total
    if usage.reasoning is not None:
        out["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    return out


def known_usage(events: list[Event]) -> Usage | None:
    """The counts that the stream gives at its end."""
    for event in events:
        if isinstance(event, Finish | End) and event.usage is not None:
            return event.usage
    return None


@st.composite
def chat_streams(draw: st.DrawFn, shape: Shape = CHAT, *, quirks: bool = True) -> Upstream:
    """A raw Chat Completions stream."""
    coin = st.booleans()
    seldom = st.sampled_from((False, False, False, quirks))
    assert shape.interleave != "all", "text that overlaps another block cannot be told apart in Chat"
    events = draw(event_streams(replace(shape, pings=False)))
    kinds = [event.kind for event in events if isinstance(event, BlockStart)]
    ends = [event.index for event in events if isinstance(event, BlockEnd)]
    if not kinds or kinds[-1] != "text" or len(ends) < len(kinds):
        # Chat has one list of annotations, for the text; it is sent here while the last text is open.
        events = [event for event in events if not isinstance(event, Annotation)]
    wire = draw(wires())
    usage = known_usage(events)
    notes: dict[str, Any] = {
        "role": draw(st.sampled_from(("alone", "alone", "null", "joined"))),
        "usage": draw(st.sampled_from(("last", "last", "finish" if quirks else "last"))) if usage else "none",
        "null_usage": draw(coin),
        "obfuscation": draw(coin),
        "extras": draw(coin),
        "done": draw(st.sampled_from((True, True, False))),
        "finish_joined": draw(seldom),
        "azure": draw(seldom),
        "whole_calls": draw(seldom),
        "ids_repeated": draw(seldom),
        "empty_ids": draw(seldom),
        "untyped": draw(seldom),
        "stop_for_calls": draw(seldom),
        "reasoning": draw(st.sampled_from(("reasoning_content", "reasoning"))),
        "explicit_nulls": draw(coin),
    }
    out: list[bytes] = []
    head: Json = {}
    started = False
    last_choice: Json | None = None

    def chunk(choices: list[Json], usage: Json | None = None) -> Json:
        payload: Json = {**head, "choices": choices}
        if notes["extras"]:
            payload["system_fingerprint"] = None
            payload["service_tier"] = "default"
        if usage is not None or notes["null_usage"]:
            payload["usage"] = usage
        if notes["obfuscation"] and choices:
            payload["obfuscation"] = "aZ09"
        return payload

    def flush(reason: str | None = None, usage: Json | None = None) -> None:
        nonlocal last_choice
        if last_choice is not None:
            last_choice["finish_reason"] = reason
            out.append(wire.frame(wire.json(chunk([last_choice], usage))))
            last_choice = None

    def send(delta: Json) -> None:
        nonlocal started, last_choice
        flush()
        if not started:
            started = True
            if notes["role"] == "joined":
                delta = {"role": "assistant", **delta}
            else:
                content = "" if notes["role"] == "alone" else None
                last_choice = {"index": 0, "delta": {"role": "assistant", "content": content}}
                flush()
        if notes["explicit_nulls"]:
            delta = {"content": None, "refusal": None, **delta}
        last_choice = {"index": 0, "delta": delta}
        if notes["extras"]:
            last_choice["logprobs"] = None

    by_index: dict[int, BlockStart] = {}
    calls: dict[int, int] = {}
    whole: dict[int, str] = {}
    annotations: list[Json] = []
    field_of = {"text": "content", "refusal": "refusal", "reasoning": notes["reasoning"]}
    for event in events:
        match event:
            case Start():
                head = {"id": event.id, "object": "chat.completion.chunk", "created": event.created or 1_790_000_000}
                head["model"] = event.model
                if notes["azure"]:
                    out.append(
                        wire.frame(wire.json({**head, "choices": [], "prompt_filter_results": [{"prompt_index": 0}]}))
                    )
            case BlockStart(index=index, kind="tool"):
                by_index[index] = event
                if notes["whole_calls"]:
                    whole[index] = ""
                else:
                    calls[index] = len(calls)
                    body = {"name": event.name, "arguments": ""}
                    call = {"index": calls[index], "id": event.call_id, "type": "function", "function": body}
                    if notes["untyped"]:
                        del call["type"]
                    send({"tool_calls": [call]})
            case BlockStart():
                by_index[event.index] = event
            case Delta(index=index, text=text):
                start = by_index[index]
                if start.kind != "tool":
                    send({field_of[start.kind]: text})
                elif notes["whole_calls"]:
                    whole[index] += text
                else:
                    fragment: Json = {"index": calls[index], "function": {"arguments": text}}
                    if notes["ids_repeated"]:
                        fragment = {"index": calls[index], "id": start.call_id, "type": "function"}
                        fragment["function"] = {"name": start.name, "arguments": text}
                    elif notes["empty_ids"]:
                        fragment = {"index": calls[index], "id": "", "function": {"name": "", "arguments": text}}
                    send({"tool_calls": [fragment]})
            case Annotation():
                annotations.append(event.citation.native)
            case BlockEnd(index=index):
                start = by_index[index]
                if annotations and index == len(kinds) - 1:
                    send({"annotations": annotations})
                if start.kind == "tool" and notes["whole_calls"]:
                    calls[index] = len(calls)
                    body = {"name": start.name, "arguments": whole[index]}
                    call = {"index": calls[index], "id": start.call_id, "type": "function", "function": body}
                    send({"tool_calls": [call]})
            case Finish():
                reason = CHAT_REASONS[event.stop.reason]
                if notes["stop_for_calls"] and reason == "tool_calls":
                    reason = "stop"
                on_finish = chat_usage(usage) if usage is not None and notes["usage"] == "finish" else None
                if not started or not notes["finish_joined"]:
                    send({})
                flush(reason, on_finish)
            case End():
                if usage is not None and notes["usage"] == "last":
                    out.append(wire.frame(wire.json(chunk([], chat_usage(usage)))))
                if notes["done"]:
                    out.append(wire.frame(b"[DONE]"))
            case Error(failure=failure):
                flush()
                kind, code = _CHAT_ERRORS.get(failure.kind, ("server_error", None))
                error = {"message": failure.message, "type": kind, "param": None, "code": code}
                out.append(wire.frame(wire.json({"error": error})))
            case _:
                pass
    if notes["whole_calls"]:
        # Interleaved calls then come in the order in which they end.
        events = _in_order_of_ends(events)
    data = (b"\xef\xbb\xbf" if wire.bom else b"") + b"".join(out)
    if notes["usage"] == "finish":
        notes["needs_last_seen"] = True
    return Upstream(data, events, notes | {"wire": wire})


def _in_order_of_ends(events: list[Event]) -> list[Event]:
    """Return the same stream with every call whole at the place where it ended, blocks renumbered as they now come."""
    held: dict[int, list[BlockStart | Delta | BlockEnd]] = {}
    numbers: dict[int, int] = {}
    out: list[Event] = []
    for event in events:
        match event:
            case BlockStart(kind="tool"):
                held[event.index] = [event]
            case Delta() | BlockEnd() if event.index in held:
                held[event.index].append(event)
                if isinstance(event, BlockEnd):
                    number = numbers[event.index] = len(numbers)
                    out += [replace(piece, index=number) for piece in held.pop(event.index)]
            case BlockStart():
                numbers[event.index] = len(numbers)
                out.append(replace(event, index=numbers[event.index]))
            case Delta() | BlockEnd() | Annotation() | Opaque():
                out.append(replace(event, index=numbers[event.index]))
            case _:
                out.append(event)
    return out


@st.composite
def messages_streams(draw: st.DrawFn, shape: Shape = MESSAGES, *, quirks: bool = True) -> Upstream:
    """A raw Messages stream. An opaque block comes as a content block of a type that only Messages has."""
    coin = st.booleans()
    seldom = st.sampled_from((False, False, False, quirks))
    events = draw(event_streams(shape))
    wire = draw(wires())
    usage = known_usage(events) or Usage(0, None, None, 0)
    notes: dict[str, Any] = {
        "start_output": draw(coin),
        "delta_input": draw(coin),
        "event_last": draw(coin),
        "pings": draw(coin),
        "empty_json": draw(coin),
        "unknown_events": draw(seldom),
        "two_deltas": draw(seldom),
        "unsigned_start": draw(seldom),
        "extras": draw(coin),
    }
    out: list[bytes] = []

    def send(payload: Json) -> None:
        if notes["unknown_events"] and payload["type"] == "content_block_stop":
            out.append(wire.frame(b'{"type":"novelty","x":1}', "novelty"))
        out.append(wire.frame(wire.json(payload), payload["type"], event_last=notes["event_last"]))

    kinds: dict[int, BlockKind] = {}
    opaque = {event.index: event.payload for event in events if isinstance(event, Opaque) and event.form == "block"}
    for event in events:
        match event:
            case Start():
                counts = messages_usage(replace(usage, output_total=1 if notes["start_output"] else 0, reasoning=None))
                message: Json = {
                    "id": event.id,
                    "type": "message",
                    "role": "assistant",
                    "model": event.model,
                    "content": [],
                    "stop_reason": None,
                    "stop_sequence": None,
                    "usage": counts,
                }
                if notes["extras"]:
                    message |= {"stop_details": None, "container": None}
                send({"type": "message_start", "message": message})
                if notes["pings"]:
                    send({"type": "ping"})
            case BlockStart(index=index, kind=kind):
                kinds[index] = kind
                block = opaque.get(index) or _content_block(event, notes)
                send({"type": "content_block_start", "index": index, "content_block": block})
                if kind == "tool" and notes["empty_json"]:
                    _send_delta(send, index, {"type": "input_json_delta", "partial_json": ""})
            case Delta(index=index, text=text):
                kind = kinds[index]
                if kind == "tool":
                    _send_delta(send, index, {"type": "input_json_delta", "partial_json": text})
                elif kind == "reasoning":
                    _send_delta(send, index, {"type": "thinking_delta", "thinking": text})
                else:
                    _send_delta(send, index, {"type": "text_delta", "text": text})
            case Annotation(index=index, citation=citation):
                _send_delta(send, index, {"type": "citations_delta", "citation": citation.native})
            case Opaque(index=index, form="signature", payload=signature):
                _send_delta(send, index, {"type": "signature_delta", "signature": signature})
            case BlockEnd(index=index):
                send({"type": "content_block_stop", "index": index})
            case Ping():
                send({"type": "ping"})
            case Finish(stop=stop, refusal=refusal):
                delta: Json = {"stop_reason": MESSAGES_REASONS[stop.reason], "stop_sequence": stop.sequence}
                if refusal is not None:
                    delta["stop_details"] = {
                        "type": "refusal",
                        "category": refusal.category,
                        "explanation": refusal.explanation,
                    }
                elif notes["extras"]:
                    delta["stop_details"] = None
                counts = messages_usage(usage)
                if not notes["delta_input"]:
                    counts = {name: counts[name] for name in counts if name.startswith("output")}
                if notes["two_deltas"]:
                    early = {"stop_reason": None, "stop_sequence": None}
                    send({"type": "message_delta", "delta": early, "usage": {"output_tokens": 0}})
                send({"type": "message_delta", "delta": delta, "usage": counts})
            case End():
                send({"type": "message_stop"})
            case Error(failure=failure):
                error = {"type": _MESSAGES_ERRORS.get(failure.kind, "api_error"), "message": failure.message}
                envelope: Json = {"type": "error", "error": error}
                if notes["extras"]:
                    envelope["request_id"] = "req_1"
                send(envelope)
    data = (b"\xef\xbb\xbf" if wire.bom else b"") + b"".join(out)
    return Upstream(data, events, notes | {"wire": wire, "usage": usage})


def _content_block(start: BlockStart, notes: dict[str, Any]) -> Json:
    match start.kind:
        case "tool":
            return {"type": "tool_use", "id": start.call_id, "name": start.name, "input": {}}
        case "opaque":
            return {"type": start.name, "content": ""}
        case "reasoning":
            block = {"type": "thinking", "thinking": ""}
            return block if notes["unsigned_start"] else {**block, "signature": ""}
        case _:
            return {"type": "text", "text": ""}


def _send_delta(send: Callable[[Json], None], index: int, delta: Json) -> None:
    send({"type": "content_block_delta", "index": index, "delta": delta})

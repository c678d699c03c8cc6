"""Renders a scenario in Messages: as named events or as one `message`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson

from dragoman_server.simulator import steps
from dragoman_server.simulator.booking import COUNTS, INPUT, Booking, services
from dragoman_server.simulator.parse_request import Json, read_messages
from dragoman_server.simulator.reply import SimulatedReply, named_frame, signature_of
from dragoman_server.simulator.tokens import ITERATIONS, TokenCounts

read = read_messages
FINISH = {
    "stop": "end_turn",
    "stop_sequence": "stop_sequence",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "refusal": "refusal",
    "content_filter": "refusal",
}
_LATE_REFUSAL = "The answer was stopped by a safety classifier."
HOUR = "cache_write_1h"
"""Only Messages has a count of what is kept for an hour."""
_START = b'"type":"message_start"'
_USAGE = b'"usage":{'


class _Stream:
    """Writes the events of one stream and tracks its open blocks."""

    def __init__(self, scenario: steps.Scenario, reply: SimulatedReply) -> None:
        self.reply = reply
        self.usage = usage_of(scenario, reply)
        self.tier = tier_of(scenario, reply)
        self.reported = scenario.reported
        self.omitted = (reply.body.get("thinking") or {}).get("display") == "omitted"
        self.out: list[bytes] = []
        self.blocks = 0
        self.current: str | None = None
        """Kind of the open text or thinking block, which is the last one."""
        self.thinking = ""
        self.refused = ""
        self.tools: dict[int, int] = {}
        """Open tool blocks: call number → block index."""

    def emit(self, **event: Any) -> None:
        self.out.append(named_frame(event))

    def start(self) -> None:
        usage = {**self.usage, "output_tokens": 1, "service_tier": self.tier}
        for late in ("output_tokens_details", "iterations", "server_tool_use"):
            usage.pop(late, None)
        message = message_of(self.reply, [], None, usage)
        if not self.reported:
            del message["usage"]
        self.emit(type="message_start", message=message)

    def open(self, block: Json) -> int:
        index = self.blocks
        self.blocks += 1
        self.emit(type="content_block_start", index=index, content_block=block)
        if index == 0:
            self.emit(type="ping")
        return index

    def delta(self, index: int, **delta: Any) -> None:
        self.emit(type="content_block_delta", index=index, delta=delta)

    def close_current(self) -> None:
        if self.current is None:
            return
        index = self.blocks - 1
        if self.current == "thinking":
            self.delta(index, type="signature_delta", signature=signature_of(self.thinking))
            self.thinking = ""
        self.emit(type="content_block_stop", index=index)
        self.current = None

    def text(self, kind: str, text: str) -> None:
        if self.current != kind:
            self.close_current()
            empty = {"type": "text", "text": ""} if kind == "text" else _EMPTY_THINKING
            self.open(empty)
            self.current = kind
        if kind == "text":
            self.delta(self.blocks - 1, type="text_delta", text=text)
            return
        self.thinking += text
        if not self.omitted:
            self.delta(self.blocks - 1, type="thinking_delta", thinking=text)

    def tool(self, call: int, name: str) -> None:
        self.close_current()
        block = {"type": "tool_use", "id": self.reply.mint("toolu_01", 22), "name": name, "input": {}}
        self.tools[call] = self.open(block)
        # The real API sends an empty fragment first.
        self.delta(self.tools[call], type="input_json_delta", partial_json="")

    def finish(self, reason: str, stop_sequence: str | None) -> None:
        self.close_current()
        for index in self.tools.values():
            self.emit(type="content_block_stop", index=index)
        delta: Json = {"stop_reason": FINISH[reason], "stop_sequence": stop_sequence}
        if details := _stop_details(reason, self.refused):
            delta["stop_details"] = details
        self.emit(type="message_delta", delta=delta, **({"usage": self.usage} if self.reported else {}))
        self.emit(type="message_stop")


_EMPTY_THINKING: Json = {"type": "thinking", "thinking": "", "signature": ""}


def frames(scenario: steps.Scenario, reply: SimulatedReply) -> list[bytes]:
    """Return the frames of the stream; `message_stop` only after a `Finish`."""
    stream = _Stream(scenario, reply)
    stream.start()
    for step in scenario.steps:
        match step:
            case steps.Text(text):
                stream.text("text", text)
            case steps.Reasoning(text):
                stream.text("thinking", text)
            case steps.Refusal(text):
                stream.refused += text  # not generated as text: it becomes the explanation
            case steps.ToolStart(call, tool):
                stream.tool(call, tool.name)
            case steps.ToolArgs(call, text):
                stream.delta(stream.tools[call], type="input_json_delta", partial_json=text)
            case steps.ToolEnd(call):
                stream.emit(type="content_block_stop", index=stream.tools.pop(call))
            case steps.Finish(reason, stop_sequence):
                stream.finish(reason, stop_sequence)
            case steps.Failure(message):
                stream.emit(type="error", error=error_of(message), request_id=reply.mint("req_"))
    return stream.out


def whole_reply(scenario: steps.Scenario, reply: SimulatedReply) -> tuple[int, Json]:
    """Return status and body of the reply, not streamed, with the ids of the stream."""
    omitted = (reply.body.get("thinking") or {}).get("display") == "omitted"
    content: list[Json] = []
    body = message_of(reply, content, None, {**usage_of(scenario, reply), "service_tier": tier_of(scenario, reply)})
    if not scenario.reported:
        del body["usage"]
    partial: dict[int, list[str]] = {}
    blocks: dict[int, Json] = {}
    refused = thinking = ""
    reason, stop_sequence = "stop", None
    for step in scenario.steps:
        match step:
            case steps.Text(text):
                if not content or content[-1]["type"] != "text":
                    content.append({"type": "text", "text": ""})
                content[-1]["text"] += text
            case steps.Reasoning(text):
                if not content or content[-1]["type"] != "thinking":
                    content.append(dict(_EMPTY_THINKING))
                    thinking = ""
                thinking += text
                content[-1].update(thinking="" if omitted else thinking, signature=signature_of(thinking))
            case steps.Refusal(text):
                refused += text
            case steps.ToolStart(call, tool):
                partial[call] = []
                blocks[call] = {"type": "tool_use", "id": reply.mint("toolu_01", 22), "name": tool.name, "input": {}}
                content.append(blocks[call])
            case steps.ToolArgs(call, text):
                partial[call].append(text)
            case steps.ToolEnd(call):
                blocks[call]["input"] = orjson.loads("".join(partial[call]))
            case steps.Finish():
                reason, stop_sequence = step.reason, step.stop_sequence
            case steps.Failure(message):
                return 529, {"type": "error", "error": error_of(message), "request_id": reply.mint("req_")}
    body["stop_reason"], body["stop_sequence"] = FINISH[reason], stop_sequence
    body["stop_details"] = _stop_details(reason, refused)
    return 200, body


def message_of(reply: SimulatedReply, content: list[Json], stop_reason: str | None, usage: Json) -> Json:
    """Return the `message` object of a start event or of a whole reply."""
    return {
        "id": reply.mint("msg_01", 22),
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "stop_details": None,
        "usage": usage,
    }


def usage_of(scenario: steps.Scenario, reply: SimulatedReply) -> Json:
    """Return a `Usage`: `input_tokens` excludes cached tokens; a classifier's refusal has no output tokens."""
    tokens = tokens_of(scenario, reply)
    usage = _counts(tokens)
    if scenario.searches:
        usage["server_tool_use"] = {"web_fetch_requests": 0, "web_search_requests": scenario.searches}
    if scenario.iterations:
        usage["iterations"] = _iterations(scenario, reply, tokens)
    return usage


def tokens_of(scenario: steps.Scenario, reply: SimulatedReply) -> TokenCounts:
    """Return the counts of a reply without its iterations."""
    charged = tuple(step for step in scenario.steps if type(step) is not steps.Refusal)
    return reply.count(replace(scenario, steps=charged))


def book(scenario: steps.Scenario, reply: SimulatedReply) -> Booking:
    """Return what a reply generated, with its iterations."""
    generated = own = tokens_of(scenario, reply)
    others: list[tuple[str, TokenCounts]] = []
    for each in scenario.iterations:
        extra = ITERATIONS.get(each.kind)
        if each.model is not None:
            others.append((each.model, own if extra is None else extra))
        if extra is not None:
            generated += extra
    tier = {"standard": "default"}.get(tier_of(scenario, reply), reply.tier_of(scenario))
    return Booking(generated, tuple(others), tier)


def reported(data: bytes) -> frozenset[str]:
    """Return what an event or a whole reply reports: the first event has no counts of the output."""
    counts = (INPUT if _START in data else COUNTS) | {HOUR}
    return (counts if _USAGE in data else frozenset()) | services(data)


def tier_of(scenario: steps.Scenario, reply: SimulatedReply) -> str:
    """Return the service tier that served."""
    return "priority" if reply.tier_of(scenario) == "priority" else "standard"


def _counts(tokens: TokenCounts) -> Json:
    written, hour = tokens.cache_write, tokens.cache_write_1h
    return {
        "input_tokens": tokens.input - tokens.cached - written,
        "cache_creation_input_tokens": written,
        "cache_creation": {"ephemeral_5m_input_tokens": written - hour, "ephemeral_1h_input_tokens": hour},
        "cache_read_input_tokens": tokens.cached,
        "output_tokens": tokens.output,
        "output_tokens_details": {"thinking_tokens": tokens.reasoning},
    }


def _iterations(scenario: steps.Scenario, reply: SimulatedReply, tokens: TokenCounts) -> list[Json]:
    """Return all iterations of a reply, in their order: the reply itself is the last one, or that of a fallback."""
    found: list[Json] = []
    own: Json = {"type": "message", "model": reply.model, **_counts(tokens)}
    for each in scenario.iterations:
        if (extra := ITERATIONS.get(each.kind)) is not None:
            found.append({"type": each.kind, **({"model": each.model} if each.model else {}), **_counts(extra)})
        else:
            own = {**own, "type": each.kind, "model": each.model}
    return [*found, own]


def error_of(message: str) -> Json:
    """Return the error object of a stream that fails."""
    return {"type": "overloaded_error", "message": message}


def _stop_details(reason: str, refused: str) -> Json | None:
    if FINISH[reason] != "refusal":
        return None
    return {"type": "refusal", "category": "general_harms", "explanation": refused or _LATE_REFUSAL}

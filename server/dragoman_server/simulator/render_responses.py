"""Renders a scenario in Responses: as typed events with snapshots, or as one `response`."""

from __future__ import annotations

from typing import Any

import orjson

from dragoman_server.simulator import booking, steps
from dragoman_server.simulator.parse_request import Json, Offer, read_responses
from dragoman_server.simulator.reply import SimulatedReply, named_frame, signature_of

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}

read = read_responses
book, reported = booking.book, booking.reported


class _Builder:
    """Builds the output items and writes an event for each change."""

    def __init__(self, scenario: steps.Scenario, reply: SimulatedReply) -> None:
        self.reply = reply
        self.usage = usage_of(scenario, reply) if scenario.reported else None
        self.searches = scenario.searches
        self.out: list[bytes] = []
        self.sequence = 0
        options = reply.body.get("stream_options") or {}
        self.obfuscated = options.get("include_obfuscation") is not False
        self.response = response_of(reply, reply.tier_of(scenario))
        self.items: list[Json] = self.response["output"]
        self.kind: type | None = None
        """Step type of the open item: Text or Refusal for a message, Reasoning for a reasoning item."""
        self.calls: dict[int, int] = {}
        """Open calls: call number → output index."""
        self.searched: dict[int, str] = {}
        """Arguments of open tool searches as text; the item has them as an object."""

    def emit(self, kind: str, **fields: Any) -> None:
        self.out.append(named_frame({"type": kind, "sequence_number": self.sequence, **fields}))
        self.sequence += 1

    def delta(self, kind: str, text: str, **where: Any) -> None:
        if self.obfuscated:
            where["obfuscation"] = self.reply.padding(len(text))
        self.emit(kind, **where, delta=text)

    def start(self) -> None:
        # The snapshot has no items yet.
        kinds = ["response.created"]
        if self.response["background"]:
            self.response["status"] = "queued"
            kinds.append("response.queued")
        for kind in kinds:
            self.emit(kind, response=self.response)
        self.response["status"] = "in_progress"
        self.emit("response.in_progress", response=self.response)

    def add(self, item: Json) -> int:
        self.items.append(item)
        self.emit("response.output_item.added", output_index=len(self.items) - 1, item=item)
        return len(self.items) - 1

    def done(self, index: int, status: str) -> None:
        item = self.items[index]
        item["status"] = status
        self.emit("response.output_item.done", output_index=index, item=item)

    def text(self, kind: type, text: str) -> None:
        """Add visible text or a refusal; each has a message item of its own."""
        part_type = "refusal" if kind is steps.Refusal else "output_text"
        field = "refusal" if kind is steps.Refusal else "text"
        where = self._message(kind, part_type, field)
        item = self.items[where["output_index"]]
        item["content"][0][field] += text
        extra: Json = {} if kind is steps.Refusal else {"logprobs": []}
        self.delta(f"response.{part_type}.delta", text, **where, **extra)

    def _message(self, kind: type, part_type: str, field: str) -> Json:
        if self.kind is kind:
            index = len(self.items) - 1
            return {"item_id": self.items[index]["id"], "output_index": index, "content_index": 0}
        self.close()
        part: Json = {"type": part_type, field: ""}
        if kind is steps.Text:
            part = {"type": part_type, "annotations": [], "logprobs": [], field: ""}
        item: Json = {"id": self.reply.mint("msg_", 50), "type": "message", "status": "in_progress", "content": []}
        item["role"] = "assistant"
        where = {"item_id": item["id"], "output_index": self.add(item), "content_index": 0}
        self.emit("response.content_part.added", **where, part=part)
        item["content"] = [part]
        self.kind = kind
        return where

    def reason(self, text: str) -> None:
        if self.kind is not steps.Reasoning:
            self.close()
            # The real API also sends a provisional value in `.added`; the value in `.done` is final.
            item: Json = {"id": self.reply.mint("rs_", 50), "type": "reasoning", "summary": []}
            item["encrypted_content"] = signature_of("")
            where = {"item_id": item["id"], "output_index": self.add(item), "summary_index": 0}
            part = {"type": "summary_text", "text": ""}
            self.emit("response.reasoning_summary_part.added", **where, part=part)
            item["summary"] = [part]
            self.kind = steps.Reasoning
        index = len(self.items) - 1
        item = self.items[index]
        item["summary"][0]["text"] += text
        where = {"item_id": item["id"], "output_index": index, "summary_index": 0}
        self.delta("response.reasoning_summary_text.delta", text, **where)

    def close(self, status: str = "completed") -> None:
        """Complete the open message or reasoning item."""
        kind, self.kind = self.kind, None
        if kind is None:
            return
        index = len(self.items) - 1
        item = self.items[index]
        if kind is steps.Reasoning:
            part = item["summary"][0]
            item["encrypted_content"] = signature_of(part["text"])
            where = {"item_id": item["id"], "output_index": index, "summary_index": 0}
            self.emit("response.reasoning_summary_text.done", **where, text=part["text"])
            self.emit("response.reasoning_summary_part.done", **where, part=part)
        else:
            part = item["content"][0]
            where = {"item_id": item["id"], "output_index": index, "content_index": 0}
            if kind is steps.Refusal:
                self.emit("response.refusal.done", **where, refusal=part["refusal"])
            else:
                self.emit("response.output_text.done", **where, text=part["text"], logprobs=[])
            self.emit("response.content_part.done", **where, part=part)
        self.done(index, status)

    def call(self, number: int, tool: Offer) -> None:
        self.close()
        if tool.search:
            item: Json = {"id": self.reply.mint("tsc_", 50), "type": "tool_search_call", "status": "in_progress"}
            item |= {"execution": "client", "call_id": self.reply.mint("call_"), "arguments": {}}
            self.searched[number] = ""
            self.calls[number] = self.add(item)
            return
        kind, prefix = ("custom_tool_call", "ctc_") if tool.custom else ("function_call", "fc_")
        item = {"id": self.reply.mint(prefix, 50), "type": kind, "status": "in_progress"}
        item |= {"input" if tool.custom else "arguments": "", "call_id": self.reply.mint("call_"), "name": tool.name}
        if tool.namespace is not None:
            item["namespace"] = tool.namespace
        self.calls[number] = self.add(item)

    def arguments(self, number: int, text: str) -> None:
        index = self.calls[number]
        item = self.items[index]
        where = {"item_id": item["id"], "output_index": index}
        if number in self.searched:
            self.searched[number] += text  # no events before the item is done
        elif item["type"] == "custom_tool_call":
            item["input"] += text
            self.delta("response.custom_tool_call_input.delta", text, **where)
        else:
            item["arguments"] += text
            self.delta("response.function_call_arguments.delta", text, **where)

    def end_call(self, number: int) -> None:
        index = self.calls.pop(number)
        item = self.items[index]
        where = {"item_id": item["id"], "output_index": index}
        if number in self.searched:
            item["arguments"] = orjson.loads(self.searched[number])
        elif item["type"] == "custom_tool_call":
            self.emit("response.custom_tool_call_input.done", **where, input=item["input"])
        else:
            where["name"] = item["name"]
            self.emit("response.function_call_arguments.done", **where, arguments=item["arguments"])
        self.done(index, "completed")

    def finish(self, reason: str) -> None:
        cut = _INCOMPLETE.get(reason)
        self.close("incomplete" if cut else "completed")
        for index in self.calls.values():
            self.done(index, "incomplete")
        self.response["usage"] = self.usage
        if self.searches:
            self.response["tool_usage"] = {"web_search": {"num_requests": self.searches}}
        if cut:
            self.response |= {"status": "incomplete", "incomplete_details": {"reason": cut}}
            self.emit("response.incomplete", response=self.response)
            return
        self.response |= {"status": "completed", "completed_at": self.reply.created + 1}
        self.emit("response.completed", response=self.response)

    def fail(self, failure: steps.Failure) -> None:
        error = {"code": "server_is_overloaded", "message": failure.message}
        self._abandon()
        self.response |= {"status": "failed", "error": error}
        if failure.as_event:
            # Nested, as on the wire; the published schema is flat.
            self.emit("error", error={"type": "service_unavailable_error", **error, "param": None})
        else:
            self.emit("response.failed", response=self.response)

    def _abandon(self) -> None:
        for item in self.items:
            if item.get("status") == "in_progress":
                item["status"] = "incomplete"


def _play(scenario: steps.Scenario, reply: SimulatedReply) -> _Builder:
    builder = _Builder(scenario, reply)
    builder.start()
    for step in scenario.steps:
        match step:
            case steps.Text(text) | steps.Refusal(text):
                builder.text(type(step), text)
            case steps.Reasoning(text):
                builder.reason(text)
            case steps.ToolStart(call, tool):
                builder.call(call, tool)
            case steps.ToolArgs(call, text):
                builder.arguments(call, text)
            case steps.ToolEnd(call):
                builder.end_call(call)
            case steps.Finish(reason):
                builder.finish(reason)
            case steps.Failure():
                builder.fail(step)
    return builder


def frames(scenario: steps.Scenario, reply: SimulatedReply) -> list[bytes]:
    """Return the frames of the stream. The dialect has no `[DONE]`."""
    return _play(scenario, reply).out


def whole_reply(scenario: steps.Scenario, reply: SimulatedReply) -> tuple[int, Json]:
    """Return status and body of the reply, not streamed; a failure is a 200 with status `failed`."""
    builder = _play(scenario, reply)
    if builder.response["status"] == "in_progress":
        builder.response["status"] = "failed"
        builder.response["error"] = {"code": "server_error", "message": "The server had an error"}
    return 200, builder.response


def usage_of(scenario: steps.Scenario, reply: SimulatedReply) -> Json:
    """Return a `ResponseUsage`: input tokens include cached ones, output tokens include reasoning."""
    tokens = reply.count(scenario)
    return {
        "input_tokens": tokens.input,
        "input_tokens_details": {"cached_tokens": tokens.cached, "cache_write_tokens": tokens.cache_write},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.input + tokens.output,
    }


def response_of(reply: SimulatedReply, tier: str) -> Json:
    """Return the snapshot of a new response, which echoes the request. `tier` is the service tier that serves."""
    body: Json = {key: value for key, value in reply.body.items() if value is not None}
    return {
        "id": reply.mint("resp_", 50),
        "object": "response",
        "created_at": reply.created,
        "status": "in_progress",
        "background": body.get("background", False),
        "completed_at": None,
        "error": None,
        "frequency_penalty": 0.0,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "max_tool_calls": body.get("max_tool_calls"),
        "model": reply.model,
        "output": [],
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "presence_penalty": 0.0,
        "previous_response_id": body.get("previous_response_id"),
        "prompt_cache_key": body.get("prompt_cache_key"),
        "reasoning": {"effort": None, "summary": None} | body.get("reasoning", {}),
        "safety_identifier": body.get("safety_identifier"),
        "service_tier": tier,
        "store": body.get("store", True),
        "temperature": body.get("temperature", 1.0),
        "text": _text_of(body.get("text", {})),
        "tool_choice": _choice_of(body.get("tool_choice", "auto")),
        "tools": [_tool_of(tool) for tool in body.get("tools", ())],
        "top_logprobs": body.get("top_logprobs", 0),
        "top_p": body.get("top_p", 1.0),
        "truncation": body.get("truncation", "disabled"),
        "usage": None,
        "user": body.get("user"),
        "metadata": body.get("metadata", {}),
    }


def _text_of(text: Json) -> Json:
    """Return the output format with every key that the schema of a reply requires."""
    echo = {"format": {"type": "text"}, "verbosity": "medium"} | {k: v for k, v in text.items() if v is not None}
    if echo["format"].get("type") == "json_schema":
        strict = echo["format"].get("strict") or False
        echo["format"] = {"description": None} | echo["format"] | {"strict": strict}
    return echo


def _choice_of(choice: Any) -> Any:
    """Return the tool choice; one among allowed tools gets its default mode."""
    return {"mode": "auto"} | choice if isinstance(choice, dict) and choice.get("type") == "allowed_tools" else choice


def _tool_of(tool: Json) -> Json:
    """Return a function tool with every key that the schema of a reply requires. OpenAI's default is `strict`."""
    if tool.get("type") != "function":
        return tool
    return {"description": None, "parameters": None, "strict": True} | tool

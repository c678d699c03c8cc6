"""The question and its answer in Responses."""

from __future__ import annotations

from typing import Final

from dragoman import Profile
from dragoman.wire import Json
from dragoman_server.cli.tool_calls.question import ABOUT, OUTPUT_MAX, SCHEMA, SYSTEM, TOOL, USER
from dragoman_server.cli.tool_calls.read_reply import SeenCall, SeenReply, index_of, message_of, object_of, text_of
from dragoman_server.cli.tool_calls.repairs import OBFUSCATION, PARALLEL, Rule

STOP: Final = "completed"
"""The stop reason of a reply with a call."""
RULES: Final[tuple[Rule, ...]] = (OBFUSCATION, PARALLEL)
"""The repairs of errors."""
_CUSTOM: Final = "custom_tool_call"
_CALLS: Final = ("function_call", _CUSTOM)


def request(model: str, own: Profile | None) -> Json:
    """Return the request; in the provider's own dialect it has what it takes by the profile `own`."""
    body: Json = {
        "model": model,
        "instructions": SYSTEM,
        "input": [{"role": "user", "content": USER}],
        "tools": [
            {"type": "function", "name": TOOL, "description": ABOUT, "parameters": SCHEMA, "strict": True},
        ],
        "tool_choice": "required",
        "max_output_tokens": OUTPUT_MAX,
        "store": False,
        "stream": True,
    }
    if own is None or own.parallel_tool_calls:
        body["parallel_tool_calls"] = False
    return body


def read(event: Json, reply: SeenReply) -> None:
    """Read one frame of a stream."""
    item, response = object_of(event.get("item")), object_of(event.get("response"))
    index, delta = index_of(event.get("output_index")), text_of(event.get("delta"))
    match event.get("type"):
        case "response.output_item.added" if item.get("type") in _CALLS:
            call = SeenCall(text_of(item.get("call_id")), text_of(item.get("name")), text_of(item.get("arguments")))
            call.namespace, call.custom = text_of(item.get("namespace")), item.get("type") == _CUSTOM
            reply.calls[index] = call
        case "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta":
            if index in reply.calls:
                reply.add_arguments(index, delta)
        case "response.output_item.done" if item.get("type") in _CALLS:
            # Complete, whatever came before: some hosts send no deltas.
            call = reply.calls.setdefault(index, SeenCall())
            call.id = text_of(item.get("call_id")) or call.id
            call.name = text_of(item.get("name")) or call.name
            call.custom = item.get("type") == _CUSTOM
            call.arguments = text_of(item.get("input" if call.custom else "arguments")) or call.arguments
            # Clients run a free-text call after `.done`, whatever its status.
            call.complete = call.custom or item.get("status") == "completed"
        case "response.output_text.delta":
            reply.text += delta
        case "response.reasoning_text.delta" | "response.reasoning_summary_text.delta":
            reply.reasoning_text += delta
        case "response.completed" | "response.incomplete":
            reply.stop, reply.ended = str(event.get("type")).removeprefix("response."), True
            reply.counts = object_of(response.get("usage"))
            reply.usage = bool(reply.counts.get("output_tokens"))
        case "response.failed":
            reply.error, reply.ended = message_of(response) or "an error without a message", True
        case "error":
            reply.error = message_of(event) or "an error without a message"

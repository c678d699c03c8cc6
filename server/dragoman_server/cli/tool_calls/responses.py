"""The question and its answer in Responses."""

from __future__ import annotations

from typing import Final

from dragoman import Profile
from dragoman.wire import Json
from dragoman_server.cli.tool_calls.question import ABOUT, OUTPUT_MAX, SCHEMA, SYSTEM, TOOL, USER
from dragoman_server.cli.tool_calls.read_reply import (
    SeenCall,
    SeenReply,
    index_of,
    message_of,
    object_of,
    text_of,
)
from dragoman_server.cli.tool_calls.repairs import OBFUSCATION, PARALLEL, Rule

STOP: Final = "completed"
"""The stop reason of a reply with a call."""
RULES: Final[tuple[Rule, ...]] = (OBFUSCATION, PARALLEL)
"""The repairs of errors."""


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
    match event.get("type"):
        case "response.output_item.added" if item.get("type") == "function_call":
            call = SeenCall(text_of(item.get("call_id")), text_of(item.get("name")), text_of(item.get("arguments")))
            reply.calls[index_of(event.get("output_index"))] = call
        case "response.function_call_arguments.delta" if index_of(event.get("output_index")) in reply.calls:
            reply.calls[index_of(event.get("output_index"))].arguments += text_of(event.get("delta"))
        case "response.output_item.done" if item.get("type") == "function_call":
            # Complete, whatever came before: some hosts send no deltas.
            call = reply.calls.setdefault(index_of(event.get("output_index")), SeenCall())
            call.id = text_of(item.get("call_id")) or call.id
            call.name = text_of(item.get("name")) or call.name
            call.arguments = text_of(item.get("arguments")) or call.arguments
        case "response.output_text.delta":
            reply.text += text_of(event.get("delta"))
        case "response.completed" | "response.incomplete":
            reply.stop, reply.ended = str(event.get("type")).removeprefix("response."), True
            reply.usage = bool(object_of(response.get("usage")).get("output_tokens"))
        case "response.failed":
            reply.error, reply.ended = message_of(response) or "an error without a message", True
        case "error":
            reply.error = message_of(event) or "an error without a message"

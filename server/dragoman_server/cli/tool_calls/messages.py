"""The question and its answer in Messages."""

from __future__ import annotations

from typing import Final

from dragoman import Profile
from dragoman.wire import Json
from dragoman_server.cli.tool_calls.question import ABOUT, OUTPUT_MAX, SCHEMA, SYSTEM, TOOL, USER
from dragoman_server.cli.tool_calls.read_reply import SeenCall, SeenReply, index_of, message_of, object_of, text_of
from dragoman_server.cli.tool_calls.repairs import Rule

STOP: Final = "tool_use"
"""The stop reason of a reply with a call."""
RULES: Final[tuple[Rule, ...]] = ()
"""The repairs of errors."""


def request(model: str, own: Profile | None) -> Json:
    """Return the request; in the provider's own dialect it has what it takes by the profile `own`."""
    return {
        "model": model,
        "max_tokens": OUTPUT_MAX,
        "system": SYSTEM,
        "messages": [{"role": "user", "content": USER}],
        "tools": [{"name": TOOL, "description": ABOUT, "input_schema": SCHEMA}],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
        "stream": True,
    }


def read(event: Json, reply: SeenReply) -> None:
    """Read one frame of a stream."""
    block, delta = object_of(event.get("content_block")), object_of(event.get("delta"))
    index = index_of(event.get("index"))
    match event.get("type"):
        case "message_start":
            reply.counts = object_of(object_of(event.get("message")).get("usage"))
        case "content_block_start" if block.get("type") == "tool_use":
            reply.calls[index] = SeenCall(text_of(block.get("id")), text_of(block.get("name")))
        case "content_block_delta":
            reply.reasoning_text += text_of(delta.get("thinking"))
            reply.text += text_of(delta.get("text"))
            if index in reply.calls:
                reply.add_arguments(index, text_of(delta.get("partial_json")))
        case "content_block_stop" if index in reply.calls:
            reply.calls[index].complete = True
        case "message_delta":
            reply.stop = text_of(delta.get("stop_reason")) or reply.stop
            usage = object_of(event.get("usage"))
            reply.usage |= bool(usage.get("output_tokens"))
            reply.counts = {**reply.counts, **usage}
        case "message_stop":
            reply.ended = True
        case "error":
            reply.error = message_of(event) or "an error without a message"

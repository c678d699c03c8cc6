"""The question and its answer in Chat Completions."""

from __future__ import annotations

from typing import Final

from dragoman import Profile
from dragoman.wire import Json
from dragoman_server.cli.tool_calls.question import ABOUT, OUTPUT_MAX, SCHEMA, SYSTEM, TOOL, UNFORCED, USER
from dragoman_server.cli.tool_calls.read_reply import (
    SeenCall,
    SeenReply,
    index_of,
    message_of,
    object_of,
    objects_of,
    text_of,
)
from dragoman_server.cli.tool_calls.repairs import OBFUSCATION, PARALLEL, Rule

STOP: Final = "tool_calls"
"""The stop reason of a reply with a call."""
RULES: Final[tuple[Rule, ...]] = (
    Rule("max_completion_tokens", '"max_completion_tokens"', "max_tokens_field", ("max_tokens",)),
    Rule("max_tokens", '"max_tokens"', "max_tokens_field", ("max_completion_tokens",)),
    OBFUSCATION,
    Rule("stream_options|include_usage", '"stream_options"', "stream_usage", (False,)),
    PARALLEL,
    Rule("tool_choice", '"tool_choice"', "tool_choice", ("unforced", "auto")),
    Rule("reasoning_effort", '"reasoning_effort"', "tools_with_reasoning", ("effort_none", "never")),
    Rule("strict", '"strict"', "strict_tools", (False,)),
    Rule("developer", '"developer"', "instruction_role", ("system",)),
)
"""The repairs of errors."""
_REASONING = ("reasoning_content", "reasoning", "reasoning_details")
"""Fields in which hosts of Chat Completions send reasoning."""


def request(model: str, own: Profile | None) -> Json:
    """Return the request; in the provider's own dialect it has what it takes by the profile `own`."""
    function: Json = {"name": TOOL, "description": ABOUT, "parameters": SCHEMA}
    forced = own is None or own.tool_choice not in UNFORCED
    body: Json = {
        "model": model,
        "messages": [
            {"role": own.instruction_role if own is not None else "system", "content": SYSTEM},
            {"role": "user", "content": USER},
        ],
        "tools": [{"type": "function", "function": function}],
        "tool_choice": "required" if forced else "auto",
        own.max_tokens_field if own is not None else "max_completion_tokens": OUTPUT_MAX,
        "stream": True,
    }
    if own is None or own.strict_tools:
        function["strict"] = True
    if own is None or own.parallel_tool_calls:
        body["parallel_tool_calls"] = False
    if own is None or own.stream_usage:
        body["stream_options"] = {"include_usage": True}
    return body


def read(chunk: Json, reply: SeenReply) -> None:
    """Read one frame of a stream."""
    if chunk.get("error"):
        reply.error = message_of(chunk) or "an error without a message"
        return
    choices = objects_of(chunk.get("choices"))
    if chunk.get("usage"):
        reply.usage, reply.counts = True, object_of(chunk["usage"])
        reply.usage_with_choices |= bool(choices)
    for choice in choices:
        delta = object_of(choice.get("delta"))
        for name in _REASONING:
            if delta.get(name):
                reply.reasoning[name] = None
        reply.reasoning_text += text_of(delta.get("reasoning_content"))
        content = delta.get("content")
        reply.text += text_of(content)
        for part in objects_of(content):
            if part.get("type") == "thinking":
                reply.reasoning["thinking"] = None
            reply.text += text_of(part.get("text"))
        for number, piece in enumerate(objects_of(delta.get("tool_calls"))):
            index = index_of(piece.get("index", number))
            call = reply.calls.setdefault(index, SeenCall())
            function = object_of(piece.get("function"))
            call.id = call.id or text_of(piece.get("id"))
            call.name = call.name or text_of(function.get("name"))
            reply.add_arguments(index, text_of(function.get("arguments")))
            reply.signed |= bool(
                object_of(object_of(piece.get("extra_content")).get("google")).get("thought_signature")
            )
        if stop := text_of(choice.get("finish_reason")):
            reply.stop = stop
            for call in reply.calls.values():
                call.complete = True

"""The answer of Gemini's API, which only upstreams have: no client asks the question in it."""

from __future__ import annotations

from typing import Final

from dragoman.wire import Json, json_dumps
from dragoman_server.cli.tool_calls.read_reply import SeenCall, SeenReply, message_of, object_of, objects_of, text_of
from dragoman_server.cli.tool_calls.repairs import Rule

RULES: Final[tuple[Rule, ...]] = (
    Rule("[Tt]hinking[_ ]?[Ll]evel", '"thinkingLevel"', "thinking", ("budget", "none")),
    Rule("[Tt]hinking([_ ]?([Bb]udget|[Cc]onfig))?", '"thinkingConfig"', "thinking", ("none",)),
)
"""The repairs of errors. Models of the line 2.5 take a budget and no level, those before them neither."""


def read(chunk: Json, reply: SeenReply) -> None:
    """Read one frame of a stream. It is complete after a stop reason."""
    if chunk.get("error"):
        reply.error = message_of(chunk) or "an error without a message"
        return
    usage = object_of(chunk.get("usageMetadata"))
    reply.usage |= "candidatesTokenCount" in usage
    reply.counts = {**reply.counts, **usage}
    for candidate in objects_of(chunk.get("candidates")):
        for part in objects_of(object_of(candidate.get("content")).get("parts")):
            call = object_of(part.get("functionCall"))
            if call:
                arguments = json_dumps(object_of(call.get("args"))).decode()
                index = len(reply.calls)
                reply.calls[index] = SeenCall(text_of(call.get("id")), text_of(call.get("name")), complete=True)
                reply.add_arguments(index, arguments)
                reply.signed |= bool(part.get("thoughtSignature"))
            elif part.get("thought") is True:
                reply.reasoning_text += text_of(part.get("text"))
            else:
                reply.text += text_of(part.get("text"))
        reply.stop = text_of(candidate.get("finishReason")) or reply.stop
    reply.ended = bool(reply.stop)

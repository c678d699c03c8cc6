"""Writes whole Messages replies (mapping §9.1 to §9.4)."""

from __future__ import annotations

import re
from typing import Any, Final

from dragoman.canonical.events import StopReason, Usage
from dragoman.canonical.parts import Json, Native, Reasoning, Refusal, Text, ToolCall
from dragoman.canonical.reply import Reply
from dragoman.canonical.reply_events import may_be_cut
from dragoman.dialects.messages.block_types import DIRECT
from dragoman.dialects.messages.citations import write_citation
from dragoman.dialects.messages.stop_and_usage import (
    DIALECT,
    record_hidden_tier,
    write_full_usage,
    write_stop,
    write_stop_details,
)
from dragoman.dialects.shared.json_fields import parse_object
from dragoman.errors import UpstreamProtocolError
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.tools.names import reply_id, sanitize_call_id
from dragoman.wire.json_codec import embed, loads

_STOP_SEQUENCE: Final = StopReason.STOP_SEQUENCE  # CPython 3.11 takes long to find a member in its class
_REFUSED: Final = (StopReason.REFUSAL, StopReason.FILTERED)
_LONGEST_CALL_ID: Final = 64
_FRAGILE_NUMBER: Final = re.compile(r"[\d.]{17}|\d[eE][+-]?\d")
"""Numbers that parsing and serializing would change: those of 17 digits and more, and those with exponents."""


def write_reply(reply: Reply, context: ReplyContext) -> Json:
    """Return the body for a Messages client.

    A call whose arguments were cut is dropped, unless it came from Messages: such a reply is passed on unchanged.
    Raises `UpstreamProtocolError` for calls that Messages cannot express: those of free-text tools, tool searches,
    calls into a namespace, and arguments that are not a JSON object (mapping §6.3).
    """
    losses = context.losses
    content: list[Any] = []
    refusals: list[str] = []
    for index, part in enumerate(reply.parts):
        if type(part) is Text:
            if part.text:
                content.append(_write_text(part, context))
            elif part.citations:
                losses.add(LossCode.CITATIONS, part.at)
        elif type(part) is ToolCall:
            if may_be_cut(reply, index) and part.at[:1] != ("content",) and parse_object(part.arguments) is None:
                # As in a stream that is cut: `input` must be an object, and is not guessed.
                losses.add(LossCode.CALL_CUT, part.at, "left out: the reply was cut inside its arguments")
                continue
            content.append(_write_call(part, reply, index))
        elif type(part) is Reasoning:
            block = _write_reasoning(part, context)
            if block is not None:
                content.append(block)
        elif type(part) is Refusal:
            if part.text:
                refusals.append(part.text)
                content.append({"type": "text", "text": part.text, "citations": None})
        elif type(part) is Native and part.origin == DIALECT:
            content.append(part.payload)
        elif type(part) is Native:
            losses.add(LossCode(part.code), part.at)
        else:
            raise UpstreamProtocolError(f"the reply holds a {type(part).__name__}, which no Messages client takes")

    reason = reply.stop.reason
    if refusals and reason is StopReason.END:
        reason = StopReason.REFUSAL
    out: Json = {
        "id": reply_id(reply.id, "msg_"),
        "type": "message",
        "role": "assistant",
        "model": context.model if context.knobs.echo_model == "requested" else reply.model,
        "content": content,
        "stop_reason": write_stop(reason),
        "stop_sequence": reply.stop.sequence if reason is _STOP_SEQUENCE else None,
        "stop_details": None,
        "container": None,
    }
    if reason in _REFUSED:
        out["stop_details"] = write_stop_details(reply.refusal, "".join(refusals))
    if context.moderation is not None:
        losses.add(LossCode.UNKNOWN_FIELD, ("moderation",))
    if reply.usage is None:
        losses.add(LossCode.USAGE_ESTIMATED, "usage", "the upstream counted nothing; zeros were written")
    out["usage"] = usage = write_full_usage(reply.usage or Usage(), context.service)
    record_hidden_tier(context.service, usage["service_tier"], losses)
    return out


def _write_text(part: Text, context: ReplyContext) -> Json:
    block: Json = {"type": "text", "text": part.text, "citations": None}
    if part.citations:
        written = [write_citation(citation, context.envelope) for citation in part.citations]
        known = [citation for citation in written if citation is not None]
        if known:
            block["citations"] = known
        if len(known) < len(written):
            context.losses.add(LossCode.CITATIONS, part.at)
    return block


def _write_reasoning(part: Reasoning, context: ReplyContext) -> Json | None:
    if part.origin == DIALECT and part.native is not None:
        return part.native
    if part.native is not None and context.envelope is not None:
        return {"type": "thinking", "thinking": part.text, "signature": context.envelope.wrap(part.origin, part.native)}
    if part.origin != DIALECT and part.proof is not None:
        context.losses.add(LossCode.REASONING_ENCRYPTED, part.at)
        return {"type": "thinking", "thinking": part.text, "signature": ""} if part.text else None
    if part.redacted and part.proof is not None:
        return {"type": "redacted_thinking", "data": part.proof}
    if not part.text and part.proof is None:
        return None
    return {"type": "thinking", "thinking": part.text, "signature": part.proof or ""}


def _write_call(part: ToolCall, reply: Reply, index: int) -> Json:
    if part.custom:
        raise UpstreamProtocolError(f"the model called the free-text tool {part.name!r}; Messages clients take objects")
    if part.namespace is not None or part.search:
        raise UpstreamProtocolError(f"the model called {part.name!r} in a way that no Messages client can be given")
    if not part.name:
        raise UpstreamProtocolError("the model called a tool without a name")
    # Messages clients restrict the characters of an id; no limit of its length is known.
    longest = len(part.id) or _LONGEST_CALL_ID
    call_id = sanitize_call_id(part.id or f"{reply.id}:{index}", longest)
    return {"type": "tool_use", "id": call_id, "name": part.name, "input": _arguments(part), "caller": DIRECT}


def _arguments(part: ToolCall) -> Any:
    text = part.arguments
    if not text or text.isspace():
        # Many servers write a call without arguments so.
        return {}
    try:
        value = loads(text)
    except ValueError as error:
        raise UpstreamProtocolError(f"the arguments of the call of {part.name!r} are not JSON: {error}") from None
    if type(value) is not dict:
        raise UpstreamProtocolError(f"the arguments of the call of {part.name!r} are not a JSON object")
    return embed(text) if _FRAGILE_NUMBER.search(text) else value

"""Reads whole Messages replies (mapping §9.1 to §9.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman.canonical.events import CUTS, Stop
from dragoman.canonical.parts import Json, Native, Part, Reasoning, Text, ToolCall
from dragoman.canonical.reply import Reply
from dragoman.dialects.messages.block_types import OPAQUE_BLOCKS
from dragoman.dialects.messages.citations import known_citations, read_citation
from dragoman.dialects.messages.reply_fields import (
    ARGUMENTS,
    MESSAGE,
    note_usage,
    read_extras,
    record_unknown_block,
    record_unknown_citation,
    record_unknown_details,
)
from dragoman.dialects.messages.stop_and_usage import (
    DIALECT,
    read_stop_details,
    read_usage,
    resolve_stop_reason,
    stated_usage,
)
from dragoman.dialects.shared.json_fields import kind_of, parse_object
from dragoman.dialects.shared.odd_arguments import read_odd
from dragoman.dialects.shared.stop_words import is_shown
from dragoman.errors import UpstreamProtocolError
from dragoman.losses import LossCode, Losses
from dragoman.reply_context import ReplyContext
from dragoman.tools.duplicate_call_ids import mint_call_id
from dragoman.wire.json_codec import dumps


def read_reply(body: Any, context: ReplyContext) -> Reply:
    """Return the canonical reply of an upstream's body.

    A block of unknown type is dropped and recorded. Raises `UpstreamProtocolError` for a malformed reply.
    """
    losses = context.losses
    if type(body) is not dict:
        raise UpstreamProtocolError(f"expected a message (an object), got {kind_of(body)}")
    if body.get("type") == "error":
        error = body.get("error")
        text = error.get("message") if type(error) is dict else None
        raise UpstreamProtocolError(f"the upstream answered an error under a success status: {text}")
    content = body.get("content") or []
    if type(content) is str:
        losses.add_once(LossCode.REPLY_REPAIRED, "content", "content was a string instead of an array")
        content = [{"type": "text", "text": content}]
    if type(content) is not list:
        raise UpstreamProtocolError(f"content: expected an array, got {kind_of(content)}")
    if not MESSAGE.issuperset(body):
        read_extras(body, MESSAGE, (), context)
    usage, details = stated_usage(body), body.get("stop_details")
    note_usage(usage, ("usage",), context)
    record_unknown_details(details, ("stop_details",), losses)
    parts: list[Part] = []
    upstream_id = _string(body.get("id"))
    ids: set[str] = set()
    for index, block in enumerate(content):
        part = _read_block(block, index, context)
        if type(part) is ToolCall:
            if not part.id or part.id in ids:
                part.id = mint_call_id(part.id, upstream_id, index, part.at, losses.add)
            ids.add(part.id)
        if part is not None:
            parts.append(part)
    stop = _read_stop(body, parts, losses)
    return Reply(
        upstream_id,
        _string(body.get("model")),
        parts,
        stop,
        read_usage(usage),
        refusal=read_stop_details(details),
        cut=_read_cut(parts, len(content), stop),
    )


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _field(block: Json, key: str, index: int) -> str:
    value = block.get(key)
    if value is None:
        return ""
    if type(value) is not str:
        raise UpstreamProtocolError(f"content[{index}].{key}: expected a string, got {kind_of(value)}")
    return value


def _read_block(block: Any, index: int, context: ReplyContext) -> Part | None:
    if block is None:
        return None
    if type(block) is not dict:
        raise UpstreamProtocolError(f"content[{index}]: expected a block (an object), got {kind_of(block)}")
    at = ("content", index)
    losses = context.losses
    record_unknown_block(block, at, context)
    kind = block.get("type")
    if kind == "text":
        text = Text(_field(block, "text", index), at)
        citations = block.get("citations")
        if citations:
            known = known_citations(citations, (*at, "citations"), losses)
            for citation in known:
                record_unknown_citation(citation, (*at, "citations"), context)
            text.citations = [read_citation(citation) for citation in known]
        return text
    if kind == "tool_use":
        return _read_call(block, index, losses, context.names)
    if kind == "thinking":
        # Other servers than Anthropic's may leave the signature out.
        signature, thinking = _string(block.get("signature")), _field(block, "thinking", index)
        if None in (block.get("thinking"), block.get("signature", "")):  # as a stream has them
            block = {**block, "thinking": thinking, "signature": signature}
        return Reasoning(thinking, at, DIALECT, signature or None, native=block)
    if kind == "redacted_thinking":
        return Reasoning("", at, DIALECT, _field(block, "data", index), redacted=True, native=block)
    if type(kind) is str and kind in OPAQUE_BLOCKS:
        return Native(DIALECT, kind, block, OPAQUE_BLOCKS[kind], at)
    losses.add(LossCode.UNKNOWN_EVENT, at, f"a block of type {kind!r} was left out")
    return None


def _read_call(block: Json, index: int, losses: Losses, names: Mapping[str, str]) -> ToolCall:
    at = ("content", index)
    name = _field(block, "name", index)
    if not name:
        raise UpstreamProtocolError(f"content[{index}].name: a tool call has no name")
    given = block.get("input")
    if given is None and (given := block.get("arguments")) is not None:
        losses.add_once(LossCode.REPLY_REPAIRED, (*at, "input"), ARGUMENTS)
    if given is None:
        given = {}
    if type(given) is str and (parsed := parse_object(given or "{}")) is not None:
        losses.add_once(LossCode.REPLY_REPAIRED, (*at, "input"), "arguments were text instead of an object")
        given = parsed
    elif type(given) is str and (odd := read_odd(given)) is not None:
        losses.add_once(LossCode.REPLY_REPAIRED, (*at, "input"), odd[1])
        given = parse_object(odd[0])
    if type(given) is not dict:
        raise UpstreamProtocolError(f"content[{index}].input: expected an object, got {kind_of(given)}")
    return ToolCall(_string(block.get("id")), names.get(name, name), dumps(given).decode(), at)


def _read_stop(body: Json, parts: list[Part], losses: Losses) -> Stop:
    native = body.get("stop_reason")
    if native is not None and type(native) is not str:
        raise UpstreamProtocolError(f"stop_reason: expected a string, got {kind_of(native)}")
    sequence = body.get("stop_sequence")
    called, shown = ToolCall in map(type, parts), is_shown(parts)
    reason = resolve_stop_reason(native, calls=called, shown=shown, losses=losses, at=("stop_reason",))
    return Stop(reason, native, sequence if isinstance(sequence, str) else None)


def _read_cut(parts: list[Part], blocks: int, stop: Stop) -> frozenset[int]:
    """Return the position of the call that was cut before its arguments, as a set of at most one.

    A truncated reply that ends with a call without arguments was cut there. Its arguments become "", as in a stream
    that ends before the first of them. Any other call counts as complete.
    """
    last = parts[-1] if parts else None
    if stop.reason not in CUTS or type(last) is not ToolCall or last.at != ("content", blocks - 1):
        return frozenset()
    if last.arguments != "{}":
        return frozenset()
    last.arguments = ""
    return frozenset({len(parts) - 1})

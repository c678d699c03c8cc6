"""Reads the events of message items: each part of a message is a block of text or of refusal wording (mapping §9.6).

A part that was not announced is opened by its first event. Every function may raise UpstreamProtocolError or
LimitExceeded.
"""

from __future__ import annotations

from dragoman.canonical.events import Annotation, BlockEnd, BlockKind, BlockStart, Event, Logprobs
from dragoman.canonical.request import Json
from dragoman.dialects.openai.logprobs import record_unknown_tokens
from dragoman.dialects.responses.citations import read_citation
from dragoman.dialects.responses.reply.read_items import part_kind, read_citations, read_logprobs
from dragoman.dialects.responses.reply_fields import record_unknown_annotation, record_unknown_part
from dragoman.dialects.responses.stream.item_state import (
    ItemState,
    ItemTable,
    PartState,
    part_number,
    part_path,
    wrong_type,
)
from dragoman.errors import UpstreamProtocolError
from dragoman.losses import LossCode


def text_delta(table: ItemTable, event: Json, out: list[Event]) -> None:
    """Read `response.output_text.delta` or `response.refusal.delta`."""
    kind: BlockKind = "refusal" if event["type"] == "response.refusal.delta" else "text"
    part = table.open_part(event, kind) or _find_open_part(table, event, kind, out)
    if part is not None:
        text = event.get("delta") or ""
        if type(text) is not str:
            raise wrong_type(event, "delta")
        part.append_delta(text, out)
        if kind == "text" and event.get("logprobs"):
            _emit_logprobs(table, part, event, out)


def text_done(table: ItemTable, event: Json, out: list[Event]) -> None:
    """Read the `.done` event of a text. It only repeats the text, so it is ignored if the part is closed."""
    kind: BlockKind = "refusal" if event["type"] == "response.refusal.done" else "text"
    text = event.get("text" if kind == "text" else "refusal")
    part = table.open_part(event, kind)
    if part is None and not _is_closed(table, event, kind):
        part = _find_repeated(table, event, kind, text) or _find_open_part(table, event, kind, out)
    if part is not None:
        table.append_missing(part, text, out)
        if table.context.logprobs:
            record_unknown_tokens(event.get("logprobs"), ("logprobs",), table.context.losses)
            _emit_logprobs(table, part, event, out, once=True)
        part.text_done = True


def annotation_added(table: ItemTable, event: Json, out: list[Event]) -> None:
    """Read `response.output_text.annotation.added`."""
    item, annotation = table.find(event), event.get("annotation")
    part = item.parts.get(part_number(event, "content_index")) if item is not None else None
    if part is None and not (item is not None and item.done):
        part = _find_open_part(table, event, "text", out)
    if part is not None and part.open and part.kind == "text" and type(annotation) is dict:
        part.annotations += 1
        record_unknown_annotation(annotation, (*part_path(event), "annotations"), table.context)
        out.append(Annotation(part.block, read_citation(annotation)))
    else:
        table.context.losses.add(LossCode.CITATIONS, "response.output_text.annotation.added")


def announce_part(table: ItemTable, item: ItemState, number: int, raw: Json, out: list[Event]) -> None:
    """Open the part of a `content_part.added`, unless an earlier event opened it."""
    part = item.parts.get(number)
    if part is None:
        part = _open_part(table, item, number, raw, out)
    elif part.announced:
        raise UpstreamProtocolError(f"upstream started part {number} of item {item.key} twice")
    part.announced = True


def end_part(table: ItemTable, item: ItemState, number: int, raw: Json, out: list[Event]) -> None:
    """Emit what is missing of the part of a `content_part.done`, and close it."""
    part = item.parts.get(number)
    if part is None:
        known = part_kind(raw)
        repeated = item.find_repeated(known[0], raw.get(known[1])) if known is not None else None
        part = repeated or _open_part(table, item, number, raw, out)
    if part.kind is None:
        return
    if not part.open:
        raise UpstreamProtocolError(f"upstream ended part {number} of item {item.key} twice")
    _complete_part(table, item, number, part, raw, out)
    close_part(table, part, out)


def is_repeated(table: ItemTable, part: PartState, raw: Json) -> bool:
    """True if a complete part of text has nothing that was not received: no more text, citations or probabilities."""
    text = raw.get("text")
    return (
        raw.get("type") == "output_text"
        and type(text) is str
        and len(text) <= part.length
        and not raw.get("annotations")
        and not table.context.logprobs
    )


def close_part(table: ItemTable, part: PartState, out: list[Event], *, complete: bool = True) -> None:
    """End the block of an open part."""
    part.open = False
    part.last_delta = ""
    if part.length:
        table.shown = True
    out.append(BlockEnd(table.blocks.end(part.key), complete))


def complete_message(table: ItemTable, item: ItemState, raw: Json, out: list[Event], *, complete: bool) -> None:
    """Emit what is missing of a finished message, and close its parts. `complete` is False if it was cut off."""
    content = raw.get("content")
    if content and type(content) is str:
        table.record_repair("content was a string instead of an array")
        content = [{"type": "output_text", "text": content}]
    if type(content) is not list:
        content = []
    for number, raw_part in zip(item.part_numbers(len(content)), content, strict=True):
        if not raw_part:
            continue
        if type(raw_part) is not dict:
            raise UpstreamProtocolError("upstream sent a message with a part that is not an object")
        part = item.parts.get(number) or _open_part(table, item, number, raw_part, out)
        if part.open:
            _complete_part(table, item, number, part, raw_part, out)
            close_part(table, part, out, complete=complete)
    end_parts(table, item, out, complete=complete)


def end_parts(table: ItemTable, item: ItemState, out: list[Event], *, complete: bool) -> None:
    """Close the open parts. `complete` is False if the message was cut off; a part whose text is done is complete."""
    for part in item.parts.values():
        if part.open:
            close_part(table, part, out, complete=complete or part.text_done)


def _is_closed(table: ItemTable, event: Json, kind: BlockKind) -> bool:
    """True if the item or the part that an event belongs to is closed."""
    item = table.find(event)
    if item is None:
        return False
    part = item.parts.get(part_number(event, "content_index"))
    return item.done or (part is not None and part.kind is kind and not part.open)


def _find_repeated(table: ItemTable, event: Json, kind: BlockKind, text: object) -> PartState | None:
    """Return the part that a `.done` event repeats under a number that no part has."""
    item = table.find(event)
    if item is None or part_number(event, "content_index") in item.parts:
        return None
    return item.find_repeated(kind, text)


def _find_open_part(table: ItemTable, event: Json, kind: BlockKind, out: list[Event]) -> PartState | None:
    """Return the open part that an event belongs to, started now if need be, or None if the part is dropped."""
    item = table.find(event) or table.add_unannounced(event, "message", out)
    if item.kind == "unknown":
        return None
    number = part_number(event, "content_index")
    part = item.parts.get(number)
    if part is None:
        table.record_repair("a part came without content_part.added")
        return _start_part(table, item, number, kind, out)
    if part.kind is not None and (part.kind != kind or not part.open):
        state = f"a {part.kind} part" if part.open else "a part that is closed"
        raise UpstreamProtocolError(f"upstream sent {event['type']} for {state}")
    return part if part.kind is not None else None


def _open_part(table: ItemTable, item: ItemState, number: int, raw: Json, out: list[Event]) -> PartState:
    record_unknown_part(raw, (*item.path, "content", number), table.context)
    known = part_kind(raw)
    if known is None:
        table.context.losses.add(
            LossCode.UNKNOWN_EVENT, (*item.path, "content", number), "a part of unknown type was left out"
        )
        return _start_part(table, item, number, None, out)
    part = _start_part(table, item, number, known[0], out)
    text = raw.get(known[1])
    if type(text) is str:  # the SDK reads it as the first fragment
        part.append_delta(text, out)
    return part


def _start_part(table: ItemTable, item: ItemState, number: int, kind: BlockKind | None, out: list[Event]) -> PartState:
    if item.kind != "message" or item.done:
        state = "is closed" if item.done else f"is a {item.type}"
        raise UpstreamProtocolError(f"upstream sent a part of a message for item {item.key}, which {state}")
    table.reserve()
    key, block = (item.key, number), 0
    if kind is not None:
        block = table.start_block(key, kind, out)
        out.append(BlockStart(block, kind, apart=block > 0 and not item.parts))
        table.has_refusal = table.has_refusal or kind == "refusal"
    part = item.parts[number] = PartState(kind, block, key)
    return part


def _complete_part(
    table: ItemTable, item: ItemState, number: int, part: PartState, raw: Json, out: list[Event]
) -> None:
    if not raw:
        return
    known = part_kind(raw)
    if known is None or known[0] is not part.kind:
        raise UpstreamProtocolError(f"upstream ended a {part.kind} part as one of type {raw.get('type')!r}")
    table.append_missing(part, raw.get(known[1]), out)
    if part.kind == "text":
        _emit_logprobs(table, part, raw, out, once=True)
        at = (*item.path, "content", number, "annotations")
        citations = read_citations(raw, at, table.context.losses, part.annotations)
        out.extend(Annotation(part.block, citation) for citation in citations)


def _emit_logprobs(table: ItemTable, part: PartState, holder: Json, out: list[Event], *, once: bool = False) -> None:
    if once and part.logprobs:
        return
    tokens = read_logprobs(holder, table.context)
    if tokens and part.kind == "text":
        part.logprobs = True
        out.append(Logprobs(part.block, tokens))

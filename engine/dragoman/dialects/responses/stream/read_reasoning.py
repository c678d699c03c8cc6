"""Reads the events of reasoning items: one block per item, its parts joined by a blank line (mapping §9.6, streams §9).

An item may hold both the reasoning and a summary of it. Clients have one place for both, and its source must not change
in the middle, so the one that comes first is emitted. Every function may raise UpstreamProtocolError or LimitExceeded.
"""

from __future__ import annotations

from typing import Any

from dragoman.canonical.events import BlockEnd, Delta, Event, Opaque
from dragoman.canonical.request import Json
from dragoman.dialects.responses.reply.read_items import read_encrypted_content, reasoning_texts
from dragoman.dialects.responses.reply_fields import record_unknown_part
from dragoman.dialects.responses.stop_and_usage import DIALECT
from dragoman.dialects.responses.stream.item_state import ItemState, ItemTable, PartState, part_number, wrong_type
from dragoman.errors import Path, UpstreamProtocolError
from dragoman.losses import LossCode


def delta(table: ItemTable, event: Json, out: list[Event]) -> None:
    """Read `response.reasoning_text.delta` or `response.reasoning_summary_text.delta`."""
    item = table.find(event) or table.add_unannounced(event, "reasoning", out)
    text = event.get("delta") or ""
    if type(text) is not str:
        raise wrong_type(event, "delta")
    if item.kind == "unknown":
        return
    if item.kind != "reasoning" or item.done:
        state = "is closed" if item.done else f"is a {item.type}"
        raise UpstreamProtocolError(f"upstream sent {event['type']} for item {item.key}, which {state}")
    surface = _surface(event)
    _emit(table, item, surface, part_number(event, f"{surface}_index"), text, out)


def part_added(table: ItemTable, event: Json, out: list[Event]) -> None:
    """Read `response.reasoning_summary_part.added`: only its unknown keys, as its texts open the part."""
    if type(part := event.get("part")) is dict:
        record_unknown_part(part, _summary_path(event), table.context)


def _summary_path(event: Json) -> Path:
    key = event.get("output_index")
    return ("output", key if type(key) is int else 0, "summary", part_number(event, "summary_index"))


def done(table: ItemTable, event: Json, out: list[Event]) -> None:
    """Read the `.done` event of a text, or of a part of the summary."""
    if "_part." in event["type"]:
        part_added(table, event, out)
    item = table.find(event) or table.add_unannounced(event, "reasoning", out)
    if item.kind == "reasoning" and not item.done:
        holder = event.get("part") if "_part." in event["type"] else event
        text = holder.get("text") if type(holder) is dict else None
        surface = _surface(event)
        emit_missing(table, item, surface, part_number(event, f"{surface}_index"), text, out)


def _surface(event: Json) -> str:
    return "summary" if "summary" in event["type"] else "content"


def complete_reasoning(table: ItemTable, item: ItemState, raw: Json, out: list[Event], *, complete: bool) -> None:
    """Emit what is missing of a finished item and its encrypted content, which is final only now; close the block."""
    content, summary = reasoning_texts(raw)
    for surface, texts in (("content", content), ("summary", summary)):
        numbers = item.part_numbers(len(texts)) if item.surface == surface else range(len(texts))
        for number, text in zip(numbers, texts, strict=True):
            emit_missing(table, item, surface, number, text, out)
    encrypted, native = read_encrypted_content(raw, table.context)
    assert item.block is not None
    if encrypted is not None or native is not None:
        out.append(Opaque(item.block, DIALECT, "encrypted_content", encrypted, native))
    out.append(BlockEnd(table.blocks.end(item.key), complete))


def emit_missing(table: ItemTable, item: ItemState, surface: str, number: int, text: Any, out: list[Event]) -> None:
    """Emit what is missing of a part whose complete text was received."""
    item.text_done = True
    if type(text) is not str or not text or item.done:
        return
    part = item.parts.get(number)
    if part is None or item.surface != surface:
        _emit(table, item, surface, number, text, out)
    else:
        table.append_missing(part, text, out)


def _emit(table: ItemTable, item: ItemState, surface: str, number: int, text: str, out: list[Event]) -> None:
    if not text:
        return
    if item.surface is None:
        item.surface = surface
    elif item.surface != surface:
        if not item.surface_dropped:
            item.surface_dropped = True
            table.context.losses.add(
                LossCode.UNKNOWN_EVENT, (*item.path, surface), f"the reasoning is shown by its {item.surface}"
            )
        return
    assert item.block is not None
    gap = number - item.last_part
    if gap > 0:
        item.last_part = number
        if item.parts:  # not before the first part, whatever its number is
            table.reserve(gap)
            out.append(Delta(item.block, "\n\n" * gap))
    part = item.parts.get(number)
    if part is None:
        table.reserve()
        part = item.parts[number] = PartState("reasoning", item.block, item.key)
    part.append_delta(text, out)

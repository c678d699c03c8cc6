"""Reads the events of output items, and of the last snapshot that repeats them (mapping §9.6).

`HANDLERS` is the table of all events of items and parts. Every function may raise UpstreamProtocolError or
LimitExceeded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from dragoman.canonical.events import BlockEnd, Event, Opaque
from dragoman.canonical.request import Json
from dragoman.dialects.responses.reply.read_items import check_role, is_cut
from dragoman.dialects.responses.reply_fields import record_unknown_item, record_unknown_part
from dragoman.dialects.responses.stop_and_usage import DIALECT
from dragoman.dialects.responses.stream import read_calls as calls
from dragoman.dialects.responses.stream import read_messages as messages
from dragoman.dialects.responses.stream import read_reasoning as reasoning
from dragoman.dialects.responses.stream.item_state import ItemState, ItemTable, part_number, part_path, wrong_type
from dragoman.errors import UpstreamProtocolError


def item_added(table: ItemTable, event: Json, out: list[Event]) -> None:
    """Read `response.output_item.added`. Content in it is provisional: it is read from the deltas or from the end."""
    raw = event.get("item")
    if raw is None:  # it may come when it is done
        return
    if type(raw) is not dict:
        raise wrong_type(event, "item")
    key = table.new_key(event)
    if key not in table.items:
        table.add(key, raw, out)
    elif not table.items[key].done and _is_same(table.items[key], raw):
        table.record_repair("an item was added twice")
    elif table.items[key].done and table.items[key].id != raw.get("id"):
        table.record_repair("several items had one output_index")
        table.add_in_place_of(key, raw, out)
    else:
        raise UpstreamProtocolError(f"upstream started item {key} twice")


def item_done(table: ItemTable, event: Json, out: list[Event]) -> None:
    """Read `response.output_item.done`. Some servers send no other event of an item."""
    raw, key = event.get("item"), event.get("output_index")
    if raw is None:  # the last snapshot may have it
        return
    if type(raw) is not dict:
        raise wrong_type(event, "item")
    item = table.items.get(key) if type(key) is int else _find_unfinished(table, raw)
    if item is None:
        table.record_repair("an item came without output_item.added")
        item = table.add(table.new_key(event), raw, out)
    elif item.type != raw.get("type"):
        raise UpstreamProtocolError(f"upstream ended the {item.type} item {item.key} as a {raw.get('type')}")
    elif item.done and _is_same(item, raw):
        table.record_repair("an item was done twice")
        return
    elif item.done:
        raise UpstreamProtocolError(f"upstream ended item {item.key} twice")
    _complete(table, item, raw, out)


def part_added(table: ItemTable, event: Json, out: list[Event]) -> None:
    """Read `response.content_part.added`. A part of reasoning needs none: its texts open it."""
    raw = event.get("part")
    if not raw:
        return
    if type(raw) is not dict:
        raise wrong_type(event, "part")
    item = table.find(event) or table.add_unannounced(event, _item_type(raw), out)
    if item.kind == "reasoning":
        record_unknown_part(raw, part_path(event), table.context)
    elif item.kind != "unknown":
        messages.announce_part(table, item, part_number(event, "content_index"), raw, out)


def part_done(table: ItemTable, event: Json, out: list[Event]) -> None:
    """Read `response.content_part.done`."""
    raw = event.get("part")
    if raw is None:
        return
    if type(raw) is not dict:
        raise wrong_type(event, "part")
    record_unknown_part(raw, part_path(event), table.context)
    part = table.open_part(event, "text")
    if part is not None and messages.is_repeated(table, part, raw):
        return messages.close_part(table, part, out)
    item = table.find(event) or table.add_unannounced(event, _item_type(raw), out)
    number = part_number(event, "content_index")
    if item.kind == "reasoning":
        reasoning.emit_missing(table, item, "content", number, raw.get("text"), out)
    elif item.kind != "unknown":
        messages.end_part(table, item, number, raw, out)


def repeats_items(table: ItemTable, output: Any) -> bool:
    """True if the last snapshot has exactly the items of the stream, in order, and all of them are done."""
    if type(output) is not list or len(output) != len(table.items):
        return False
    for position, raw in enumerate(output):
        item = table.items.get(position)
        if (
            item is None
            or not item.done
            or type(raw) is not dict
            or item.id != raw.get("id")
            or item.type != raw.get("type")
        ):
            return False
        record_unknown_item(raw, item.path, table.context)
    return True


def complete_output(table: ItemTable, output: Any, out: list[Event], *, cut: bool) -> None:
    """Emit what is missing of the items of the last snapshot.

    `cut` is True if the reply was cut off; items in progress will not be completed then.
    """
    if type(output) is not list:
        return
    streamed = tuple(table.items.values())
    # A position is an `output_index`, except with servers that skip some indexes.
    keys = sorted(table.items) if len(output) == len(table.items) else range(len(output))
    taken: set[int] = set()
    for raw, position in zip(output, keys, strict=True):
        if raw is None:
            continue
        if type(raw) is not dict:
            raise UpstreamProtocolError("upstream ended the reply with an item that is not an object")
        item = table.items.get(position)
        if item is None or item.id != raw.get("id") or item.type != raw.get("type"):
            item = _find_streamed(streamed, raw, item)
        if item is None or item.key in taken:
            table.record_repair("an item was in the last event only")
            key = position if position not in table.items else max(table.items) + 1
            item = table.add(key, raw, out)
        taken.add(item.key)
        if not item.done:
            if not cut:
                table.record_repair("an item ended without output_item.done")
            _complete(table, item, raw, out, cut=cut)


def end_items(table: ItemTable, out: list[Event], *, cut: bool) -> None:
    """Close the items that are not in the last snapshot. Raises UpstreamProtocolError for a call, which clients run,
    whose arguments are not done, unless the reply was cut off."""
    for item in table.items.values():
        if item.done or item.kind == "unknown":
            continue
        item.done = True
        if not cut:
            table.record_repair("an item ended without output_item.done")
        if item.kind == "message":
            messages.end_parts(table, item, out, complete=not cut)
            continue
        if item.kind == "call":
            if not cut and not item.text_done:
                raise _left_open(item)
            calls.end_call(table, item, out, complete=item.text_done)
        else:
            out.append(BlockEnd(table.blocks.end(item.key), item.text_done or not cut))


def _complete(table: ItemTable, item: ItemState, raw: Json, out: list[Event], *, cut: bool = False) -> None:
    complete = not is_cut(raw, cut=cut)
    record_unknown_item(raw, item.path, table.context)
    if item.kind == "message":
        check_role(raw)
        if raw.get("phase") is not None:
            table.record_phase(item)
        messages.complete_message(table, item, raw, out, complete=complete)
    elif item.kind == "reasoning":
        reasoning.complete_reasoning(table, item, raw, out, complete=complete)
    elif item.kind == "call":
        calls.complete_call(table, item, raw, out, complete=complete)
    elif item.kind == "native":
        assert item.block is not None
        out.append(Opaque(item.block, DIALECT, "block", raw))
        out.append(BlockEnd(table.blocks.end(item.key), complete))
    item.done = True
    item.parts = {}


def _is_same(item: ItemState, raw: Json) -> bool:
    """True if a raw item has the type and the ids of one that is known."""
    return (item.type, item.id, item.call_id) == (raw.get("type"), raw.get("id"), raw.get("call_id"))


def _find_unfinished(table: ItemTable, raw: Json) -> ItemState | None:
    unfinished = [item for item in table.items.values() if not item.done]
    by_id = next((item for item in unfinished if item.id is not None and item.id == raw.get("id")), None)
    return by_id or next((item for item in unfinished if item.id is None and item.type == raw.get("type")), None)


def _find_streamed(streamed: Iterable[ItemState], raw: Json, here: ItemState | None) -> ItemState | None:
    """Return the item with the id of a raw item, else the one of its call, else the one at its position (`here`)."""
    by_id = {item.id: item for item in streamed if type(item.id) is str}
    by_call_id = {item.call_id: item for item in streamed if type(item.call_id) is str}
    # Some servers send other ids in each event.
    known = (_lookup(by_id, raw.get("id")), _lookup(by_call_id, raw.get("call_id")), here)
    return next((item for item in known if item is not None and item.type == raw.get("type")), None)


def _lookup(items: dict[Any, ItemState], key: Any) -> ItemState | None:
    return items.get(key) if type(key) is str else None


def _item_type(part: Json) -> str:
    return "reasoning" if part.get("type") == "reasoning_text" else "message"


def _left_open(item: ItemState) -> UpstreamProtocolError:
    return UpstreamProtocolError(f"upstream completed the reply with its {item.type} item {item.key} still open")


Handler = Callable[[ItemTable, Json, list[Event]], None]

HANDLERS: Final[dict[str, Handler]] = {
    "response.output_text.delta": messages.text_delta,
    "response.function_call_arguments.delta": calls.arguments_delta,
    "response.reasoning_text.delta": reasoning.delta,
    "response.reasoning_summary_text.delta": reasoning.delta,
    "response.custom_tool_call_input.delta": calls.arguments_delta,
    "response.refusal.delta": messages.text_delta,
    "response.output_item.added": item_added,
    "response.output_item.done": item_done,
    "response.content_part.added": part_added,
    "response.content_part.done": part_done,
    "response.output_text.done": messages.text_done,
    "response.output_text.annotation.added": messages.annotation_added,
    "response.refusal.done": messages.text_done,
    "response.reasoning_text.done": reasoning.done,
    "response.reasoning_summary_text.done": reasoning.done,
    "response.reasoning_summary_part.added": reasoning.part_added,
    "response.reasoning_summary_part.done": reasoning.done,
    "response.function_call_arguments.done": calls.arguments_done,
    "response.custom_tool_call_input.done": calls.arguments_done,
}
"""Event name → the function that reads it."""

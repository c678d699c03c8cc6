"""Reads the events of calls that the client is to run.

The arguments are kept complete, because running a call with wrong arguments does harm. Every function may raise
UpstreamProtocolError or LimitExceeded.
"""

from __future__ import annotations

from dragoman.canonical.events import BlockEnd, Delta, Event
from dragoman.canonical.request import Json
from dragoman.dialects.responses.reply.read import cut_call_error
from dragoman.dialects.responses.reply.read_items import ARGUMENTS, call_name, call_text
from dragoman.dialects.responses.stream.item_state import ItemState, ItemTable, wrong_type
from dragoman.errors import UpstreamProtocolError
from dragoman.wire.json_codec import loads

_WITH_DELTAS = frozenset({"function_call", "custom_tool_call"})
"""Calls whose arguments are text. Those of others are an object and have no deltas."""


def arguments_delta(table: ItemTable, event: Json, out: list[Event]) -> None:
    """Read `response.function_call_arguments.delta`, `response.custom_tool_call_input.delta`."""
    item = _find_call(table, event, out)
    if item is None:
        return
    if item.done:
        raise UpstreamProtocolError(f"upstream sent {event['type']} for item {item.key}, which is closed")
    text = event.get("delta") or ""
    if type(text) is not str:
        raise wrong_type(event, "delta")
    _emit_arguments(table, item, text, out)


def arguments_done(table: ItemTable, event: Json, out: list[Event]) -> None:
    """Read `response.function_call_arguments.done`, `response.custom_tool_call_input.done`."""
    item = _find_call(table, event, out)
    if item is not None and not item.done:
        _emit_missing(table, item, event, out)
        item.text_done = True


def complete_call(table: ItemTable, item: ItemState, raw: Json, out: list[Event], *, complete: bool) -> None:
    """Emit what is missing of a finished call, and close its block. `complete` is False if it was cut off."""
    name = call_name(raw)
    if item.block is None:
        table.open_call(item, raw, out)
    elif item.arguments is not None and name and name != item.arguments.name:
        raise UpstreamProtocolError(f"upstream renamed the tool call {item.arguments.name!r} to {name!r}")
    _emit_missing(table, item, raw, out)
    item.cut = not complete
    end_call(table, item, out, complete=complete)


def end_call(table: ItemTable, item: ItemState, out: list[Event], *, complete: bool) -> None:
    """Close the block, unless it was closed early. Raises UpstreamProtocolError if the call has no name.

    Clients run a call when it ends. One that ends with invalid arguments stays open until it is known if the reply was
    cut there (`end_held`).
    """
    if item.block is None:
        raise UpstreamProtocolError("upstream called a tool without a name")
    assert table.calls is not None
    if item.key in table.calls.early_ends.ended:
        return
    arguments = item.arguments
    if arguments is not None and (rest := arguments.rest()):
        out.append(Delta(item.block, rest))
    if complete and arguments is not None and not (item.custom or arguments.ends_whole() or arguments.is_blank()):
        table.calls.held = item
    else:
        out.append(BlockEnd(table.blocks.end(item.key), complete))


def end_held(table: ItemTable, out: list[Event]) -> None:
    """Close the call that stayed open, as the reply was cut in its arguments."""
    calls = table.calls
    if calls is not None and calls.held is not None:
        out.append(BlockEnd(table.blocks.end(calls.held.key), False))
        calls.held = None


def check_calls(table: ItemTable) -> None:
    """Raise UpstreamProtocolError if the reply is complete but a call is not."""
    for item in table.items.values():
        if item.arguments is not None:
            if item.cut:
                raise cut_call_error(item.arguments.name)
            if not item.custom:
                item.arguments.check()


def _find_call(table: ItemTable, event: Json, out: list[Event]) -> ItemState | None:
    item = table.find(event)
    custom = "custom" in event["type"]
    if item is None:  # its name is still to come; the arguments are kept until then
        item = table.add_unannounced(event, "custom_tool_call" if custom else "function_call", out)
    if item.kind == "unknown":
        return None
    if item.kind != "call" or item.custom != custom:
        raise UpstreamProtocolError(f"upstream sent {event['type']} for item {item.key}, which is a {item.type}")
    return item


def _emit_arguments(table: ItemTable, item: ItemState, text: str, out: list[Event]) -> None:
    assert item.arguments is not None
    assert table.calls is not None
    if text:
        if item.custom:
            item.arguments.add(text)
        else:
            text = item.arguments.pass_on(text)
        early_ends = table.calls.early_ends
        if item.block is not None and not early_ends.late(item.key, text, item.arguments.name):
            if text:
                out.append(Delta(item.block, text))
            early_ends.after_delta(item.key, out)


def _emit_missing(table: ItemTable, item: ItemState, holder: Json, out: list[Event]) -> None:
    kind = str(item.type)
    key = ARGUMENTS[kind]
    if text := call_text(holder, key):
        missing = missing_arguments(item, text)
        if missing and kind in _WITH_DELTAS:
            form = "were an object instead of text" if type(holder.get(key)) is dict else "had no deltas"
            table.record_repair(f"arguments {form}")
        _emit_arguments(table, item, missing, out)


def missing_arguments(item: ItemState, text: str) -> str:
    """Return the rest of the complete arguments that was not received yet.

    Raises UpstreamProtocolError if they contradict what was received. The same JSON in another format does not.
    """
    assert item.arguments is not None
    for received in (item.arguments.text(), item.arguments.received()):
        if text.startswith(received):
            return text[len(received) :]
    if not text or (not item.custom and _is_same_json(item.arguments.text(), text)):
        return ""
    raise UpstreamProtocolError(f"upstream ended the call of {item.arguments.name!r} with other input than it streamed")


def _is_same_json(one: str, other: str) -> bool:
    try:
        return bool(loads(one) == loads(other))
    except (ValueError, RecursionError):
        return False

"""Streamed calls: the arguments are kept whole beside the stream, as running a call on wrong ones does harm."""

from __future__ import annotations

from dragoman.canonical.events import BlockEnd, Delta, Event
from dragoman.canonical.request import Json
from dragoman.dialects.responses.reply.read import cut_in_a_whole_reply
from dragoman.dialects.responses.reply.read_items import CALLS, ItemKind, call_name, call_text
from dragoman.dialects.responses.stream.item_state import ItemState, ItemTable, string_field
from dragoman.errors import UpstreamProtocolError
from dragoman.wire.json_codec import loads


class StreamedCalls(ItemTable):
    """Events of calls that the client is to run."""

    __slots__ = ()

    def arguments_delta(self, event: Json, out: list[Event]) -> None:
        """`response.function_call_arguments.delta`, `response.custom_tool_call_input.delta`."""
        item = self._called(event, out)
        if item is None:
            return
        if item.done:
            raise UpstreamProtocolError(f"upstream sent {event['type']} for item {item.key}, which is closed")
        self._input(item, string_field(event, "delta"), out)

    def arguments_done(self, event: Json, out: list[Event]) -> None:
        """`response.function_call_arguments.done`, `response.custom_tool_call_input.done`."""
        item = self._called(event, out)
        if item is not None and not item.done:
            self._settle_input(item, event, out)
            item.text_done = True

    def settle_call(self, item: ItemState, raw: Json, out: list[Event], *, complete: bool) -> None:
        """The finished call: its name and arguments, as far as they were not told."""
        name = call_name(raw)
        if item.block is None:
            self.open_call(item, raw, out)
        elif item.arguments is not None and name and name != item.arguments.name:
            raise UpstreamProtocolError(f"upstream renamed the tool call {item.arguments.name!r} to {name!r}")
        self._settle_input(item, raw, out)
        item.cut = not complete
        self.end_call(item, out, complete=complete)

    def end_call(self, item: ItemState, out: list[Event], *, complete: bool) -> None:
        """Close the block. Raises UpstreamProtocolError if the call has no name."""
        if item.block is None:
            raise UpstreamProtocolError("upstream called a tool without a name")
        if item.key in self.early_ends.ended:
            return
        out.append(BlockEnd(self.blocks.end(item.key), complete))

    def has_calls(self) -> bool:
        """Did the model call anything that the client is to run."""
        return any(item.arguments is not None for item in self.items.values())

    def check_calls(self) -> None:
        """Raise UpstreamProtocolError for a call that is not whole though the reply is."""
        for item in self.items.values():
            if item.arguments is not None:
                if item.cut:
                    raise cut_in_a_whole_reply(item.arguments.name)
                if not item.custom:
                    item.arguments.check()

    def _called(self, event: Json, out: list[Event]) -> ItemState | None:
        item = self.find(event)
        custom = "custom" in event["type"]
        if item is None:  # its name is still to come, and what is told is kept until then
            item = self.add_unannounced(event, "custom_tool_call" if custom else "function_call", out)
        if item.kind is ItemKind.UNKNOWN:
            return None
        if item.kind is not ItemKind.CALL or item.custom != custom:
            raise UpstreamProtocolError(f"upstream sent {event['type']} for item {item.key}, which is a {item.type}")
        return item

    def _input(self, item: ItemState, text: str, out: list[Event]) -> None:
        assert item.arguments is not None
        if text:
            item.arguments.add(text)
            if item.block is not None and not self.early_ends.late(item.key, text, item.arguments.name):
                out.append(Delta(item.block, text))
                self.early_ends.after_delta(item.key, out)

    def _settle_input(self, item: ItemState, holder: Json, out: list[Event]) -> None:
        key = CALLS[str(item.type)]
        if text := call_text(holder, key):
            missing = missing_arguments(item, text)
            if missing and item.type != "tool_search_call":  # whose arguments are an object and have no deltas
                spelled = (
                    "as an object instead of its text" if type(holder.get(key)) is dict else "without their deltas"
                )
                self.record_repair(f"arguments came {spelled}")
            self._input(item, missing, out)


def missing_arguments(item: ItemState, text: str) -> str:
    """What of the whole arguments has not been streamed.

    Raises UpstreamProtocolError if something else was; another spelling of the same JSON is not something else.
    """
    assert item.arguments is not None
    said = item.arguments.text()
    if text.startswith(said):
        return text[len(said) :]
    if not text or (not item.custom and _same(said, text)):
        return ""
    raise UpstreamProtocolError(f"upstream ended the call of {item.arguments.name!r} with other input than it streamed")


def _same(one: str, other: str) -> bool:
    try:
        return bool(loads(one) == loads(other))
    except (ValueError, RecursionError):
        return False

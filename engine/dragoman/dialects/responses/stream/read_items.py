"""The item events of a Responses stream to canonical block events (mapping §9.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from dragoman.canonical.events import BlockEnd, Event, Opaque
from dragoman.canonical.request import Json
from dragoman.dialects.responses.reply.read_items import ItemKind, check_role, is_cut
from dragoman.dialects.responses.stream.item_state import ItemState, object_field, part_number
from dragoman.dialects.responses.stream.read_calls import StreamedCalls
from dragoman.dialects.responses.stream.read_messages import MessageParts
from dragoman.dialects.responses.stream.read_reasoning import Thoughts
from dragoman.dialects.responses.wire import DIALECT
from dragoman.errors import UpstreamProtocolError

# CPython 3.11 takes twenty times as long to find a member in its class.
_UNKNOWN, _MESSAGE, _REASONING = ItemKind.UNKNOWN, ItemKind.MESSAGE, ItemKind.REASONING
_CALL, _NATIVE = ItemKind.CALL, ItemKind.NATIVE


class ItemEvents(MessageParts, Thoughts, StreamedCalls):
    """The items of one stream, from their first event to the last snapshot.

    Every method that takes an event may raise UpstreamProtocolError or LimitExceeded.
    """

    __slots__ = ()

    def item_added(self, event: Json, out: list[Event]) -> None:
        """`response.output_item.added`. What it holds already is provisional: the deltas or its end tell it."""
        raw, key = object_field(event, "item"), self.new_key(event)
        if key in self.items:
            raise UpstreamProtocolError(f"upstream started item {key} twice")
        self.add(key, raw, out)

    def item_done(self, event: Json, out: list[Event]) -> None:
        """`response.output_item.done`, the one event that some servers send of an item."""
        raw, key = object_field(event, "item"), event.get("output_index")
        if type(key) is int:
            item = self.items.get(key)
        else:
            item = next((item for item in self.items.values() if item.id == raw.get("id") and not item.done), None)
        if item is None:
            self.record_repair("an item came without output_item.added")
            item = self.add(self.new_key(event), raw, out)
        elif item.type != raw.get("type"):
            raise UpstreamProtocolError(f"upstream ended the {item.type} item {item.key} as a {raw.get('type')}")
        elif item.done:
            raise UpstreamProtocolError(f"upstream ended item {item.key} twice")
        self._settle(item, raw, out)

    def part_added(self, event: Json, out: list[Event]) -> None:
        """`response.content_part.added`; of reasoning it tells nothing that its texts do not."""
        raw = object_field(event, "part")
        item = self.find(event) or self.add_unannounced(event, _item_type(raw), out)
        if item.kind is not _UNKNOWN and item.kind is not _REASONING:
            self.start_part(item, part_number(event, "content_index"), raw, out)

    def part_done(self, event: Json, out: list[Event]) -> None:
        """`response.content_part.done`."""
        raw = object_field(event, "part")
        item = self.find(event) or self.add_unannounced(event, _item_type(raw), out)
        number = part_number(event, "content_index")
        if item.kind is _REASONING:
            self.think_whole(item, "content", number, raw.get("text"), out)
        elif item.kind is not _UNKNOWN:
            self.finish_part(item, number, raw, out)

    def take_output(self, output: Any, out: list[Event], *, cut: bool) -> None:
        """The items of the last snapshot: what was not told of them until now, or not at all. `cut` says that the
        reply was, so that what is in progress will stay so."""
        if type(output) is not list:
            return
        streamed = tuple(self.items.values())
        # Positions are indexes but for servers that skip some.
        places = sorted(self.items) if len(output) == len(self.items) else range(len(output))
        taken: set[int] = set()
        for raw, place in zip(output, places, strict=True):
            if type(raw) is not dict:
                raise UpstreamProtocolError("upstream ended the reply with an item that is not an object")
            item = self.items.get(place)
            if item is None or item.id != raw.get("id") or item.type != raw.get("type"):
                item = _known(streamed, raw, item)
            if item is None or item.key in taken:
                self.record_repair("an item was told by the last event only")
                key = place if place not in self.items else max(self.items) + 1
                item = self.add(key, raw, out)
            taken.add(item.key)
            if not item.done:
                if not cut:
                    self.record_repair("an item ended without output_item.done")
                self._settle(item, raw, out, cut=cut)

    def end(self, out: list[Event], *, cut: bool) -> None:
        """Close what no snapshot held. In a reply that was not cut that is an error, unless a text is known whole."""
        for item in self.items.values():
            if item.done or item.kind is _UNKNOWN:
                continue
            item.done = True
            if not cut:
                self.record_repair("an item ended without output_item.done")
            if item.kind is _MESSAGE:
                if not cut and any(part.open and not part.text_done for part in item.parts.values()):
                    raise _left_open(item)
                self.end_parts(item, out, complete=not cut)
                continue
            if not cut and not item.text_done:
                raise _left_open(item)
            if item.kind is _CALL:
                self.end_call(item, out, complete=item.text_done)
            else:
                out.append(BlockEnd(self.blocks.end(item.key), item.text_done))

    def _settle(self, item: ItemState, raw: Json, out: list[Event], *, cut: bool = False) -> None:
        complete = not is_cut(raw, cut=cut)
        if item.kind is _MESSAGE:
            check_role(raw)
            self.record_phase(item, raw)
            self.settle_message(item, raw, out, complete=complete)
        elif item.kind is _REASONING:
            self.settle_reasoning(item, raw, out, complete=complete)
        elif item.kind is _CALL:
            self.settle_call(item, raw, out, complete=complete)
        elif item.kind is _NATIVE:
            assert item.block is not None
            out.append(Opaque(item.block, DIALECT, "block", raw))
            out.append(BlockEnd(self.blocks.end(item.key), complete))
        item.done = True
        item.parts = {}


def _known(streamed: Iterable[ItemState], raw: Json, here: ItemState | None) -> ItemState | None:
    """The item that is told, where the one at its place has another id: the one with the id, or the one of the call."""
    told = {item.id: item for item in streamed if type(item.id) is str}
    called = {item.call_id: item for item in streamed if type(item.call_id) is str}
    # Some servers mint the ids anew each time.
    known = (_named(told, raw.get("id")), _named(called, raw.get("call_id")), here)
    return next((item for item in known if item is not None and item.type == raw.get("type")), None)


def _named(items: dict[Any, ItemState], name: Any) -> ItemState | None:
    return items.get(name) if type(name) is str else None


def _item_type(part: Json) -> str:
    return "reasoning" if part.get("type") == "reasoning_text" else "message"


def _left_open(item: ItemState) -> UpstreamProtocolError:
    return UpstreamProtocolError(f"upstream completed the reply with its {item.type} item {item.key} still open")


Handler = Callable[[ItemEvents, Json, list[Event]], None]

HANDLERS: Final[dict[str, Handler]] = {
    "response.output_text.delta": ItemEvents.text_delta,
    "response.function_call_arguments.delta": ItemEvents.arguments_delta,
    "response.reasoning_text.delta": ItemEvents.thought_delta,
    "response.reasoning_summary_text.delta": ItemEvents.summary_delta,
    "response.custom_tool_call_input.delta": ItemEvents.arguments_delta,
    "response.refusal.delta": ItemEvents.refusal_delta,
    "response.output_item.added": ItemEvents.item_added,
    "response.output_item.done": ItemEvents.item_done,
    "response.content_part.added": ItemEvents.part_added,
    "response.content_part.done": ItemEvents.part_done,
    "response.output_text.done": ItemEvents.text_done,
    "response.output_text.annotation.added": ItemEvents.annotation_added,
    "response.refusal.done": ItemEvents.refusal_done,
    "response.reasoning_text.done": ItemEvents.thought_done,
    "response.reasoning_summary_text.done": ItemEvents.summary_done,
    "response.reasoning_summary_part.done": ItemEvents.summary_part_done,
    "response.function_call_arguments.done": ItemEvents.arguments_done,
    "response.custom_tool_call_input.done": ItemEvents.arguments_done,
}
"""What each event of an item does."""

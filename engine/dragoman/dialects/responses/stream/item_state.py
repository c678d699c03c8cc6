"""State of the output items of an upstream Responses stream: what was received for each, and which blocks they became.

A server sends a text up to four times: in deltas, in the text's own `.done` event, in `response.output_item.done` and
in the last snapshot. Servers differ in which of these they leave out. So everything after the deltas is only compared
with what was received, and the missing rest is emitted (streams §9). Of a text only its length and its last fragment
are kept for this. The arguments of calls are kept complete, because running a call with wrong arguments does harm.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from dragoman.canonical.events import BlockKind, BlockStart, Delta, Event
from dragoman.canonical.request import Json
from dragoman.dialects.responses.reply.read_items import (
    NATIVE_ITEMS,
    ItemKind,
    call_name,
    check_role,
    item_kind,
    namespace_of,
    record_call_losses,
)
from dragoman.dialects.responses.reply_fields import record_unknown_item
from dragoman.dialects.shared.block_index import BlockMap
from dragoman.dialects.shared.early_call_ends import EarlyEnds
from dragoman.dialects.shared.json_fields import kind_of
from dragoman.dialects.shared.streamed_arguments import Arguments, ReplyBudget
from dragoman.errors import LimitExceeded, Path, UpstreamProtocolError
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.tools.duplicate_call_ids import mint_call_id
from dragoman.wire.delta_template import RunCallback


class PartState:
    """State of one part of an item.

    A part without a `kind` is dropped. `key` is its key in the block map. `announced` is True after its
    `content_part.added`, `text_done` after the `.done` event of its text, `logprobs` once log probabilities were
    emitted. `length` is the number of characters received, `last_delta` the last fragment, `annotations` the number of
    citations emitted.
    """

    __slots__ = (
        "annotations",
        "announced",
        "block",
        "key",
        "kind",
        "last_delta",
        "length",
        "logprobs",
        "open",
        "text_done",
    )

    def __init__(self, kind: BlockKind | None, block: int, key: Hashable) -> None:
        self.kind = kind
        self.block = block
        self.key = key
        self.open = kind is not None
        self.announced = self.text_done = self.logprobs = False
        self.length = 0
        self.last_delta = ""
        self.annotations = 0

    def append_delta(self, text: str, out: list[Event]) -> None:
        """Emit one fragment, unless it is empty."""
        if text:
            self.length += len(text)
            self.last_delta = text
            out.append(Delta(self.block, text))

    def record_run(self, text: str, pieces: list[str]) -> bool:
        """Record fragments that were emitted as a run. Return True: a text has no limit of its own."""
        self.length += len(text)
        self.last_delta = pieces[-1]
        return True

    def missing(self, text: str) -> str | None:
        """Return the rest of the complete `text` that was not emitted yet, or None if the texts differ.

        Half of a surrogate pair counts as one character here, so a text may seem longer than it is, never shorter.
        """
        if not self.length:
            return text
        if len(text) <= self.length:
            return ""
        return text[self.length :] if text[: self.length].endswith(self.last_delta) else None


class ItemState:
    """State of one output item, from its first event on.

    `key` is its `output_index`. `block` is the index of its block, None for a message, whose parts are the blocks, and
    for a call whose name is not known yet. `done` is True after `output_item.done`, `text_done` after the `.done` event
    of its arguments or reasoning, `cut` for a call that ended incomplete. `phase_recorded` and `surface_dropped` are
    True once the loss of the phase or of the second reasoning surface is recorded.
    """

    __slots__ = (
        "arguments",
        "block",
        "call_id",
        "custom",
        "cut",
        "done",
        "id",
        "key",
        "kind",
        "last_part",
        "parts",
        "phase_recorded",
        "surface",
        "surface_dropped",
        "text_done",
        "type",
    )

    def __init__(self, key: int, kind: ItemKind, item: Json) -> None:
        self.key = key
        self.kind = kind
        self.type = item.get("type")
        self.id = item.get("id")
        self.call_id = item.get("call_id")
        self.custom = self.type == "custom_tool_call"
        self.block: int | None = None
        self.parts: dict[int, PartState] = {}
        self.arguments: Arguments | None = None
        self.surface: str | None = None
        """Source of the reasoning that is emitted: `content` or `summary`, whichever came first."""
        self.last_part = 0
        """Number of the reasoning part that received the last text."""
        self.done = self.cut = self.text_done = self.phase_recorded = self.surface_dropped = False

    @property
    def path(self) -> Path:
        """The item's path in the reply."""
        return ("output", self.key)

    def part_numbers(self, size: int) -> Sequence[int]:
        """Return the numbers of the `size` parts of the finished item: its parts are matched with those in order.

        They are their places, except with servers that skip numbers: Bedrock's Mantle sends part 1 alone.
        """
        if all(number < size for number in self.parts):
            return range(size)
        streamed = sorted(self.parts)
        return [*streamed[:size], *range(streamed[-1] + 1, streamed[-1] + 1 + size - len(streamed))]

    def find_repeated(self, kind: BlockKind, text: Any) -> PartState | None:
        """Return the open part of this kind that has received exactly `text`, if there is just one."""
        found = [
            part
            for part in self.parts.values()
            if part.open and part.kind == kind and type(text) is str and part.length and part.missing(text) == ""
        ]
        return found[0] if len(found) == 1 else None


class CallState:
    """The state that the calls of one stream share.

    `early_ends` ends calls whose arguments are complete, `budget` limits the arguments, `ids` holds the ids in use.
    `held` is a call that ended with invalid arguments, and whose block is open.
    """

    __slots__ = ("budget", "early_ends", "held", "ids")

    def __init__(self, blocks: BlockMap, context: ReplyContext) -> None:
        self.early_ends = EarlyEnds(blocks, context)
        self.budget = ReplyBudget(context.limits)
        self.ids: set[str] = set()
        self.held: ItemState | None = None


class ItemTable:
    """The items of one stream by their `output_index`, and the blocks they became.

    There are no `calls` before the first one. `has_refusal` is True if a part with refusal wording was opened, `shown`
    if a part with a text was closed or an item without parts was opened. Methods that take an event may raise
    UpstreamProtocolError or LimitExceeded.
    """

    __slots__ = (
        "_last_key",
        "_size",
        "blocks",
        "calls",
        "context",
        "has_refusal",
        "items",
        "response_id",
        "shown",
    )

    def __init__(self, context: ReplyContext) -> None:
        self.context = context
        self.blocks = BlockMap(context.limits)
        self._size = 0
        self.calls: CallState | None = None
        self.items: dict[int, ItemState] = {}
        self._last_key = -1
        """The highest key of an item so far."""
        self.has_refusal = False
        self.shown = False
        self.response_id = ""

    def record_repair(self, what: str, at: Path | str = "output") -> None:
        """Record that a deviation from the dialect was repaired; each text of `what` once."""
        self.context.losses.add_once(LossCode.REPLY_REPAIRED, at, what)

    def find(self, event: Json) -> ItemState | None:
        """Return the item of an event, or None if it is new.

        Some servers leave out `output_index`; then the item is found by `item_id`. Without both it is the last one of
        its kind that is not done.
        """
        key = event.get("output_index")
        return self.items.get(key) if type(key) is int else self._find_by_id(event)

    def _find_by_id(self, event: Json) -> ItemState | None:
        item_id = event.get("item_id")
        self.record_repair("an event came without its output_index")
        if type(item_id) is str and item_id:
            return next((item for item in self.items.values() if item.id == item_id), None)
        kind = _kind_of(str(event.get("type")))
        pending = [item for item in self.items.values() if item.kind == kind and not item.done]
        if kind != "call":
            return pending[-1] if pending else None
        begun = [item for item in pending if not item.text_done]
        if len(begun) > 1:  # the arguments of one would run as those of another
            raise UpstreamProtocolError(f"upstream sent {event.get('type')} without an output_index")
        return begun[0] if begun else None

    def open_part(self, event: Json, kind: BlockKind) -> PartState | None:
        """Return the open part of this kind at the indexes of an event, or None if there is no such part."""
        key, number = event.get("output_index"), event.get("content_index")
        item = self.items.get(key) if type(key) is int else None
        part = item.parts.get(number) if item is not None and type(number) is int else None
        return part if part is not None and part.kind == kind and part.open else None

    def add_unannounced(self, event: Json, kind: str, out: list[Event]) -> ItemState:
        """Add an item whose first event is not `output_item.added`."""
        self.record_repair("an item came without output_item.added")
        return self.add(self.new_key(event), {"type": kind, "id": event.get("item_id")}, out)

    def new_key(self, event: Json) -> int:
        """Return the `output_index` of a new item, or the next free one if the event has none."""
        key = event.get("output_index")
        return key if type(key) is int else self._last_key + 1

    def reserve(self, by: int = 1) -> None:
        """Count `by` more items or parts. Raises LimitExceeded for more than twice as many as blocks are allowed."""
        self._size += by
        most = self.context.limits.blocks
        if self._size > 2 * most:
            raise LimitExceeded("blocks", most, upstream=True)

    def add(self, key: int, raw: Json, out: list[Event]) -> ItemState:
        """Add an item, and start its block if it is a single block."""
        kind = item_kind(raw, self.context)
        self.reserve()
        item = self.items[key] = ItemState(key, kind, raw)
        self._last_key = max(key, self._last_key)
        record_unknown_item(raw, item.path, self.context)
        if kind == "message":
            check_role(raw)
            if raw.get("phase") is not None:
                self.record_phase(item)
        elif kind == "reasoning":
            item.block = self.start_block(key, "reasoning", out)
            out.append(BlockStart(item.block, "reasoning"))
        elif kind == "call":
            if self.calls is None:
                self.calls = CallState(self.blocks, self.context)
            item.arguments = Arguments(self.calls.budget, record=self.record_repair)
            if call_name(raw):
                self.open_call(item, raw, out)
        elif kind == "native":
            self.shown = True
            item.block = self.start_block(key, "opaque", out)
            out.append(BlockStart(item.block, "opaque", name=raw["type"], code=NATIVE_ITEMS[raw["type"]]))
        else:
            self.context.losses.add(
                LossCode.UNKNOWN_EVENT, item.path, f"an item of type {raw.get('type')!r} was left out"
            )
        return item

    def add_in_place_of(self, index: int, raw: Json, out: list[Event]) -> None:
        """Add an item whose `output_index` is that of one that is done: later events with it are about the new one."""
        key, before = self._last_key + 1, self.items[index]
        self.items[index] = self.add(key, raw, out)
        self.items[key] = before

    def start_block(self, key: Hashable, kind: BlockKind, out: list[Event]) -> int:
        """Return the index of a new block. The call before it is ended if it is complete.

        Raises UpstreamProtocolError if a call before it ended with invalid arguments.
        """
        if self.calls is not None:
            if self.calls.held is not None and (arguments := self.calls.held.arguments) is not None:
                arguments.check()
            self.calls.early_ends.before_start(out)
        return self.blocks.start(key, kind)

    def open_call(self, item: ItemState, raw: Json, out: list[Event]) -> None:
        """Start the block of a call, if its name is known, with the arguments received before the name."""
        name, calls = call_name(raw), self.calls
        if not name or item.arguments is None or calls is None:
            return
        item.arguments.name = name
        record_call_losses(raw, item.path, self.context.losses)
        call_id = raw.get("call_id")
        # The result names its call by this id, so each call needs one, and a different one.
        if type(call_id) is not str or not call_id or call_id in calls.ids:
            given = call_id if type(call_id) is str else ""
            call_id = mint_call_id(given, self.response_id, item.key, item.path, self.context.losses.add_once)
        calls.ids.add(call_id)
        item.block = self.start_block(item.key, "tool", out)
        out.append(
            BlockStart(
                item.block,
                "tool",
                call_id,
                self.context.names.get(name, name),
                item.custom,
                namespace=namespace_of(raw),
                search=item.type == "tool_search_call",
            )
        )
        if not item.custom:
            calls.early_ends.watch(item.key, item.arguments)
        if received := item.arguments.shown():
            out.append(Delta(item.block, received))

    def run_callback(self, delta: Delta) -> RunCallback | None:
        """Return the callback that records further fragments of the text that this delta continued.

        None if it is not certain which part or call that is.
        """
        for item in reversed(self.items.values()):
            if item.block == delta.index and item.kind == "call":
                if item.arguments is None or item.done or self.calls is None:
                    return None
                return item.arguments.add_all if self.calls.early_ends.is_last(delta.index) else None
            # Several parts of reasoning share a block; the part is found by the identity of its last fragment.
            parts = [
                part for part in item.parts.values() if part.block == delta.index and part.last_delta is delta.text
            ]
            if parts:
                return parts[0].record_run if len(parts) == 1 and not item.done else None
        return None

    def append_missing(self, part: PartState, text: Any, out: list[Event]) -> None:
        """Emit what is missing of a part whose complete text was received."""
        if type(text) is not str or len(text) <= part.length:
            return
        rest = part.missing(text)
        if rest is None:
            self.context.losses.add(
                LossCode.UNKNOWN_EVENT, "output", "a text differs from its deltas, which were shown"
            )
        elif rest:
            self.record_repair("the deltas of a text left some of it out")
            part.append_delta(rest, out)

    def record_phase(self, item: ItemState) -> None:
        """Record the loss of a message's phase, once."""
        if not item.phase_recorded:
            item.phase_recorded = True
            self.context.losses.add(LossCode.PHASE, (*item.path, "phase"))


def _kind_of(event: str) -> ItemKind:
    """Return the kind of the items that an event of this name is about."""
    if event.startswith("response.reasoning_"):
        return "reasoning"
    return "call" if "_call_" in event else "message"


def wrong_type(event: Json, key: str) -> UpstreamProtocolError:
    """Return the error of an event with a field that is absent or has another type than it must have."""
    return UpstreamProtocolError(f"upstream sent {event.get('type')} whose {key} is {kind_of(event.get(key))}")


def part_path(event: Json) -> Path:
    """Return the path in the reply of the part that an event is about, as far as its indexes are given."""
    key = event.get("output_index")
    return ("output", key if type(key) is int else 0, "content", part_number(event, "content_index"))


def part_number(event: Json, key: str) -> int:
    """Return the index of a part in its item, 0 if the event has none."""
    value = event.get(key)
    return value if type(value) is int and value >= 0 else 0

"""State of the output items of an upstream Responses stream: what was received for each, and which blocks they became.

A server sends a text up to four times: in deltas, in the text's own `.done` event, in `response.output_item.done` and
in the last snapshot. Servers differ in which of these they leave out. So everything after the deltas is only compared
with what was received, and the missing rest is emitted (streams §9). Of a text only its length and its last fragment
are kept for this. The arguments of calls are kept complete, because running a call with wrong arguments does harm.
"""

from __future__ import annotations

from typing import Any, TypeVar

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
from dragoman.dialects.shared.block_index import BlockMap
from dragoman.dialects.shared.early_call_ends import EarlyEnds
from dragoman.dialects.shared.json_fields import kind_of
from dragoman.dialects.shared.stream_base import RunCallback
from dragoman.dialects.shared.streamed_arguments import Arguments, Room
from dragoman.errors import LimitExceeded, Path, UpstreamProtocolError
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.tools.duplicate_call_ids import mint_call_id

T = TypeVar("T")

# CPython 3.11 takes twenty times as long to find a member in its class.
_MESSAGE, _REASONING, _CALL, _NATIVE = ItemKind.MESSAGE, ItemKind.REASONING, ItemKind.CALL, ItemKind.NATIVE


class PartState:
    """State of one part of an item.

    A part without a `kind` is dropped. `announced` is True after its `content_part.added`, `text_done` after the
    `.done` event of its text, `logprobs` once log probabilities were emitted. `length` is the number of characters
    received, `last_delta` the last fragment, `annotations` the number of citations emitted.
    """

    __slots__ = ("annotations", "announced", "block", "kind", "last_delta", "length", "logprobs", "open", "text_done")

    def __init__(self, kind: BlockKind | None, block: int) -> None:
        self.kind = kind
        self.block = block
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
        """Record fragments that were emitted as a run. Returns True: a text has no limit of its own."""
        self.length += len(text)
        self.last_delta = pieces[-1]
        return True

    def missing(self, text: str) -> str | None:
        """Returns the rest of the complete `text` that was not emitted yet, or None if the texts differ.

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


class ItemTable:
    """The items of one stream by their `output_index`, and the blocks they became.

    `early_ends` ends calls whose arguments are complete, `call_ids` holds the ids in use, `has_refusal` is True if a
    part with refusal wording was opened. Methods that take an event may raise UpstreamProtocolError or LimitExceeded.
    """

    __slots__ = (
        "_size",
        "blocks",
        "budget",
        "call_ids",
        "context",
        "early_ends",
        "has_refusal",
        "items",
        "response_id",
    )

    def __init__(self, context: ReplyContext) -> None:
        self.context = context
        self.blocks = BlockMap(context.limits)
        self.early_ends = EarlyEnds(self.blocks, context)
        self.budget = Room(context.limits)
        self._size = 0
        self.call_ids: set[str] | None = None
        self.items: dict[int, ItemState] = {}
        self.has_refusal = False
        self.response_id = ""

    def record_repair(self, what: str, at: Path | str = "output") -> None:
        """Record that a deviation from the dialect was repaired; each text of `what` once."""
        self.context.losses.add_once(LossCode.REPLY_REPAIRED, at, what)

    def find(self, event: Json) -> ItemState | None:
        """Returns the item of an event, or None if it is new.

        Some servers leave out `output_index`; then the item is found by `item_id`.
        """
        key = event.get("output_index")
        if type(key) is int:
            return self.items.get(key)
        item_id = event.get("item_id")
        if type(item_id) is not str or not item_id:
            raise UpstreamProtocolError(f"upstream sent {event.get('type')} without an output_index")
        self.record_repair("an event came without its output_index")
        return next((item for item in self.items.values() if item.id == item_id), None)

    def add_unannounced(self, event: Json, kind: str, out: list[Event]) -> ItemState:
        """Add an item whose first event is not `output_item.added`."""
        self.record_repair("an item came without output_item.added")
        return self.add(self.new_key(event), {"type": kind, "id": event.get("item_id")}, out)

    def new_key(self, event: Json) -> int:
        """Returns the `output_index` of a new item, or the next free one if the event has none."""
        key = event.get("output_index")
        return key if type(key) is int else max(self.items, default=-1) + 1

    def reserve(self, by: int = 1) -> None:
        """Count `by` more items or parts. Raises LimitExceeded for more than twice as many as blocks are allowed."""
        self._size += by
        most = self.context.limits.blocks
        if self._size > 2 * most:
            raise LimitExceeded("blocks", most, upstream=True)

    def add(self, key: int, raw: Json, out: list[Event]) -> ItemState:
        """Add an item, and start its block if it is a single block."""
        kind = item_kind(raw)
        self.reserve()
        item = self.items[key] = ItemState(key, kind, raw)
        if kind is _MESSAGE:
            check_role(raw)
            self.record_phase(item, raw)
        elif kind is _REASONING:
            self.early_ends.before_start(out)
            item.block = self.blocks.start(key, BlockKind.REASONING)
            out.append(BlockStart(item.block, BlockKind.REASONING))
        elif kind is _CALL:
            item.arguments = Arguments(self.budget)
            if call_name(raw):
                self.open_call(item, raw, out)
        elif kind is _NATIVE:
            self.early_ends.before_start(out)
            item.block = self.blocks.start(key, BlockKind.OPAQUE)
            out.append(BlockStart(item.block, BlockKind.OPAQUE, name=raw["type"], code=NATIVE_ITEMS[raw["type"]]))
        else:
            self.context.losses.add(
                LossCode.UNKNOWN_EVENT, item.path, f"an item of type {raw.get('type')!r} was left out"
            )
        return item

    def open_call(self, item: ItemState, raw: Json, out: list[Event]) -> None:
        """Start the block of a call, if its name is known, with the arguments received before the name."""
        name = call_name(raw)
        if not name or item.arguments is None:
            return
        item.arguments.name = name
        record_call_losses(raw, item.path, self.context.losses)
        if self.call_ids is None:
            self.call_ids = set()
        call_id = raw.get("call_id")
        # The result names its call by this id, so each call needs one, and a different one.
        if type(call_id) is not str or not call_id or call_id in self.call_ids:
            given = call_id if type(call_id) is str else ""
            call_id = mint_call_id(given, self.response_id, item.key, item.path, self.context.losses.add_once)
        self.call_ids.add(call_id)
        self.early_ends.before_start(out)
        item.block = self.blocks.start(item.key, BlockKind.TOOL)
        out.append(
            BlockStart(
                item.block,
                BlockKind.TOOL,
                call_id,
                self.context.names.get(name, name),
                item.custom,
                namespace=namespace_of(raw),
                search=item.type == "tool_search_call",
            )
        )
        if not item.custom:
            self.early_ends.watch(item.key, item.arguments)
        if received := item.arguments.text():
            out.append(Delta(item.block, received))

    def run_callback(self, delta: Delta) -> RunCallback | None:
        """Returns the callback that records further fragments of the text that this delta continued.

        None if it is not certain which part or call that is.
        """
        for item in reversed(self.items.values()):
            if item.block == delta.index and item.kind is _CALL:
                if item.arguments is None or item.done or not self.early_ends.is_last(delta.index):
                    return None
                return item.arguments.add_all
            # Several parts of reasoning share a block; the part is found by the identity of its last fragment.
            parts = [
                part for part in item.parts.values() if part.block == delta.index and part.last_delta is delta.text
            ]
            if parts:
                return parts[0].record_run if len(parts) == 1 and not item.done else None
        return None

    def append_missing(self, part: PartState, text: Any, out: list[Event]) -> None:
        """Emit what is missing of a part whose complete text was received."""
        if type(text) is not str:
            return
        rest = part.missing(text)
        if rest is None:
            self.context.losses.add(
                LossCode.UNKNOWN_EVENT, "output", "a text differs from its deltas, which were shown"
            )
        elif rest:
            self.record_repair("the deltas of a text left some of it out")
            part.append_delta(rest, out)

    def record_phase(self, item: ItemState, raw: Json) -> None:
        """Record the loss of a message's phase, once."""
        if raw.get("phase") is not None and not item.phase_recorded:
            item.phase_recorded = True
            self.context.losses.add(LossCode.PHASE, (*item.path, "phase"))


def field(event: Json, key: str, kind: type[T]) -> T:
    """Returns a field that must have this type. Raises UpstreamProtocolError if it does not."""
    value = event.get(key)
    if type(value) is not kind:
        raise UpstreamProtocolError(f"upstream sent {event.get('type')} whose {key} is {kind_of(value)}")
    return value


def part_number(event: Json, key: str) -> int:
    """Returns the index of a part in its item, 0 if the event has none."""
    value = event.get(key)
    return value if type(value) is int and value >= 0 else 0

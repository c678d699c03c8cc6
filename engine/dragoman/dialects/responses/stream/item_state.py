"""The output items of a Responses stream while they are told: what has been said of each, and what is still missing.

Servers tell a text up to four times: in deltas, in its own `.done` event, in `response.output_item.done` and in the
last snapshot; and each leaves out some of them. So everything after the deltas only settles what was not yet said
(streams §9). Of texts only the length and the last fragment are kept for that; the arguments of calls are kept whole,
as running a call on wrong ones does harm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.canonical.events import BlockKind, BlockStart, Delta, Event, TextRun
from dragoman.canonical.request import Json
from dragoman.dialects.responses.reply.read_items import (
    NATIVE_ITEMS,
    ItemKind,
    call_name,
    check_role,
    item_kind,
    minted_call_id,
    namespace_of,
    record_call_losses,
)
from dragoman.dialects.shared.block_index import BlockMap
from dragoman.dialects.shared.early_call_ends import EarlyEnds
from dragoman.dialects.shared.json_fields import kind_of
from dragoman.dialects.shared.tool_arguments import Arguments, Room
from dragoman.errors import LimitExceeded, Path, UpstreamProtocolError
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext

# CPython 3.11 takes twenty times as long to find a member in its class.
_MESSAGE, _REASONING, _CALL, _NATIVE = ItemKind.MESSAGE, ItemKind.REASONING, ItemKind.CALL, ItemKind.NATIVE


class PartState:
    """One part of an item. `kind` is None for a part that is left out; `whole` says that its `.done` event came."""

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
        """A fragment."""
        if text:
            self.length += len(text)
            self.last_delta = text
            out.append(Delta(self.block, text))

    def record_run(self, run: TextRun) -> bool:
        """Fragments that are said elsewhere."""
        self.length += len(run.text)
        self.last_delta = run.pieces[-1]
        return True

    def missing(self, text: str) -> str | None:
        """What of the whole `text` has not been said; None if something else has been.

        Half a surrogate pair counts as a character here, so a text may look longer than it is, never shorter.
        """
        if not self.length:
            return text
        if len(text) <= self.length:
            return ""
        return text[self.length :] if text[: self.length].endswith(self.last_delta) else None


class ItemState:
    """One output item, from its first event on. `block` is its block, if it has one of its own that was started."""

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

    def __init__(self, key: int, sort: ItemKind, item: Json) -> None:
        self.key = key
        self.kind = sort
        self.type = item.get("type")
        self.id = item.get("id")
        self.call_id = item.get("call_id")
        self.custom = self.type == "custom_tool_call"
        self.block: int | None = None
        self.parts: dict[int, PartState] = {}
        self.arguments: Arguments | None = None
        self.surface: str | None = None
        """Where the reasoning that is shown stands: `content` or `summary`, whichever spoke first."""
        self.last_part = 0
        """The part of the reasoning that spoke last."""
        self.done = self.cut = self.text_done = self.phase_recorded = self.surface_dropped = False

    @property
    def path(self) -> Path:
        """Where it stands in the reply."""
        return ("output", self.key)


class ItemTable:
    """The items of one stream by their `output_index`, and the blocks they became."""

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
        """The ids that calls were given."""
        self.items: dict[int, ItemState] = {}
        self.has_refusal = False
        """Is there a part with refusal wording."""
        self.response_id = ""

    def record_repair(self, what: str, code: LossCode = LossCode.REPLY_REPAIRED, at: Path | str = "output") -> None:
        """A row for what was read as the one thing that it can mean."""
        self.context.losses.add_once(code, at, what)

    def find(self, event: Json) -> ItemState | None:
        """The item that an event is about: by `output_index`, for servers that leave it out by `item_id`."""
        key = event.get("output_index")
        if type(key) is int:
            return self.items.get(key)
        item_id = event.get("item_id")
        if type(item_id) is not str or not item_id:
            raise UpstreamProtocolError(f"upstream sent {event.get('type')} without an output_index")
        self.record_repair("an event came without its output_index")
        return next((item for item in self.items.values() if item.id == item_id), None)

    def add_unannounced(self, event: Json, kind: str, out: list[Event]) -> ItemState:
        """The item of an event that is the first to speak of it."""
        self.record_repair("an item came without output_item.added")
        return self.add(self.new_key(event), {"type": kind, "id": event.get("item_id")}, out)

    def new_key(self, event: Json) -> int:
        """The `output_index` of a new item, the next one if the server gives none."""
        key = event.get("output_index")
        return key if type(key) is int else max(self.items, default=-1) + 1

    def reserve(self, by: int = 1) -> None:
        """Raises LimitExceeded for more items and parts than a reply of as many blocks as are allowed can have."""
        self._size += by
        most = self.context.limits.blocks
        if self._size > 2 * most:
            raise LimitExceeded("blocks", most, upstream=True)

    def add(self, key: int, raw: Json, out: list[Event]) -> ItemState:
        """A new item; its block starts if it is one block."""
        sort = item_kind(raw)
        self.reserve()
        item = self.items[key] = ItemState(key, sort, raw)
        if sort is _MESSAGE:
            check_role(raw)
            self.record_phase(item, raw)
        elif sort is _REASONING:
            self.early_ends.before_start(out)
            item.block = self.blocks.start(key, BlockKind.REASONING)
            out.append(BlockStart(item.block, BlockKind.REASONING))
        elif sort is _CALL:
            item.arguments = Arguments(self.budget)
            if call_name(raw):
                self.open_call(item, raw, out)
        elif sort is _NATIVE:
            self.early_ends.before_start(out)
            item.block = self.blocks.start(key, BlockKind.OPAQUE)
            out.append(BlockStart(item.block, BlockKind.OPAQUE, name=raw["type"], code=NATIVE_ITEMS[raw["type"]]))
        else:
            self.context.losses.add(
                LossCode.UNKNOWN_EVENT, item.path, f"an item of type {raw.get('type')!r} was left out"
            )
        return item

    def open_call(self, item: ItemState, raw: Json, out: list[Event]) -> None:
        """Start the block of a call, if its name is known."""
        name = call_name(raw)
        if not name or item.arguments is None:
            return
        item.arguments.name = name
        record_call_losses(raw, item.path, self.context.losses)
        if self.call_ids is None:
            self.call_ids = set()
        call_id = raw.get("call_id")
        if (
            type(call_id) is not str or not call_id or call_id in self.call_ids
        ):  # the result must name one, and only one
            twin = type(call_id) is str and call_id
            self.record_repair(
                "a call with the id of another" if twin else "a call without an id", LossCode.CALL_ID, item.path
            )
            call_id = minted_call_id(self.response_id, item.key)
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
        if said := item.arguments.text():
            out.append(Delta(item.block, said))

    def run_callback(self, said: Delta) -> Callable[[TextRun], bool] | None:
        """What is to be noted of further texts of the part or call that just said this one; None if it is not sure."""
        for item in reversed(self.items.values()):
            if item.block == said.index and item.kind is _CALL:
                if item.arguments is None or item.done or not self.early_ends.is_last(said.index):
                    return None
                return item.arguments.add_all
            # Several parts of reasoning share a block: the very text tells which it was.
            speaking = [
                part for part in item.parts.values() if part.block == said.index and part.last_delta is said.text
            ]
            if speaking:
                return speaking[0].record_run if len(speaking) == 1 and not item.done else None
        return None

    def append_missing(self, part: PartState, text: Any, out: list[Event]) -> None:
        """The whole text of a part was told: say what is missing."""
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
        """A row for the phase of a message, once."""
        if raw.get("phase") is not None and not item.phase_recorded:
            item.phase_recorded = True
            self.context.losses.add(LossCode.PHASE, (*item.path, "phase"))


def string_field(event: Json, key: str) -> str:
    """A fragment. Raises UpstreamProtocolError if it is none."""
    value = event.get(key)
    if type(value) is not str:
        raise UpstreamProtocolError(f"upstream sent {event.get('type')} whose {key} is {kind_of(value)}")
    return value


def object_field(event: Json, key: str) -> Json:
    """An item or a part. Raises UpstreamProtocolError if it is none."""
    value = event.get(key)
    if type(value) is not dict:
        raise UpstreamProtocolError(f"upstream sent {event.get('type')} whose {key} is {kind_of(value)}")
    return value


def part_number(event: Json, key: str) -> int:
    """The place of a part in its item; the first one if the server gives none."""
    value = event.get(key)
    return value if type(value) is int and value >= 0 else 0

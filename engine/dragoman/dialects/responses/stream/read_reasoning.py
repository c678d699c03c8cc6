"""Streamed reasoning: one block per item, its parts joined by a blank line (mapping §9.6, streams §9)."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.events import BlockEnd, BlockKind, Delta, Event, Opaque
from dragoman.canonical.request import Json
from dragoman.dialects.responses.reply.read_items import ItemKind, read_encrypted_content, reasoning_texts
from dragoman.dialects.responses.stream.item_state import ItemState, ItemTable, PartState, part_number, string_field
from dragoman.dialects.responses.wire import DIALECT
from dragoman.errors import UpstreamProtocolError
from dragoman.losses import LossCode


class Thoughts(ItemTable):
    """Events of reasoning items.

    An item may tell its thoughts and a summary of them. Whichever speaks first is shown: a client has one place for
    both, and what is shown must not change in the middle.
    """

    __slots__ = ()

    def thought_delta(self, event: Json, out: list[Event]) -> None:
        """`response.reasoning_text.delta`."""
        self._thought(event, "content", "content_index", out)

    def summary_delta(self, event: Json, out: list[Event]) -> None:
        """`response.reasoning_summary_text.delta`."""
        self._thought(event, "summary", "summary_index", out)

    def thought_done(self, event: Json, out: list[Event]) -> None:
        """`response.reasoning_text.done`."""
        self._thought_done(event, "content", "content_index", event.get("text"), out)

    def summary_done(self, event: Json, out: list[Event]) -> None:
        """`response.reasoning_summary_text.done`."""
        self._thought_done(event, "summary", "summary_index", event.get("text"), out)

    def summary_part_done(self, event: Json, out: list[Event]) -> None:
        """`response.reasoning_summary_part.done`."""
        part = event.get("part")
        text = part.get("text") if type(part) is dict else None
        self._thought_done(event, "summary", "summary_index", text, out)

    def settle_reasoning(self, item: ItemState, raw: Json, out: list[Event], *, complete: bool) -> None:
        """The finished item: what was not said of it, and its proof, which was provisional until now."""
        content, summary = reasoning_texts(raw)
        for surface, texts in (("content", content), ("summary", summary)):
            for number, text in enumerate(texts):
                self.think_whole(item, surface, number, text, out)
        proof, native = read_encrypted_content(raw, self.context)
        assert item.block is not None
        if proof is not None or native is not None:
            out.append(Opaque(item.block, DIALECT, "encrypted_content", proof, native))
        out.append(BlockEnd(self.blocks.end(item.key), complete))

    def _thought(self, event: Json, surface: str, place: str, out: list[Event]) -> None:
        item = self.find(event) or self.add_unannounced(event, "reasoning", out)
        text = string_field(event, "delta")
        if item.kind is ItemKind.UNKNOWN:
            return
        if item.kind is not ItemKind.REASONING or item.done:
            state = "is closed" if item.done else f"is a {item.type}"
            raise UpstreamProtocolError(f"upstream sent {event['type']} for item {item.key}, which {state}")
        self._think(item, surface, part_number(event, place), text, out)

    def _thought_done(self, event: Json, surface: str, place: str, text: Any, out: list[Event]) -> None:
        item = self.find(event) or self.add_unannounced(event, "reasoning", out)
        if item.kind is ItemKind.REASONING and not item.done:
            self.think_whole(item, surface, part_number(event, place), text, out)

    def think_whole(self, item: ItemState, surface: str, number: int, text: Any, out: list[Event]) -> None:
        item.text_done = True
        if type(text) is not str or not text or item.done:
            return
        part = item.parts.get(number)
        if part is None or item.surface != surface:
            self._think(item, surface, number, text, out)
        else:
            self.append_missing(part, text, out)

    def _think(self, item: ItemState, surface: str, number: int, text: str, out: list[Event]) -> None:
        if not text:
            return
        if item.surface is None:
            item.surface = surface
        elif item.surface != surface:
            # Two tellings of the same thoughts; which one is shown must not change in the middle.
            if not item.surface_dropped:
                item.surface_dropped = True
                self.context.losses.add(
                    LossCode.UNKNOWN_EVENT, (*item.path, surface), f"the reasoning is shown by its {item.surface}"
                )
            return
        assert item.block is not None
        gap = number - item.last_part
        if gap > 0:
            self.reserve(gap)
            item.last_part = number
            out.append(Delta(item.block, "\n\n" * gap))
        part = item.parts.get(number)
        if part is None:
            self.reserve()
            part = item.parts[number] = PartState(BlockKind.REASONING, item.block)
        part.append_delta(text, out)

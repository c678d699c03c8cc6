"""The output items that a Responses stream has written so far, as its last event repeats them."""

from __future__ import annotations

from typing import Any

from orjson import Fragment

from dragoman.dialects.responses.reply.item_shapes import SEARCH, ItemFactory, ItemShape
from dragoman.dialects.responses.stream.written_item import WrittenItem
from dragoman.wire.json_codec import dumps


class WrittenOutput:
    """The items of one stream by output index.

    `base` is the part of the reply's id that the ids of its items contain. `has_content` is True if there is text or a
    call, `has_refusal` if there is refusal wording.
    """

    __slots__ = ("_entries", "_factory", "has_content", "has_refusal")

    def __init__(self, base: str) -> None:
        self._factory = ItemFactory(base)
        self._entries: list[WrittenItem | Fragment] = []
        """By output index: an open item, or the JSON of one that is done."""
        self.has_content = False
        self.has_refusal = False

    def add(self, shape: ItemShape) -> WrittenItem:
        """Open the next item, which is not a call."""
        written = WrittenItem(self._factory.new(shape))
        self._entries.append(written)
        return written

    def add_call(self, shape: ItemShape, call_id: str, name: str, namespace: str | None) -> WrittenItem:
        """Open the next item, which is a call."""
        self.has_content = True
        written = WrittenItem(self._factory.new_call(shape, call_id, name, namespace))
        self._entries.append(written)
        return written

    def close(self, written: WrittenItem, status: str, text: Any) -> bytes:
        """Replace an open item by its JSON, which is returned."""
        encoded = dumps(written.item.build(status, text))
        self._entries[written.item.index] = Fragment(encoded)
        return encoded

    def items(self) -> list[Any]:
        """Returns all items; those still open are incomplete."""
        return [
            entry
            if isinstance(entry, Fragment)
            else entry.item.build("incomplete", None if entry.item.shape is SEARCH else entry.text())
            for entry in self._entries
        ]

"""The output items of a Responses stream that is written: text and delta format of each, and all of them in order."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import Any

from orjson import Fragment

from dragoman.canonical.events import Citation
from dragoman.dialects.responses.citations import write_citation
from dragoman.dialects.responses.reply.item_shapes import FUNCTION, SEARCH, TEXT, ItemFactory, ItemShape, OutputItem
from dragoman.losses import LossCode
from dragoman.wire.json_codec import dump_str, dumps


class WrittenItem:
    """One open item. `append` keeps a fragment of its text for the events that repeat it."""

    __slots__ = (
        "address",
        "append",
        "buffer",
        "citations",
        "delta_format",
        "direct_format",
        "direct_frame",
        "event",
        "item",
        "loss",
        "part_added",
    )

    def __init__(self, item: OutputItem) -> None:
        shape = item.shape
        self.item = item
        self.event = shape.events + ".delta"
        self.address = b'"item_id":%b,"output_index":%d' % (dump_str(item.id), item.index)
        """The fields that identify the item and its part in each of its events."""
        if shape.part_list:
            self.address += b',"%b_index":0' % shape.part_list.encode()
        self.delta_format = b""
        """Its delta event, to be formatted with the sequence number and the text's JSON."""
        self.direct_format = b""
        """`delta_format` if each delta is written at once; empty if a delta may be held or starts the part."""
        self.direct_frame = b""
        """`direct_format` as an encoded SSE frame."""
        self.part_added = False
        """True if its part is announced."""
        self.citations: list[Citation] = []
        self.loss: LossCode | None = None
        """The loss to record if it ends without encrypted content."""
        # A list of fragments would cost a string of some 60 bytes per token.
        self.buffer = StringIO(newline="")
        self.append = self.buffer.write

    def prepare_deltas(self, more: bytes, *, live: bool) -> None:
        """Build the formats of its deltas, with `more` fields after the text. If `live`, deltas are never held."""
        at = self.address.replace(b"%", b"%%")
        self.delta_format = b'{"type":"%b","sequence_number":%%d,%b,"delta":%%b%b}' % (self.event.encode(), at, more)
        if live:
            self.direct_format = self.delta_format
            self.direct_frame = b"event: %b\ndata: %b\n\n" % (self.event.encode(), self.delta_format)

    def text(self) -> str | None:
        """Returns the text so far, or None if there is no part and no text."""
        text = self.buffer.getvalue()
        return text if text or self.part_added else None

    def part_event(self, suffix: str) -> str:
        """Returns the name of an event of its part; `suffix` is `added` or `done`."""
        return f"response.{'reasoning_summary' if self.item.shape.part_list == 'summary' else 'content'}_part.{suffix}"

    # --- the bodies of its events, without type and sequence number -----------------------------------------------

    def item_body(self, encoded: bytes) -> bytes:
        """Returns the body of `output_item.added` and `.done`."""
        return b'"output_index":%d,"item":%b' % (self.item.index, encoded)

    def part_body(self, text: Any) -> bytes:
        """Returns the body of an event of its part."""
        return b'%b,"part":%b' % (self.address, dumps(self.item.part(text)))

    def text_body(self, literal: bytes) -> bytes:
        """Returns the body of the `.done` event of its text or arguments, whose JSON is `literal`."""
        item, shape = self.item, self.item.shape
        if shape is TEXT:
            return b'%b,"text":%b,"logprobs":%b' % (self.address, literal, dumps(item.logprobs))
        name = b',"name":' + dump_str(item.name) if shape is FUNCTION else b""
        return b'%b%b,"%b":%b' % (self.address, name, shape.key.encode(), literal)

    def annotation_bodies(self, length: int) -> Iterator[bytes]:
        """Add the citations of a finished text of `length` characters to the item; yields a body for each one added."""
        for citation in self.citations:
            annotation = write_citation(citation, length)
            if annotation is not None:
                annotations = self.item.annotations
                yield b'%b,"annotation_index":%d,"annotation":%b' % (self.address, len(annotations), dumps(annotation))
                annotations.append(annotation)


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

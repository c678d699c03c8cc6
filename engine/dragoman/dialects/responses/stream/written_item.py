"""The output items of a Responses stream that is written: text and delta format of each, and all of them in order."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from io import StringIO
from typing import Any, Final

from dragoman.canonical.events import Citation
from dragoman.dialects.responses.citations import write_citation
from dragoman.dialects.responses.reply.item_shapes import FUNCTION, SEARCH, TEXT, ItemFactory, ItemShape, OutputItem
from dragoman.losses import LossCode
from dragoman.wire.json_codec import dump_str, dumps

_TEXT_ADDED: Final = (
    b'event: response.output_item.added\ndata: {"type":"response.output_item.added","sequence_number":%d,'
    b'"output_index":%d,"item":{"type":"message","id":%b,"role":"assistant","status":"in_progress","content":[]}}\n\n'
    b'event: response.content_part.added\ndata: {"type":"response.content_part.added","sequence_number":%d,'
    b'%b,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}\n\n'
)
"""The frames that announce a text item and its part."""
_TEXT_ITEM: Final = (
    b'{"type":"message","id":%b,"role":"assistant","status":"completed",'
    b'"content":[{"type":"output_text","text":%b,"annotations":[],"logprobs":[]}]}'
)
"""A complete text item without citations and log probabilities."""
_TEXT_DONE: Final = (
    b'event: response.output_text.done\ndata: {"type":"response.output_text.done","sequence_number":%d,'
    b'%b,"text":%b,"logprobs":[]}\n\n'
    b'event: response.content_part.done\ndata: {"type":"response.content_part.done","sequence_number":%d,'
    b'%b,"part":{"type":"output_text","text":%b,"annotations":[],"logprobs":[]}}\n\n'
    b'event: response.output_item.done\ndata: {"type":"response.output_item.done","sequence_number":%d,'
    b'"output_index":%d,"item":%b}\n\n'
)
"""The last frames of such an item."""


class WrittenItem:
    """One open item. `append` keeps a fragment of its text for the events that repeat it."""

    __slots__ = (
        "address",
        "append",
        "buffer",
        "citations",
        "delta_frame",
        "direct_frame",
        "id_literal",
        "item",
        "loss",
        "part_added",
    )

    def __init__(self, item: OutputItem) -> None:
        shape = item.shape
        self.item = item
        self.id_literal = dump_str(item.id)
        self.address = b'"item_id":%b,"output_index":%d' % (self.id_literal, item.index)
        """The fields that identify the item and its part in each of its events."""
        if shape.part_list:
            self.address += b',"%b_index":0' % shape.part_list.encode()
        self.delta_frame = b""
        """The SSE frame of its deltas, to be formatted with the sequence number and the text's JSON."""
        self.direct_frame = b""
        """`delta_frame` if each delta is written at once; empty if a delta may be held or starts the part."""
        self.part_added = False
        """True if its part is announced."""
        self.citations: list[Citation] = []
        self.loss: LossCode | None = None
        """The loss to record if it ends without encrypted content."""
        # A list of fragments would cost a string of some 60 bytes per token. No line ends are translated.
        self.buffer = StringIO()
        self.append = self.buffer.write

    def prepare_deltas(self, more: bytes, *, live: bool) -> None:
        """Build the format of its deltas, with `more` fields after the text. If `live`, deltas are never held."""
        name, at = self.item.shape.events.encode(), self.address.replace(b"%", b"%%")
        self.delta_frame = b'event: %b.delta\ndata: {"type":"%b.delta","sequence_number":%%d,%b,"delta":%%b%b}\n\n' % (
            name,
            name,
            at,
            more,
        )
        if live:
            self.direct_frame = self.delta_frame

    def text(self) -> str | None:
        """Return the text so far, or None if there is no part and no text."""
        text = self.buffer.getvalue()
        return text if text or self.part_added else None

    def part_event(self, suffix: str) -> str:
        """Return the name of an event of its part; `suffix` is `added` or `done`."""
        return f"response.{'reasoning_summary' if self.item.shape.part_list == 'summary' else 'content'}_part.{suffix}"

    # --- the frames of a usual text item -------------------------------------------------------------------------

    def text_added(self, sequence: int) -> bytes:
        """Return the two frames that announce a text item and its part; the first has this sequence number."""
        item_id, index, address = self.id_literal, self.item.index, self.address
        return _TEXT_ADDED % (sequence, index, item_id, sequence + 1, address)

    def text_done(self, sequence: int, text: str) -> tuple[bytes, bytes]:
        """Return a complete text item's three last frames and its JSON; the first has this sequence number.

        It has neither citations nor log probabilities.
        """
        address, literal = self.address, dump_str(text)
        encoded = _TEXT_ITEM % (self.id_literal, literal)
        part, item, index = sequence + 1, sequence + 2, self.item.index
        frames = _TEXT_DONE % (sequence, address, literal, part, address, literal, item, index, encoded)
        return frames, encoded

    # --- the bodies of its events, without type and sequence number -----------------------------------------------

    def item_body(self, encoded: bytes) -> bytes:
        """Return the body of `output_item.added` and `.done`."""
        return b'"output_index":%d,"item":%b' % (self.item.index, encoded)

    def part_body(self, text: Any) -> bytes:
        """Return the body of an event of its part."""
        return b'%b,"part":%b' % (self.address, dumps(self.item.part(text)))

    def text_body(self, literal: bytes) -> bytes:
        """Return the body of the `.done` event of its text or arguments, whose JSON is `literal`."""
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

    `base` and `plain_calls` are those of `ItemFactory`. `has_content` is True if there is text or a
    call, `has_refusal` if there is refusal wording, `has_incomplete` if an item was closed incomplete.
    """

    __slots__ = ("_entries", "_factory", "has_content", "has_incomplete", "has_refusal")

    def __init__(self, base: str, plain_calls: Collection[tuple[str | None, str]] = ()) -> None:
        self._factory = ItemFactory(base, plain_calls)
        self._entries: list[WrittenItem | bytes] = []
        """By output index: an open item, or the JSON of one that is done."""
        self.has_content = False
        self.has_incomplete = self.has_refusal = False

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

    def hold_call(self, shape: ItemShape, call_id: str, name: str) -> WrittenItem:
        """Return a call that is not an item yet; `add_call` adds it once it is complete."""
        self.has_content = True
        item = OutputItem(shape, "", -1)
        item.call_id, item.name = call_id, name
        return WrittenItem(item)

    def close(self, written: WrittenItem, status: str, text: Any) -> bytes:
        """Replace an open item by its JSON, which is returned."""
        self.has_incomplete |= status == "incomplete"
        return self.close_encoded(written, dumps(written.item.build(status, text)))

    def close_encoded(self, written: WrittenItem, encoded: bytes) -> bytes:
        """Replace an open item by its JSON `encoded`, which is returned."""
        self._entries[written.item.index] = encoded
        return encoded

    def items(self) -> bytes:
        """Return the JSON of all items, without the brackets around them; those still open are incomplete."""
        return b",".join([entry if isinstance(entry, bytes) else _incomplete(entry) for entry in self._entries])


def _incomplete(written: WrittenItem) -> bytes:
    item = written.item
    return dumps(item.build("incomplete", None if item.shape is SEARCH else written.text()))

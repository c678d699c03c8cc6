"""An output item while its stream tells it: what was said of it, and how the next piece is spelled."""

from __future__ import annotations

from io import StringIO

from dragoman.canonical.events import Citation
from dragoman.dialects.responses.reply.item_shapes import OutputItem
from dragoman.losses import LossCode
from dragoman.wire.json_codec import dump_str


class WrittenItem:
    """One open item. `say` keeps a piece of its text for the events that repeat it."""

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
        """The fields of its events that say where they belong."""
        if shape.part_list:
            self.address += b',"%b_index":0' % shape.part_list.encode()
        self.delta_format = b""
        """Its delta event, but for the sequence number and the text."""
        self.direct_format = b""
        """The same if each delta is written as it comes, else empty."""
        self.direct_frame = b""
        """That as an encoded frame."""
        self.part_added = False
        """Is its part announced."""
        self.citations: list[Citation] = []
        self.loss: LossCode | None = None
        """The loss of a proof that could not be kept."""
        # A list of pieces would cost a string of some 60 bytes for each token kept.
        self.buffer = StringIO(newline="")
        self.append = self.buffer.write

    def prepare_deltas(self, more: bytes, *, live: bool) -> None:
        """Prepare its deltas, with `more` fields behind the text; `live` are ones that wait for nothing."""
        at = self.address.replace(b"%", b"%%")
        self.delta_format = b'{"type":"%b","sequence_number":%%d,%b,"delta":%%b%b}' % (self.event.encode(), at, more)
        if live:
            self.direct_format = self.delta_format
            self.direct_frame = b"event: %b\ndata: %b\n\n" % (self.event.encode(), self.delta_format)

    def text(self) -> str | None:
        """What was said so far, or None if there is no part or argument for it."""
        text = self.buffer.getvalue()
        return text if text or self.part_added else None

    def part_event(self, what: str) -> str:
        """The name of an event of its part."""
        return f"response.{'reasoning_summary' if self.item.shape.part_list == 'summary' else 'content'}_part.{what}"

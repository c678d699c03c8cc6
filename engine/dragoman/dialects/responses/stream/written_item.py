"""An output item while its stream tells it: what was said of it, and how the next piece is spelled."""

from __future__ import annotations

from io import StringIO

from dragoman.canonical.events import Citation
from dragoman.dialects.responses.reply.item_shapes import Item
from dragoman.losses import LossCode
from dragoman.wire.json_codec import dump_str


class Telling:
    """One open item. `say` keeps a piece of its text for the events that repeat it."""

    __slots__ = ("at", "citations", "encoded", "event", "item", "lost", "say", "shown", "spelled", "template", "told")

    def __init__(self, item: Item) -> None:
        form = item.form
        self.item = item
        self.event = form.events + ".delta"
        self.at = b'"item_id":%b,"output_index":%d' % (dump_str(item.id), item.index)
        """The fields of its events that say where they belong."""
        if form.place:
            self.at += b',"%b_index":0' % form.place.encode()
        self.spelled = b""
        """Its delta event, but for the sequence number and the text."""
        self.template = b""
        """The same if each delta is written as it comes, else empty."""
        self.encoded = b""
        """That as an encoded frame."""
        self.shown = False
        """Is its part announced."""
        self.citations: list[Citation] = []
        self.lost: LossCode | None = None
        """The loss of a proof that could not be kept."""
        # A list of pieces would cost a string of some 60 bytes for each token kept.
        self.told = StringIO(newline="")
        self.say = self.told.write

    def spell(self, more: bytes, *, live: bool) -> None:
        """Prepare its deltas, with `more` fields behind the text; `live` are ones that wait for nothing."""
        at = self.at.replace(b"%", b"%%")
        self.spelled = b'{"type":"%b","sequence_number":%%d,%b,"delta":%%b%b}' % (self.event.encode(), at, more)
        if live:
            self.template = self.spelled
            self.encoded = b"event: %b\ndata: %b\n\n" % (self.event.encode(), self.spelled)

    def text(self) -> str | None:
        """What was said so far, or None if there is no part or argument for it."""
        text = self.told.getvalue()
        return text if text or self.shown else None

    def part_event(self, what: str) -> str:
        """The name of an event of its part."""
        return f"response.{'reasoning_summary' if self.item.form.place == 'summary' else 'content'}_part.{what}"

"""The parts of a streamed message: each is a block of text or of refusal wording (mapping §9.6)."""

from __future__ import annotations

from dragoman.canonical.events import Annotation, BlockEnd, BlockKind, BlockStart, Event, Logprobs
from dragoman.canonical.request import Json
from dragoman.dialects.responses.reply.read_items import ItemKind, part_kind, read_citations, read_logprobs
from dragoman.dialects.responses.stream.item_state import ItemState, ItemTable, PartState, part_number, string_field
from dragoman.dialects.responses.wire import read_citation
from dragoman.errors import UpstreamProtocolError
from dragoman.losses import LossCode

# CPython 3.11 takes twenty times as long to find a member in its class.
_TEXT, _REFUSAL = BlockKind.TEXT, BlockKind.REFUSAL
_UNKNOWN, _MESSAGE = ItemKind.UNKNOWN, ItemKind.MESSAGE


class MessageParts(ItemTable):
    """Events of messages' parts. A part that was not announced is opened by the first event that speaks of it."""

    __slots__ = ()

    def text_delta(self, event: Json, out: list[Event]) -> None:
        """`response.output_text.delta`."""
        part = self._speaking(event, _TEXT, out)
        if part is not None:
            part.append_delta(string_field(event, "delta"), out)
            if event.get("logprobs"):
                self._logprobs(part, event, out)

    def refusal_delta(self, event: Json, out: list[Event]) -> None:
        """`response.refusal.delta`."""
        part = self._speaking(event, _REFUSAL, out)
        if part is not None:
            part.append_delta(string_field(event, "delta"), out)

    def text_done(self, event: Json, out: list[Event]) -> None:
        """`response.output_text.done`."""
        self._part_text(event, _TEXT, "text", out)

    def refusal_done(self, event: Json, out: list[Event]) -> None:
        """`response.refusal.done`."""
        self._part_text(event, _REFUSAL, "refusal", out)

    def annotation_added(self, event: Json, out: list[Event]) -> None:
        """`response.output_text.annotation.added`."""
        item, note = self.find(event), event.get("annotation")
        part = item.parts.get(part_number(event, "content_index")) if item is not None else None
        if part is None and not (item is not None and item.done):
            part = self._speaking(event, _TEXT, out)
        if part is not None and part.open and part.kind is _TEXT and type(note) is dict:
            part.annotations += 1
            out.append(Annotation(part.block, read_citation(note)))
        else:
            self.context.losses.add(LossCode.CITATIONS, "response.output_text.annotation.added")

    def start_part(self, item: ItemState, number: int, raw: Json, out: list[Event]) -> None:
        """A part was announced; at most once."""
        part = item.parts.get(number)
        if part is None:
            part = self._open_part(item, number, raw, out)
        elif part.announced:
            raise UpstreamProtocolError(f"upstream started part {number} of item {item.key} twice")
        part.announced = True

    def finish_part(self, item: ItemState, number: int, raw: Json, out: list[Event]) -> None:
        """A part is done: what was not said of it, and its end."""
        part = item.parts.get(number) or self._open_part(item, number, raw, out)
        if part.kind is None:
            return
        if not part.open:
            raise UpstreamProtocolError(f"upstream ended part {number} of item {item.key} twice")
        self._settle_part(item, number, part, raw, out)
        self._end_part(item, number, part, out)

    def settle_message(self, item: ItemState, raw: Json, out: list[Event], *, complete: bool) -> None:
        """The finished message: what was not said of it, and the end of its parts."""
        content = raw.get("content")
        for number, told in enumerate(content if type(content) is list else ()):
            if type(told) is not dict:
                raise UpstreamProtocolError("upstream sent a message with a part that is not an object")
            part = item.parts.get(number) or self._open_part(item, number, told, out)
            if part.open:
                self._settle_part(item, number, part, told, out)
                self._end_part(item, number, part, out, complete=complete)
        self.end_parts(item, out, complete=complete)

    def end_parts(self, item: ItemState, out: list[Event], *, complete: bool) -> None:
        """Close the parts that are open; `complete` is False where the message was cut, but not for parts whose text
        is known to be whole."""
        for number, part in item.parts.items():
            if part.open:
                self._end_part(item, number, part, out, complete=complete or part.text_done)

    def _speaking(self, event: Json, kind: BlockKind, out: list[Event]) -> PartState | None:
        """The open part that an event speaks in, or None if it is left out."""
        key, number = event.get("output_index"), event.get("content_index")
        item = self.items.get(key) if type(key) is int else None
        part = item.parts.get(number) if item is not None and type(number) is int else None
        if part is not None and part.kind is kind and part.open:
            return part
        item = item or self.find(event) or self.add_unannounced(event, "message", out)
        if item.kind is _UNKNOWN:
            return None
        number = part_number(event, "content_index")
        part = item.parts.get(number)
        if part is None:
            self.record_repair("a part came without content_part.added")
            return self._start_part(item, number, kind, out)
        if part.kind is not None and (part.kind is not kind or not part.open):
            state = f"a {part.kind} part" if part.open else "a part that is closed"
            raise UpstreamProtocolError(f"upstream sent {event['type']} for {state}")
        return part if part.kind is not None else None

    def _open_part(self, item: ItemState, number: int, raw: Json, out: list[Event]) -> PartState:
        known = part_kind(raw)
        if known is None:
            self.context.losses.add(
                LossCode.UNKNOWN_EVENT, (*item.path, "content", number), "a part of unknown type was left out"
            )
            return self._start_part(item, number, None, out)
        part = self._start_part(item, number, known[0], out)
        text = raw.get(known[1])
        if type(text) is str:  # the first fragment, as the SDK takes it
            part.append_delta(text, out)
        return part

    def _start_part(self, item: ItemState, number: int, kind: BlockKind | None, out: list[Event]) -> PartState:
        if item.kind is not _MESSAGE or item.done:
            state = "is closed" if item.done else f"is a {item.type}"
            raise UpstreamProtocolError(f"upstream sent a part of a message for item {item.key}, which {state}")
        self.reserve()
        block = 0
        if kind is not None:
            self.early_ends.before_start(out)
            block = self.blocks.start((item.key, number), kind)
            out.append(BlockStart(block, kind, apart=block > 0 and not item.parts))
            self.has_refusal = self.has_refusal or kind is _REFUSAL
        part = item.parts[number] = PartState(kind, block)
        return part

    def _part_text(self, event: Json, kind: BlockKind, key: str, out: list[Event]) -> None:
        """A `.done` event of a part: it repeats the text, so it may as well come when the part is closed."""
        item = self.find(event)
        if item is not None:
            part = item.parts.get(part_number(event, "content_index"))
            if item.done or (part is not None and part.kind is kind and not part.open):
                return
        part = self._speaking(event, kind, out)
        if part is not None:
            self.append_missing(part, event.get(key), out)
            self._logprobs(part, event, out, once=True)
            part.text_done = True

    def _settle_part(self, item: ItemState, number: int, part: PartState, raw: Json, out: list[Event]) -> None:
        known = part_kind(raw)
        if known is None or known[0] is not part.kind:
            raise UpstreamProtocolError(f"upstream ended a {part.kind} part as one of type {raw.get('type')!r}")
        self.append_missing(part, raw.get(known[1]), out)
        if part.kind is _TEXT:
            self._logprobs(part, raw, out, once=True)
            at = (*item.path, "content", number, "annotations")
            citations = read_citations(raw, at, self.context.losses, part.annotations)
            out.extend(Annotation(part.block, citation) for citation in citations)

    def _logprobs(self, part: PartState, holder: Json, out: list[Event], *, once: bool = False) -> None:
        if once and part.logprobs:
            return
        tokens = read_logprobs(holder, self.context)
        if tokens and part.kind is _TEXT:
            part.logprobs = True
            out.append(Logprobs(part.block, tokens))

    def _end_part(
        self, item: ItemState, number: int, part: PartState, out: list[Event], *, complete: bool = True
    ) -> None:
        part.open = False
        part.last_delta = ""
        out.append(BlockEnd(self.blocks.end((item.key, number)), complete))

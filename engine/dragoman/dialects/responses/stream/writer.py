"""Canonical events to a Responses stream: numbered events, an item of its own per block, the whole reply at the end.

The SDK's state machine needs each item and part announced before its deltas, its id unchanged and its index its own;
agents take a call from `response.output_item.done` and run it, so one that is not whole is never told as completed
(mapping §9.7). The bytes around the one changing string of a delta are built once per item.
"""

from __future__ import annotations

from typing import Any, ClassVar

from orjson import Fragment

from dragoman.canonical.events import (
    Annotation,
    BlockEnd,
    BlockKind,
    BlockStart,
    Delta,
    End,
    Error,
    Event,
    Finish,
    Logprobs,
    Opaque,
    Ping,
    Start,
    TextRun,
)
from dragoman.dialects.responses.errors import response_error
from dragoman.dialects.responses.reply.encrypted_content import lost_proof, write_proof
from dragoman.dialects.responses.reply.item_shapes import (
    CUSTOM,
    REFUSAL,
    SEARCH,
    TEXT,
    Item,
    Items,
    form_of,
    whole_arguments,
)
from dragoman.dialects.responses.reply.response_object import Snapshot
from dragoman.dialects.responses.stream.written_item import Telling
from dragoman.dialects.responses.wire import refusal_wording, write_citation, write_logprobs, write_status, write_usage
from dragoman.dialects.shared.stream_codec import Frames, StreamWriter, Writes
from dragoman.errors import LimitExceeded, UpstreamProtocolError
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.wire.json_codec import dump_str, dumps
from dragoman.wire.sse import Frame


class ResponsesWriter(StreamWriter):
    """See the module's docstring."""

    __slots__ = (
        "_finish",
        "_held",
        "_items",
        "_logs",
        "_open",
        "_output",
        "_refused",
        "_room",
        "_sealed",
        "_sequence",
        "_shown",
        "_snapshot",
        "_summary",
    )

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._snapshot: Snapshot | None = None
        self._items = Items("")
        self._open: dict[int, Telling] = {}
        self._output: list[Telling | Fragment] = []
        """By output index: an open item, or the JSON of one that is done."""
        self._sealed: dict[int, BlockStart] = {}
        """Reasoning that is all proof, until its payload comes."""
        self._held: tuple[int, Telling, str] | None = None
        """A delta whose log probabilities may follow; nothing is held if the client did not ask for them."""
        self._sequence = 0
        self._room = context.limits.reply_body
        self._logs = context.logprobs
        self._summary = context.knobs.reasoning_surface == "summary"
        self._shown = False
        self._refused = False
        self._finish: Finish | None = None

    def delta(self, event: Delta, out: Frames) -> None:
        """One piece of a block's text."""
        block = self._open.get(event.index)
        if block is None:
            raise UpstreamProtocolError(f"upstream continued block {event.index}, which is not open")
        text = event.text
        if not text:
            return
        self._room -= len(text)
        if self._room < 0:
            raise self._full()
        template = block.template
        if template:
            block.say(text)
            sequence = self._sequence
            self._sequence = sequence + 1
            out.append(Frame(block.event, template % (sequence, dump_str(text))))
        else:
            self._say(event.index, block, text, out)

    def deltas(self, event: TextRun) -> bytes | None:
        """Texts of one block, all at once."""
        block = self._open.get(event.index)
        said, spelled = event.text, event.encoded
        if block is None or not block.template or len(said) > self._room:
            return None
        self._room -= len(said)
        block.say(said)
        sequence, encoded = self._sequence, block.encoded
        self._sequence = sequence + len(spelled)
        if len(spelled) == 1:
            return encoded % (sequence, spelled[0])
        return b"".join([encoded % numbered for numbered in enumerate(spelled, sequence)])

    def write(self, event: Event, out: Frames) -> None:
        """One event other than a delta."""
        if self._held is not None:
            self._release(event, out)
        self.writes[type(event)](self, event, out)

    # --- frames --------------------------------------------------------------------------------------------------

    def _emit(self, kind: str, body: bytes, out: Frames) -> None:
        sequence = self._sequence
        self._sequence = sequence + 1
        out.append(Frame(kind, b'{"type":"%b","sequence_number":%d,%b}' % (kind.encode(), sequence, body)))

    def _begin(self, event: Start, out: Frames) -> None:
        told = self._start(Snapshot(self.context, event.id, event.model, event.created), out)
        self._emit("response.in_progress", told, out)

    def _start(self, snapshot: Snapshot, out: Frames) -> bytes:
        """The first event; gives its body. With an agent's tools in the echo it is worth encoding once."""
        self._snapshot = snapshot
        self._items = Items(snapshot.base)
        told = b'"response":' + dumps(snapshot.started())
        self._emit("response.created", told, out)
        return told

    @property
    def _begun(self) -> Snapshot:
        if self._snapshot is None:
            raise UpstreamProtocolError("upstream sent an event before the start of its reply")
        return self._snapshot

    def _take(self, size: int) -> None:
        self._room -= size
        if self._room < 0:
            raise self._full()

    def _full(self) -> LimitExceeded:
        return LimitExceeded("reply_body", self.context.limits.reply_body, upstream=True)

    # --- blocks --------------------------------------------------------------------------------------------------

    def _start_block(self, event: BlockStart, out: Frames) -> None:
        kind = event.kind
        if kind is BlockKind.OPAQUE:
            if event.code == LossCode.REASONING_ENCRYPTED:
                self._sealed[event.index] = event
            else:
                self.context.losses.add(LossCode(event.code), event.name)
            return
        form = form_of(kind, custom=event.custom, search=event.search, summary=self._summary)
        if kind is BlockKind.TOOL:
            self._shown = True
            item = self._items.new_call(form, event.call_id, event.name, event.namespace)
        else:
            item = self._items.new(form)
        self._open[event.index] = block = self._add(item, out)
        if kind is BlockKind.TEXT or kind is BlockKind.REFUSAL:
            self._show(block, out)

    def _add(self, item: Item, out: Frames) -> Telling:
        """Announce an item."""
        block = Telling(item)
        self._output.append(block)
        if not item.form.place and item.form.events:
            block.spell(b"", live=not self._logs)
        self._emit(
            "response.output_item.added",
            b'"output_index":%d,"item":%b' % (item.index, dumps(item.build("in_progress"))),
            out,
        )
        return block

    def _show(self, block: Telling, out: Frames) -> None:
        """Announce an item's part. That of reasoning comes with its first text, as there may be none."""
        block.shown = True
        form = block.item.form
        self._emit(block.part_event("added"), b'%b,"part":%b' % (block.at, dumps(block.item.part(""))), out)
        block.spell(b',"logprobs":[]' if form is TEXT else b"", live=not self._logs)

    def _say(self, index: int, block: Telling, text: str, out: Frames) -> None:
        """A delta that is not simply written: the first of some reasoning, one that waits, one of a search."""
        if self._held is not None:
            self._release(None, out)
        block.say(text)
        form = block.item.form
        if form is SEARCH:  # has no delta events
            return
        if form.place and not block.shown:
            self._show(block, out)
        if self._logs and form is TEXT:
            self._held = index, block, text
        else:
            self._tell(block, block.spelled, dump_str(text), out)

    def _tell(self, block: Telling, template: bytes, literal: bytes, out: Frames) -> None:
        sequence = self._sequence
        self._sequence = sequence + 1
        out.append(Frame(block.event, template % (sequence, literal)))

    def _release(self, event: Event | None, out: Frames) -> None:
        """Write the delta that waits, with the log probabilities that this event brings for it."""
        assert self._held is not None
        index, block, text = self._held
        self._held = None
        template = block.spelled
        if isinstance(event, Logprobs) and event.index == index:
            told = dumps(write_logprobs(event.tokens))
            template = template[: -len(b"[]}")] + told.replace(b"%", b"%%") + b"}"
        self._tell(block, template, dump_str(text), out)

    def _log(self, event: Logprobs, out: Frames) -> None:
        block = self._open.get(event.index)
        if block is not None and self._logs and block.item.form is TEXT:
            tokens = write_logprobs(event.tokens)
            self._take(len(dumps(tokens)))
            block.item.logprobs += tokens

    def _cite(self, event: Annotation, out: Frames) -> None:
        block = self._open.get(event.index)
        if block is None or block.item.form is not TEXT:
            self.context.losses.add(LossCode.CITATIONS, "annotations")
            return
        self._take(len(dumps(event.citation.native)))
        # Told at the end of the block, when the extent of its text is known.
        block.citations.append(event.citation)

    def _opaque(self, event: Opaque, out: Frames) -> None:
        index, payload, seal = event.index, event.payload, self.context.envelope
        waiting = self._sealed.get(index)
        if waiting is not None:
            native = payload if event.form == "block" and type(payload) is dict else None
            proof = write_proof(event.origin, native, (native or {}).get("encrypted_content"), seal)
            if proof is not None:
                del self._sealed[index]
                self._take(len(proof))
                item = self._items.new(form_of(BlockKind.REASONING, summary=self._summary))
                self._open[index] = self._add(item, out)
                item.proof = proof
            return
        block = self._open.get(index)
        if block is None or block.item.form.type != "reasoning":  # of a block that was left out, and counted then
            return
        proof = write_proof(event.origin, event.native, payload, seal)
        if proof is not None:
            self._take(len(proof))
            block.item.proof = proof
        elif payload:  # third parties sign with nothing
            block.lost = lost_proof(event.origin)

    def _end_block(self, event: BlockEnd, out: Frames) -> None:
        block = self._open.pop(event.index, None)
        if block is None:
            waiting = self._sealed.pop(event.index, None)
            if waiting is not None:
                self.context.losses.add(LossCode(waiting.code), waiting.name)
            return
        if block.item.form.place:
            self._end_prose(block, event.complete, out)
        else:
            self._end_call(block, event.complete, out)

    def _end_prose(self, block: Telling, complete: bool, out: Frames) -> None:
        item, text = block.item, block.text()
        form = item.form
        if block.lost is not None and item.proof is None:
            self.context.losses.add(block.lost, "reasoning")
        if text is None:
            self._done(block, complete, None, out)
            return
        if form is TEXT:
            self._shown |= text != ""
            self._annotate(block, len(text), out)
        elif form is REFUSAL:
            self._refused = True
        # Spelled once, told four times: here, in the part, in the item and in the last event.
        literal = dump_str(text)
        fragment = Fragment(literal)
        logprobs = b',"logprobs":' + dumps(item.logprobs) if form is TEXT else b""
        body = b'%b,"%b":%b%b' % (block.at, form.key.encode(), literal, logprobs)
        self._emit(form.events + ".done", body, out)
        self._emit(block.part_event("done"), b'%b,"part":%b' % (block.at, dumps(item.part(fragment))), out)
        self._done(block, complete, fragment, out)

    def _annotate(self, block: Telling, length: int, out: Frames) -> None:
        known = len(block.item.annotations)
        for citation in block.citations:
            note = write_citation(citation, length)
            if note is not None:
                body = b'%b,"annotation_index":%d,"annotation":%b' % (block.at, known, dumps(note))
                known += 1
                self._emit("response.output_text.annotation.added", body, out)
                block.item.annotations.append(note)
        if known < len(block.citations):
            self.context.losses.add(LossCode.CITATIONS, "annotations")

    def _end_call(self, block: Telling, complete: bool, out: Frames) -> None:
        item, text = block.item, block.told.getvalue()
        form = item.form
        arguments: Any = text
        if form is not CUSTOM:
            if complete and not text.strip():
                # A call without arguments: clients parse the string, and "" is no JSON (mapping §6.3).
                if form is not SEARCH:
                    self._tell(block, block.spelled, b'"{}"', out)
                text += "{}"
            parsed = whole_arguments(text)
            complete = complete and parsed is not None
            arguments = (parsed if complete else None) if form is SEARCH else text
        if complete and form.events:
            name = b"" if form is CUSTOM else b',"name":' + dump_str(item.name)
            self._emit(
                form.events + ".done", b'%b%b,"%b":%b' % (block.at, name, form.key.encode(), dump_str(text)), out
            )
        elif form is CUSTOM:
            # Codex runs free text as soon as its item is told as done, whatever the status. The end has the item.
            self._output[item.index] = Fragment(dumps(item.build("incomplete", text)))
            return
        self._done(block, complete, arguments, out)

    def _done(self, block: Telling, complete: bool, text: Any, out: Frames) -> None:
        item = block.item
        told = dumps(item.build("completed" if complete else "incomplete", text))
        self._output[item.index] = Fragment(told)
        self._emit("response.output_item.done", b'"output_index":%d,"item":%b' % (item.index, told), out)

    # --- the end -------------------------------------------------------------------------------------------------

    def _stop(self, event: Finish, out: Frames) -> None:
        # Nothing is told here: the counts may still grow, and the end holds all of it (mapping §9.7).
        self._finish = event

    def _end(self, event: End, out: Frames) -> None:
        finish, context = self._finish, self.context
        if finish is None:
            raise UpstreamProtocolError("upstream ended its reply without saying why")
        info, stop = finish.refusal, finish.stop
        usage = event.usage.merged_onto(finish.usage) if event.usage is not None else finish.usage
        if info is not None and info.category:
            context.losses.add(LossCode.REFUSAL_CATEGORY, ("stop_details", "category"))
        wording = refusal_wording(stop, info, shown=self._shown, refused=self._refused)
        if wording is not None:
            block = self._add(self._items.new(REFUSAL), out)
            self._show(block, out)
            self._take(len(wording))
            block.say(wording)
            self._tell(block, block.spelled, dump_str(wording), out)
            self._end_prose(block, True, out)
        status, reason = write_status(stop, context.knobs, shown=self._shown)
        counts = write_usage(usage, context.losses)
        response = self._begun.ended(status, self._told(), usage=counts, reason=reason)
        self._emit(f"response.{status}", b'"response":' + dumps(response), out)

    def _fail(self, event: Error, out: Frames) -> None:
        if self._snapshot is None:
            # The SDK takes nothing before `response.created`, not even a failure.
            self._start(Snapshot(self.context, "", "", None), out)
        response = self._begun.ended("failed", self._told(), error=response_error(event.failure, self.context.knobs))
        self._emit("response.failed", b'"response":' + dumps(response), out)

    def _told(self) -> list[Any]:
        """The items so far. What is still open gets no `done` events, which would say that it is whole."""
        return [
            block
            if isinstance(block, Fragment)
            else block.item.build("incomplete", None if block.item.form is SEARCH else block.text())
            for block in self._output
        ]

    def _ping(self, event: Ping, out: Frames) -> None:
        out.append(Frame("", None))

    writes: ClassVar[Writes] = {
        Start: _begin,
        BlockStart: _start_block,
        BlockEnd: _end_block,
        Finish: _stop,
        End: _end,
        Annotation: _cite,
        Opaque: _opaque,
        Logprobs: _log,
        Ping: _ping,
        Error: _fail,
    }

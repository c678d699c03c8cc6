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
from dragoman.dialects.responses.reply.encrypted_content import loss_code, write_encrypted_content
from dragoman.dialects.responses.reply.item_shapes import (
    CUSTOM,
    REFUSAL,
    SEARCH,
    TEXT,
    ItemFactory,
    OutputItem,
    parse_arguments,
    shape_of,
)
from dragoman.dialects.responses.reply.response_object import ResponseObject
from dragoman.dialects.responses.stream.written_item import WrittenItem
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
        "_encrypted_blocks",
        "_factory",
        "_finish",
        "_has_content",
        "_has_refusal",
        "_held",
        "_open",
        "_output",
        "_room",
        "_sequence",
        "_snapshot",
        "_summary",
        "_with_logprobs",
    )

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._snapshot: ResponseObject | None = None
        self._factory = ItemFactory("")
        self._open: dict[int, WrittenItem] = {}
        self._output: list[WrittenItem | Fragment] = []
        """By output index: an open item, or the JSON of one that is done."""
        self._encrypted_blocks: dict[int, BlockStart] = {}
        """Reasoning that is all proof, until its payload comes."""
        self._held: tuple[int, WrittenItem, str] | None = None
        """A delta whose log probabilities may follow; nothing is held if the client did not ask for them."""
        self._sequence = 0
        self._room = context.limits.reply_body
        self._with_logprobs = context.logprobs
        self._summary = context.knobs.reasoning_surface == "summary"
        self._has_content = False
        self._has_refusal = False
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
            raise self._too_large()
        template = block.direct_format
        if template:
            block.append(text)
            sequence = self._sequence
            self._sequence = sequence + 1
            out.append(Frame(block.event, template % (sequence, dump_str(text))))
        else:
            self._delta_slowly(event.index, block, text, out)

    def deltas(self, event: TextRun) -> bytes | None:
        """Texts of one block, all at once."""
        block = self._open.get(event.index)
        said, spelled = event.text, event.encoded
        if block is None or not block.direct_format or len(said) > self._room:
            return None
        self._room -= len(said)
        block.append(said)
        sequence, encoded = self._sequence, block.direct_frame
        self._sequence = sequence + len(spelled)
        if len(spelled) == 1:
            return encoded % (sequence, spelled[0])
        return b"".join([encoded % numbered for numbered in enumerate(spelled, sequence)])

    def write(self, event: Event, out: Frames) -> None:
        """One event other than a delta."""
        if self._held is not None:
            self._emit_held(event, out)
        self.writes[type(event)](self, event, out)

    # --- frames --------------------------------------------------------------------------------------------------

    def _emit(self, kind: str, body: bytes, out: Frames) -> None:
        sequence = self._sequence
        self._sequence = sequence + 1
        out.append(Frame(kind, b'{"type":"%b","sequence_number":%d,%b}' % (kind.encode(), sequence, body)))

    def _begin(self, event: Start, out: Frames) -> None:
        told = self._start(ResponseObject(self.context, event.id, event.model, event.created), out)
        self._emit("response.in_progress", told, out)

    def _start(self, snapshot: ResponseObject, out: Frames) -> bytes:
        """The first event; gives its body. With an agent's tools in the echo it is worth encoding once."""
        self._snapshot = snapshot
        self._factory = ItemFactory(snapshot.base)
        told = b'"response":' + dumps(snapshot.started())
        self._emit("response.created", told, out)
        return told

    @property
    def _begun(self) -> ResponseObject:
        if self._snapshot is None:
            raise UpstreamProtocolError("upstream sent an event before the start of its reply")
        return self._snapshot

    def _reserve(self, size: int) -> None:
        self._room -= size
        if self._room < 0:
            raise self._too_large()

    def _too_large(self) -> LimitExceeded:
        return LimitExceeded("reply_body", self.context.limits.reply_body, upstream=True)

    # --- blocks --------------------------------------------------------------------------------------------------

    def _start_block(self, event: BlockStart, out: Frames) -> None:
        kind = event.kind
        if kind is BlockKind.OPAQUE:
            if event.code == LossCode.REASONING_ENCRYPTED:
                self._encrypted_blocks[event.index] = event
            else:
                self.context.losses.add(LossCode(event.code), event.name)
            return
        shape = shape_of(kind, custom=event.custom, search=event.search, summary=self._summary)
        if kind is BlockKind.TOOL:
            self._has_content = True
            item = self._factory.new_call(shape, event.call_id, event.name, event.namespace)
        else:
            item = self._factory.new(shape)
        self._open[event.index] = block = self._add_item(item, out)
        if kind is BlockKind.TEXT or kind is BlockKind.REFUSAL:
            self._add_part(block, out)

    def _add_item(self, item: OutputItem, out: Frames) -> WrittenItem:
        """Announce an item."""
        block = WrittenItem(item)
        self._output.append(block)
        if not item.shape.part_list and item.shape.events:
            block.prepare_deltas(b"", live=not self._with_logprobs)
        self._emit(
            "response.output_item.added",
            b'"output_index":%d,"item":%b' % (item.index, dumps(item.build("in_progress"))),
            out,
        )
        return block

    def _add_part(self, block: WrittenItem, out: Frames) -> None:
        """Announce an item's part. That of reasoning comes with its first text, as there may be none."""
        block.part_added = True
        shape = block.item.shape
        self._emit(block.part_event("added"), b'%b,"part":%b' % (block.address, dumps(block.item.part(""))), out)
        block.prepare_deltas(b',"logprobs":[]' if shape is TEXT else b"", live=not self._with_logprobs)

    def _delta_slowly(self, index: int, block: WrittenItem, text: str, out: Frames) -> None:
        """A delta that is not simply written: the first of some reasoning, one that waits, one of a search."""
        if self._held is not None:
            self._emit_held(None, out)
        block.append(text)
        shape = block.item.shape
        if shape is SEARCH:  # has no delta events
            return
        if shape.part_list and not block.part_added:
            self._add_part(block, out)
        if self._with_logprobs and shape is TEXT:
            self._held = index, block, text
        else:
            self._emit_delta(block, block.delta_format, dump_str(text), out)

    def _emit_delta(self, block: WrittenItem, template: bytes, literal: bytes, out: Frames) -> None:
        sequence = self._sequence
        self._sequence = sequence + 1
        out.append(Frame(block.event, template % (sequence, literal)))

    def _emit_held(self, event: Event | None, out: Frames) -> None:
        """Write the delta that waits, with the log probabilities that this event brings for it."""
        assert self._held is not None
        index, block, text = self._held
        self._held = None
        template = block.delta_format
        if isinstance(event, Logprobs) and event.index == index:
            told = dumps(write_logprobs(event.tokens))
            template = template[: -len(b"[]}")] + told.replace(b"%", b"%%") + b"}"
        self._emit_delta(block, template, dump_str(text), out)

    def _add_logprobs(self, event: Logprobs, out: Frames) -> None:
        block = self._open.get(event.index)
        if block is not None and self._with_logprobs and block.item.shape is TEXT:
            tokens = write_logprobs(event.tokens)
            self._reserve(len(dumps(tokens)))
            block.item.logprobs += tokens

    def _add_citation(self, event: Annotation, out: Frames) -> None:
        block = self._open.get(event.index)
        if block is None or block.item.shape is not TEXT:
            self.context.losses.add(LossCode.CITATIONS, "annotations")
            return
        self._reserve(len(dumps(event.citation.native)))
        # Told at the end of the block, when the extent of its text is known.
        block.citations.append(event.citation)

    def _opaque(self, event: Opaque, out: Frames) -> None:
        index, payload, seal = event.index, event.payload, self.context.envelope
        waiting = self._encrypted_blocks.get(index)
        if waiting is not None:
            native = payload if event.form == "block" and type(payload) is dict else None
            proof = write_encrypted_content(event.origin, native, (native or {}).get("encrypted_content"), seal)
            if proof is not None:
                del self._encrypted_blocks[index]
                self._reserve(len(proof))
                item = self._factory.new(shape_of(BlockKind.REASONING, summary=self._summary))
                self._open[index] = self._add_item(item, out)
                item.encrypted_content = proof
            return
        block = self._open.get(index)
        if block is None or block.item.shape.type != "reasoning":  # of a block that was left out, and counted then
            return
        proof = write_encrypted_content(event.origin, event.native, payload, seal)
        if proof is not None:
            self._reserve(len(proof))
            block.item.encrypted_content = proof
        elif payload:  # third parties sign with nothing
            block.loss = loss_code(event.origin)

    def _end_block(self, event: BlockEnd, out: Frames) -> None:
        block = self._open.pop(event.index, None)
        if block is None:
            waiting = self._encrypted_blocks.pop(event.index, None)
            if waiting is not None:
                self.context.losses.add(LossCode(waiting.code), waiting.name)
            return
        if block.item.shape.part_list:
            self._end_prose(block, event.complete, out)
        else:
            self._end_call(block, event.complete, out)

    def _end_prose(self, block: WrittenItem, complete: bool, out: Frames) -> None:
        item, text = block.item, block.text()
        shape = item.shape
        if block.loss is not None and item.encrypted_content is None:
            self.context.losses.add(block.loss, "reasoning")
        if text is None:
            self._item_done(block, complete, None, out)
            return
        if shape is TEXT:
            self._has_content |= text != ""
            self._emit_annotations(block, len(text), out)
        elif shape is REFUSAL:
            self._has_refusal = True
        # Spelled once, told four times: here, in the part, in the item and in the last event.
        literal = dump_str(text)
        fragment = Fragment(literal)
        logprobs = b',"logprobs":' + dumps(item.logprobs) if shape is TEXT else b""
        body = b'%b,"%b":%b%b' % (block.address, shape.key.encode(), literal, logprobs)
        self._emit(shape.events + ".done", body, out)
        self._emit(block.part_event("done"), b'%b,"part":%b' % (block.address, dumps(item.part(fragment))), out)
        self._item_done(block, complete, fragment, out)

    def _emit_annotations(self, block: WrittenItem, length: int, out: Frames) -> None:
        known = len(block.item.annotations)
        for citation in block.citations:
            note = write_citation(citation, length)
            if note is not None:
                body = b'%b,"annotation_index":%d,"annotation":%b' % (block.address, known, dumps(note))
                known += 1
                self._emit("response.output_text.annotation.added", body, out)
                block.item.annotations.append(note)
        if known < len(block.citations):
            self.context.losses.add(LossCode.CITATIONS, "annotations")

    def _end_call(self, block: WrittenItem, complete: bool, out: Frames) -> None:
        item, text = block.item, block.buffer.getvalue()
        shape = item.shape
        arguments: Any = text
        if shape is not CUSTOM:
            if complete and not text.strip():
                # A call without arguments: clients parse the string, and "" is no JSON (mapping §6.3).
                if shape is not SEARCH:
                    self._emit_delta(block, block.delta_format, b'"{}"', out)
                text += "{}"
            parsed = parse_arguments(text)
            complete = complete and parsed is not None
            arguments = (parsed if complete else None) if shape is SEARCH else text
        if complete and shape.events:
            name = b"" if shape is CUSTOM else b',"name":' + dump_str(item.name)
            self._emit(
                shape.events + ".done", b'%b%b,"%b":%b' % (block.address, name, shape.key.encode(), dump_str(text)), out
            )
        elif shape is CUSTOM:
            # Codex runs free text as soon as its item is told as done, whatever the status. The end has the item.
            self._output[item.index] = Fragment(dumps(item.build("incomplete", text)))
            return
        self._item_done(block, complete, arguments, out)

    def _item_done(self, block: WrittenItem, complete: bool, text: Any, out: Frames) -> None:
        item = block.item
        told = dumps(item.build("completed" if complete else "incomplete", text))
        self._output[item.index] = Fragment(told)
        self._emit("response.output_item.done", b'"output_index":%d,"item":%b' % (item.index, told), out)

    # --- the end -------------------------------------------------------------------------------------------------

    def _record_finish(self, event: Finish, out: Frames) -> None:
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
        wording = refusal_wording(stop, info, shown=self._has_content, refused=self._has_refusal)
        if wording is not None:
            block = self._add_item(self._factory.new(REFUSAL), out)
            self._add_part(block, out)
            self._reserve(len(wording))
            block.append(wording)
            self._emit_delta(block, block.delta_format, dump_str(wording), out)
            self._end_prose(block, True, out)
        status, reason = write_status(stop, context.knobs, shown=self._has_content)
        counts = write_usage(usage, context.losses)
        response = self._begun.ended(status, self._output_items(), usage=counts, reason=reason)
        self._emit(f"response.{status}", b'"response":' + dumps(response), out)

    def _fail(self, event: Error, out: Frames) -> None:
        if self._snapshot is None:
            # The SDK takes nothing before `response.created`, not even a failure.
            self._start(ResponseObject(self.context, "", "", None), out)
        response = self._begun.ended(
            "failed", self._output_items(), error=response_error(event.failure, self.context.knobs)
        )
        self._emit("response.failed", b'"response":' + dumps(response), out)

    def _output_items(self) -> list[Any]:
        """The items so far. What is still open gets no `done` events, which would say that it is whole."""
        return [
            block
            if isinstance(block, Fragment)
            else block.item.build("incomplete", None if block.item.shape is SEARCH else block.text())
            for block in self._output
        ]

    def _ping(self, event: Ping, out: Frames) -> None:
        out.append(Frame("", None))

    writes: ClassVar[Writes] = {
        Start: _begin,
        BlockStart: _start_block,
        BlockEnd: _end_block,
        Finish: _record_finish,
        End: _end,
        Annotation: _add_citation,
        Opaque: _opaque,
        Logprobs: _add_logprobs,
        Ping: _ping,
        Error: _fail,
    }

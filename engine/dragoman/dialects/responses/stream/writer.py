"""Canonical events to a Responses stream: numbered events, one item per block, the complete reply in the last event.

The frames of items are in `item_writer`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from orjson import Fragment

from dragoman.canonical.events import (
    IMAGE,
    Annotation,
    BlockEnd,
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
from dragoman.dialects.responses.logprobs import write_logprobs
from dragoman.dialects.responses.reply.encrypted_content import loss_code, write_encrypted_content
from dragoman.dialects.responses.reply.item_shapes import (
    BUILT_IN,
    COMPACTION,
    IMAGE_CALL,
    REFUSAL,
    TEXT,
    image_data,
    shape_of,
)
from dragoman.dialects.responses.reply.response_object import ResponseObject
from dragoman.dialects.responses.stop_and_usage import refusal_wording, write_status, write_usage
from dragoman.dialects.responses.stream.item_writer import ItemWriter
from dragoman.dialects.responses.stream.keepalive import keepalive_payload
from dragoman.dialects.responses.stream.written_item import WrittenItem, WrittenOutput
from dragoman.dialects.shared.stream_writer import Frames, Writes
from dragoman.errors import UpstreamProtocolError
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.wire.json_codec import dump_str, dumps
from dragoman.wire.sse import Frame

_CREATED: Final = b'event: response.created\ndata: {"type":"response.created","sequence_number":0,"response":%b}\n\n'
_BEGUN: Final = _CREATED + (
    b'event: response.in_progress\ndata: {"type":"response.in_progress","sequence_number":1,"response":%b}\n\n'
)
_END: Final = b'event: response.%b\ndata: {"type":"response.%b","sequence_number":%d,"response":%b}\n\n'


class ResponsesWriter(ItemWriter):
    """Writes one stream."""

    __slots__ = ("_encrypted_blocks", "_finish", "_held", "_open", "_snapshot", "_summary")

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._snapshot: ResponseObject | None = None
        self._open: dict[int, WrittenItem] = {}
        self._encrypted_blocks: dict[int, BlockStart] = {}
        """Starts of reasoning blocks that are encrypted only, and of pictures. Their items start with the content."""
        self._held: tuple[int, WrittenItem, str] | None = None
        """A delta whose log probabilities may follow: block index, item, text. None if the client wants none."""
        self._summary = context.knobs.reasoning_surface == "summary"
        self._finish: Finish | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.phase} open={len(self._open)} sequence_number={self._sequence}>"

    def delta(self, event: Delta, out: Frames) -> None:
        """Write one fragment of a block's text."""
        block = self._open.get(event.index)
        if block is None:
            raise UpstreamProtocolError(f"upstream continued block {event.index}, which is not open")
        text = event.text
        if not text:
            return
        self._room -= len(text)
        if self._room < 0:
            raise self._too_large()
        if block.direct_frame:
            block.append(text)
            self._emit_delta(block.direct_frame, dump_str(text), out)
        else:
            self._write_delta(event.index, block, text, out)

    def deltas(self, event: TextRun) -> bytes | None:
        """Return the encoded frames of a run of fragments, or None if they need more than the item's format."""
        block = self._open.get(event.index)
        text, literals = event.text, event.encoded
        if block is None or not (frame := block.direct_frame) or len(text) > self._room:
            return None
        self._room -= len(text)
        block.append(text)
        sequence, count = self._sequence, len(literals)
        self._sequence = sequence + count
        if count == 1:
            return frame % (sequence, literals[0])
        return b"".join([frame % numbered for numbered in enumerate(literals, sequence)])

    def write(self, event: Event, out: Frames) -> None:
        """Write one event other than a delta."""
        if self._held is not None:
            self._emit_held(event, out)
        self.writes[type(event)](self, event, out)

    # --- frames --------------------------------------------------------------------------------------------------

    def _begin(self, event: Start, out: Frames) -> None:
        snapshot = self._snapshot = ResponseObject(self.context, event.id, event.model, event.created, event.tier)
        self._output = WrittenOutput(snapshot.base, self.context.plain_calls)
        response = snapshot.started_json()  # large with an agent's tools, and needed twice
        self._sequence = 2
        out.append(_BEGUN % (response, response))
        if self.context.stored is not None and self.context.stored.compaction:
            block = self._output.add(COMPACTION)
            self._item_added(block, out)
            self._item_done(block, True, self.context.stored.compaction, out)

    # --- blocks --------------------------------------------------------------------------------------------------

    def _start_block(self, event: BlockStart, out: Frames) -> None:
        kind = event.kind
        if kind == "opaque":
            if event.code == LossCode.REASONING_ENCRYPTED or event.name == IMAGE:
                self._encrypted_blocks[event.index] = event
            else:
                self.context.losses.add(LossCode(event.code), event.name)
            return
        if kind == "text":
            block = self._open[event.index] = self._output.add(TEXT)
            block.part_added = True
            block.prepare_deltas(b',"logprobs":[]', live=not self.context.logprobs)
            out.append(block.text_added(self._sequence))
            self._sequence += 2
            return
        if event.name in self.context.built_in and kind == "tool" and not event.custom and not event.namespace:
            self._open[event.index] = self._output.hold_call(BUILT_IN[event.name], event.call_id, event.name)
            return
        shape = shape_of(kind, custom=event.custom, search=event.search, summary=self._summary)
        if kind == "tool":
            block = self._output.add_call(shape, event.call_id, event.name, event.namespace)
        else:
            block = self._output.add(shape)
        self._open[event.index] = block
        self._item_added(block, out)
        if kind == "refusal":
            self._part_added(block, out)

    def _write_delta(self, index: int, block: WrittenItem, text: str, out: Frames) -> None:
        """Write a delta that has no direct format: the first of reasoning, one that is held, one without an event."""
        if self._held is not None:
            self._emit_held(None, out)
        block.append(text)
        shape = block.item.shape
        if not shape.events:  # a tool search, a built-in tool
            return
        if shape.part_list and not block.part_added:
            self._part_added(block, out)
        if self.context.logprobs and shape is TEXT:
            self._held = index, block, text
        else:
            self._emit_delta(block.delta_frame, dump_str(text), out)

    def _emit_held(self, event: Event | None, out: Frames) -> None:
        """Write the held delta, with the log probabilities if `event` has them."""
        assert self._held is not None
        index, block, text = self._held
        self._held = None
        frame = block.delta_frame
        if isinstance(event, Logprobs) and event.index == index:
            logprobs = dumps(write_logprobs(event.tokens))
            frame = frame[: -len(b"[]}\n\n")] + logprobs.replace(b"%", b"%%") + b"}\n\n"
        self._emit_delta(frame, dump_str(text), out)

    def _add_logprobs(self, event: Logprobs, out: Frames) -> None:
        block = self._open.get(event.index)
        if block is not None and self.context.logprobs and block.item.shape is TEXT:
            tokens = write_logprobs(event.tokens)
            self._reserve(len(dumps(tokens)))
            block.item.logprobs += tokens

    def _add_citation(self, event: Annotation, out: Frames) -> None:
        block = self._open.get(event.index)
        if block is None or block.item.shape is not TEXT:
            self.context.losses.add(LossCode.CITATIONS, "annotations")
            return
        self._reserve(len(dumps(event.citation.native)))
        # Written at the end of the block: without an end of its own, a citation covers the text up to there.
        block.citations.append(event.citation)

    def _opaque(self, event: Opaque, out: Frames) -> None:
        index, payload, envelope = event.index, event.payload, self.context.envelope
        if index in self._encrypted_blocks:
            if self._encrypted_blocks[index].name == IMAGE:
                return self._write_image(index, payload, out)
            native = payload if event.form == "block" and type(payload) is dict else None
            content = write_encrypted_content(event.origin, native, (native or {}).get("encrypted_content"), envelope)
            if content is not None:
                del self._encrypted_blocks[index]
                self._reserve(len(content))
                block = self._open[index] = self._output.add(shape_of("reasoning", summary=self._summary))
                self._item_added(block, out)
                block.item.encrypted_content = content
            return
        reasoning = self._open.get(index)
        if reasoning is None or reasoning.item.shape.type != "reasoning":  # its block is dropped, with a loss
            return
        content = write_encrypted_content(event.origin, event.native, payload, envelope)
        if content is not None:
            self._reserve(len(content))
            reasoning.item.encrypted_content = content
        elif payload:  # third parties send an empty signature, which is no loss
            reasoning.loss = loss_code(event.origin)

    def _write_image(self, index: int, payload: Any, out: Frames) -> None:
        """Write a picture as the finished call of OpenAI's own tool. Without its data, it is dropped at its end."""
        data = image_data(payload)
        if data is not None:
            del self._encrypted_blocks[index]
            self._reserve(len(data))
            block = self._output.add(IMAGE_CALL)
            self._output.has_content = True
            self._item_added(block, out)
            self._item_done(block, True, data, out)

    def _end_block(self, event: BlockEnd, out: Frames) -> None:
        block = self._open.pop(event.index, None)
        if block is None:
            start = self._encrypted_blocks.pop(event.index, None)
            if start is not None:
                self.context.losses.add(LossCode(start.code), start.name)
            return
        if block.item.shape.part_list:
            self._end_prose(block, event.complete, out)
        elif block.item.shape.held:
            self._write_held(block, event.complete, out)
        else:
            self._end_call(block, event.complete, out)

    # --- the end -------------------------------------------------------------------------------------------------

    def _record_finish(self, event: Finish, out: Frames) -> None:
        # Written with `End`, as the token counts may still grow (mapping §9.7).
        self._finish = event

    def _end(self, event: End, out: Frames) -> None:
        finish, snapshot, context, output = self._finish, self._snapshot, self.context, self._output
        assert finish is not None
        assert snapshot is not None
        info, stop = finish.refusal, finish.stop
        usage = event.usage.merged_onto(finish.usage) if event.usage is not None else finish.usage
        if info is not None and info.category:
            context.losses.add(LossCode.REFUSAL_CATEGORY, ("stop_details", "category"))
        wording = refusal_wording(stop, info, shown=output.has_content, refused=output.has_refusal)
        if wording is not None:
            block = output.add(REFUSAL)
            self._item_added(block, out)
            self._part_added(block, out)
            self._reserve(len(wording))
            block.append(wording)
            self._emit_delta(block.delta_frame, dump_str(wording), out)
            self._end_prose(block, True, out)
        # A completed response has no incomplete item: not even an empty one.
        shown = output.has_content or output.has_incomplete
        status, reason = write_status(stop, info, context.knobs, shown=shown)
        counts = write_usage(usage, context.losses)
        response = snapshot.ended_json(status, output.items(), usage=counts, reason=reason)
        if context.stored is not None:
            context.stored.final = response
        self._emit_end(status, response, out)

    def ping(self, event: Ping, out: Frames) -> None:
        """Write a ping: as an event for clients that count events only, else as a comment."""
        if self._snapshot is None or self.context.knobs.heartbeats != "event":
            return super().ping(event, out)
        out.append(Frame("keepalive", keepalive_payload(self._sequence)))
        self._sequence += 1

    def _fail(self, event: Error, out: Frames) -> None:
        snapshot = self._snapshot
        if snapshot is None:
            # The SDK accepts no event before `response.created`, not even a failure.
            snapshot = ResponseObject(self.context, "", "", None)
            out.append(_CREATED % snapshot.started_json())
            self._sequence = 1
            items = b""
        else:
            items = self._output.items()
        error = response_error(event.failure, self.context.knobs)
        response = snapshot.ended("failed", Fragment(b"[%b]" % items), error=error)
        response["store"] = False  # a failed response is not stored
        self._emit_end("failed", dumps(response), out)

    def _emit_end(self, status: str, response: bytes, out: Frames) -> None:
        """Write the last event."""
        name = status.encode()
        out.append(_END % (name, name, self._sequence, response))

    writes: ClassVar[Writes] = {
        Start: _begin,
        BlockStart: _start_block,
        BlockEnd: _end_block,
        Finish: _record_finish,
        End: _end,
        Annotation: _add_citation,
        Opaque: _opaque,
        Logprobs: _add_logprobs,
        Ping: ping,
        Error: _fail,
    }

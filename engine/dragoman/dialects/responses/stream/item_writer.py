"""The events of a Responses stream about its items: numbered, from an item's announcement to its end.

The SDK's state machine needs every item and part announced before its deltas, with an unchanged id and an index of its
own. Agents take a call from `response.output_item.done` and run it, so an incomplete call is never reported as
completed (mapping §9.7). The bytes around the text of a delta are built once per item.
"""

from __future__ import annotations

from typing import Any

from orjson import Fragment

from dragoman.dialects.responses.reply.item_shapes import CUSTOM, CUT_BUILT_IN, REFUSAL, TEXT, complete_arguments
from dragoman.dialects.responses.stream.written_item import WrittenItem, WrittenOutput
from dragoman.dialects.shared.stream_writer import Frames, StreamWriter
from dragoman.errors import LimitExceeded
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.tools.built_in_tools import read_action
from dragoman.wire.json_codec import dump_str, dumps
from dragoman.wire.sse import Frame


class ItemWriter(StreamWriter):
    """Writes the events of items. `ResponsesWriter` decides which events of a stream they are for."""

    __slots__ = ("_output", "_room", "_sequence")

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._output: WrittenOutput
        """The items. Set with the first event."""
        self._sequence = 0
        self._room = context.limits.reply_body

    def _emit(self, kind: str, body: bytes, out: Frames) -> None:
        sequence = self._sequence
        self._sequence = sequence + 1
        out.append(Frame(kind, b'{"type":"%b","sequence_number":%d,%b}' % (kind.encode(), sequence, body)))

    def _emit_delta(self, frame: bytes, literal: bytes, out: Frames) -> None:
        sequence = self._sequence
        self._sequence = sequence + 1
        out.append(frame % (sequence, literal))

    def _reserve(self, size: int) -> None:
        self._room -= size
        if self._room < 0:
            raise self._too_large()

    def _too_large(self) -> LimitExceeded:
        return LimitExceeded("reply_body", self.context.limits.reply_body, upstream=True)

    def _item_added(self, block: WrittenItem, out: Frames) -> None:
        """Announce an item."""
        shape = block.item.shape
        if not shape.part_list and shape.events:
            block.prepare_deltas(b"", live=not self.context.logprobs)
        self._emit("response.output_item.added", block.item_body(dumps(block.item.build("in_progress"))), out)

    def _part_added(self, block: WrittenItem, out: Frames) -> None:
        """Announce an item's part. A reasoning item gets its part with its first text, as it may have no text."""
        block.part_added = True
        self._emit(block.part_event("added"), block.part_body(""), out)
        block.prepare_deltas(b"", live=not self.context.logprobs)

    def _end_prose(self, block: WrittenItem, complete: bool, out: Frames) -> None:
        item, text = block.item, block.text()
        shape = item.shape
        if block.loss is not None and item.encrypted_content is None:
            self.context.losses.add(block.loss, "reasoning")
        if text is None:
            self._item_done(block, complete, None, out)
            return
        if shape is TEXT:
            if text:
                self._output.has_content = True
            if complete and not block.citations and not item.logprobs:
                frames, encoded = block.text_done(self._sequence, text)
                self._sequence += 3
                out.append(frames)
                self._output.close_encoded(block, encoded)
                return
            for body in block.annotation_bodies(len(text)):
                self._emit("response.output_text.annotation.added", body, out)
            if len(item.annotations) < len(block.citations):
                self.context.losses.add(LossCode.CITATIONS, "annotations")
        elif shape is REFUSAL:
            self._output.has_refusal = True
        # Encoded once, sent four times: in this event, in the part, in the item and in the last event.
        literal = dump_str(text)
        fragment = Fragment(literal)
        self._emit(shape.events + ".done", block.text_body(literal), out)
        self._emit(block.part_event("done"), block.part_body(fragment), out)
        self._item_done(block, complete, fragment, out)

    def _end_call(self, block: WrittenItem, complete: bool, out: Frames) -> None:
        item, text = block.item, block.buffer.getvalue()
        shape = item.shape
        if complete and shape.key == "arguments" and shape.events and not text.strip():
            # A call without arguments: clients parse the deltas, and "" is not JSON (mapping §6.3).
            self._emit_delta(block.delta_frame, b'"{}"', out)
        text, arguments, complete = complete_arguments(shape, text, complete)
        if complete and shape.events:
            self._emit(shape.events + ".done", block.text_body(dump_str(text)), out)
        elif shape is CUSTOM:
            # Codex runs a free-text call at its `output_item.done`, whatever the status. Only the last event has it.
            self._output.close(block, "incomplete", text)
            return
        self._item_done(block, complete, arguments, out)

    def _write_held(self, held: WrittenItem, complete: bool, out: Frames) -> None:
        """Write a complete call of a built-in tool. Clients run every one, so one that was cut is left out."""
        name = held.item.name
        if not complete:
            self.context.losses.add(LossCode.CALL_CUT, name, CUT_BUILT_IN)
            return
        action = read_action(name, held.buffer.getvalue(), self.context.losses)
        block = self._output.add_call(held.item.shape, held.item.call_id, name, None)
        # AI SDK reads the kind of a patch and its path from the announcement.
        encoded = dumps(block.item.build("in_progress", action))
        self._emit("response.output_item.added", block.item_body(encoded), out)
        self._item_done(block, True, action, out)

    def _item_done(self, block: WrittenItem, complete: bool, text: Any, out: Frames) -> None:
        encoded = self._output.close(block, "completed" if complete else "incomplete", text)
        self._emit("response.output_item.done", block.item_body(encoded), out)

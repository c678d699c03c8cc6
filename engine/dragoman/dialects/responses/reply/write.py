"""A canonical reply to a whole Responses reply: the object that a stream's last event holds (mapping §9.1 to §9.4)."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.events import IMAGE
from dragoman.canonical.parts import Json, Native, Reasoning, Refusal, Text, ToolCall
from dragoman.canonical.reply import Reply
from dragoman.canonical.reply_events import may_be_cut
from dragoman.dialects.responses.citations import write_citation
from dragoman.dialects.responses.logprobs import write_logprobs
from dragoman.dialects.responses.reply.encrypted_content import loss_code, write_encrypted_content
from dragoman.dialects.responses.reply.item_shapes import (
    BUILT_IN,
    COMPACTION,
    CUT_BUILT_IN,
    IMAGE_CALL,
    REFUSAL,
    TEXT,
    ItemFactory,
    complete_arguments,
    image_data,
    shape_of,
)
from dragoman.dialects.responses.reply.response_object import ResponseObject
from dragoman.dialects.responses.stop_and_usage import refusal_wording, write_status, write_usage
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.tools.built_in_tools import read_action


def write_reply(reply: Reply, context: ReplyContext) -> Json:
    """Return the Response object. One canonical part becomes one item, as in a stream."""
    snapshot = ResponseObject(context, reply.id, reply.model, reply.created)
    writer = _Output(context, ItemFactory(snapshot.base, context.plain_calls))
    if context.stored is not None and context.stored.compaction:
        writer.compaction(context.stored.compaction)
    for position, part in enumerate(reply.parts):
        status = "incomplete" if may_be_cut(reply, position) else "completed"
        if type(part) is Text:
            writer.text(part, status)
        elif type(part) is ToolCall:
            writer.call(part, status)
        elif type(part) is Reasoning:
            writer.reasoning(part, status)
        elif type(part) is Refusal:
            writer.refusal(part.text, status)
        elif type(part) is Native and part.type == IMAGE and (data := image_data(part.payload)) is not None:
            writer.image(data)
        elif type(part) is Native:
            context.losses.add(LossCode(part.code), part.at)
        else:
            context.losses.add(LossCode.UNKNOWN_EVENT, part.at, f"{type(part).__name__} has no place in a reply")
    info = reply.refusal
    if info is not None and info.category:
        context.losses.add(LossCode.REFUSAL_CATEGORY, ("stop_details", "category"))
    shown = writer.shown
    wording = refusal_wording(reply.stop, info, shown=shown, refused=writer.refused)
    if wording is not None:
        writer.refusal(wording)
    status, reason = write_status(reply.stop, info, context.knobs, shown=shown)
    return snapshot.ended(status, writer.output, usage=write_usage(reply.usage, context.losses), reason=reason)


class _Output:
    """The items of one reply. `shown` is True if there is text or a call, `refused` if there is refusal wording."""

    __slots__ = ("_context", "_items", "output", "refused", "shown")

    def __init__(self, context: ReplyContext, items: ItemFactory) -> None:
        self._context = context
        self._items = items
        self.output: list[Json] = []
        self.shown = False
        self.refused = False

    def compaction(self, wrapped: str) -> None:
        self.shown = True
        self.output.append(self._items.new(COMPACTION).build("completed", wrapped))

    def image(self, data: str) -> None:
        self.shown = True
        self.output.append(self._items.new(IMAGE_CALL).build("completed", data))

    def text(self, part: Text, status: str) -> None:
        item = self._items.new(TEXT)
        self.shown |= part.text != ""
        if part.citations:
            annotations = [write_citation(citation, len(part.text)) for citation in part.citations]
            item.annotations = [annotation for annotation in annotations if annotation is not None]
            if None in annotations:
                self._context.losses.add(LossCode.CITATIONS, part.at)
        if part.logprobs and self._context.logprobs:
            item.logprobs = write_logprobs(part.logprobs)
        self.output.append(item.build(status, part.text))

    def refusal(self, wording: str, status: str = "completed") -> None:
        self.refused = True
        self.output.append(self._items.new(REFUSAL).build(status, wording))

    def reasoning(self, part: Reasoning, status: str) -> None:
        context = self._context
        native: Json | None = part.native
        own: Any = part.proof
        if part.redacted:
            native = native or {"data": part.proof}
            own = own or native.get("encrypted_content")
        content = write_encrypted_content(part.origin, native, own, context.envelope)
        if content is None and part.redacted:
            context.losses.add(LossCode.REASONING_ENCRYPTED, part.at)
            return
        if content is None and part.proof:
            context.losses.add(loss_code(part.origin), part.at)
        item = self._items.new(shape_of("reasoning", summary=context.knobs.reasoning_surface == "summary"))
        item.encrypted_content = content
        self.output.append(item.build(status, part.text or None))

    def call(self, part: ToolCall, status: str) -> None:
        if part.name in self._context.built_in and part.namespace is None and not part.custom:
            return self._built_in_call(part, status)
        shape = shape_of("tool", custom=part.custom, search=part.search)
        item = self._items.new_call(shape, part.id, part.name, part.namespace)
        self.shown = True
        _, arguments, complete = complete_arguments(shape, part.arguments, status == "completed")
        self.output.append(item.build("completed" if complete else "incomplete", arguments))

    def _built_in_call(self, part: ToolCall, status: str) -> None:
        self.shown = True
        if status != "completed":
            self._context.losses.add(LossCode.CALL_CUT, part.at, CUT_BUILT_IN)
            return
        action = read_action(part.name, part.arguments, self._context.losses)
        item = self._items.new_call(BUILT_IN[part.name], part.id, part.name, None)
        self.output.append(item.build(status, action))

"""Writes a canonical `Reply` as a Chat reply body (mapping §9.1 to §9.4)."""

from __future__ import annotations

from dragoman.canonical.parts import Json, Native, Reasoning, Refusal, Text, ToolCall
from dragoman.canonical.reply import Reply
from dragoman.dialects.chat.citations import write_citation
from dragoman.dialects.chat.extra_content import EXTRA_KEY, add_signatures
from dragoman.dialects.chat.images import is_image
from dragoman.dialects.chat.stop_and_usage import (
    DIALECT,
    ID_PREFIX,
    record_missing_usage,
    write_finish_reason,
    write_usage,
)
from dragoman.dialects.openai.logprobs import write_logprobs
from dragoman.dialects.openai.refusals import DECLINED, is_model_refusal
from dragoman.dialects.shared.service_report import openai_tier, tier_of
from dragoman.errors import UpstreamProtocolError
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.reply_context import ReplyContext
from dragoman.tools.names import reply_id, sanitize_call_id


def write_reply(reply: Reply, context: ReplyContext) -> Json:
    """Return the reply body for a Chat client.

    Raises `UpstreamProtocolError` for tool searches and calls of tools in a namespace, which Chat does not have.
    """
    knobs = context.knobs
    logprobs = None
    if context.logprobs and (
        tokens := [each for part in reply.parts if type(part) is Text for each in part.logprobs or ()]
    ):
        logprobs = write_logprobs(tokens)
    message = _write_message(reply, knobs, context.losses)
    shown = message["content"] is not None or "tool_calls" in message
    finish = write_finish_reason(reply.stop, reply.refusal, knobs, shown=shown)
    written: Json = {
        "id": reply_id(reply.id, ID_PREFIX),
        "object": "chat.completion",
        "created": context.created if reply.created is None else reply.created,
        "model": context.model if knobs.echo_model == "requested" else reply.model,
        "choices": [{"index": 0, "message": message, "logprobs": logprobs, "finish_reason": finish}],
    }
    if (tier := openai_tier(tier_of(context), context.losses)) is not None:
        written["service_tier"] = tier
    if context.moderation is not None:
        written["moderation"] = context.moderation
    if reply.usage is not None:
        record_missing_usage(reply.usage, context.losses)
        written["usage"] = write_usage(reply.usage)
    return written


def _write_message(reply: Reply, knobs: Knobs, losses: Losses) -> Json:
    message = _Message(reply.id, losses)
    for position, part in enumerate(reply.parts):
        if type(part) is Text:
            message.add_text(part)
            continue
        message.text.gap()
        if type(part) is ToolCall:
            message.add_call(part, cut=position in reply.cut)
        elif type(part) is Reasoning:
            message.add_reasoning(part)
        elif type(part) is Refusal:
            if part.text:
                message.refusal.add(part.text)
        elif type(part) is Native and is_image(part.payload):
            message.images.append(part.payload)
        elif type(part) is Native:
            losses.add(LossCode(part.code), part.at)
        else:
            losses.add(LossCode.UNKNOWN_EVENT, part.at, f"{type(part).__name__} has no place in a Chat reply")
    message.add_refusal_info(reply)
    return message.write(knobs.reasoning_field)


class _Message:
    """The parts of a reply, joined to the members of its message."""

    def __init__(self, reply_id: str, losses: Losses) -> None:
        self.text, self._reasoning, self.refusal = JoinedText(), JoinedText(), JoinedText()
        self._calls: list[Json] = []
        self._call_ids: list[str] = []
        self._annotations: list[Json] = []
        self._signatures: Json = {}
        self.images: list[Json] = []
        self._reply_id = reply_id
        self._losses = losses

    def add_text(self, part: Text) -> None:
        """Add a text and its citations."""
        if part.apart:
            self.text.gap()
        if not part.text:
            if part.citations:
                self._losses.add(LossCode.CITATIONS, part.at)
            return
        if self._calls:
            self._losses.add(LossCode.BLOCK_ORDER, part.at, "put with the text before the calls")
        start = self.text.add(part.text)
        if not part.citations:
            return
        written = [write_citation(citation, start, start + len(part.text)) for citation in part.citations]
        self._annotations += [annotation for annotation in written if annotation is not None]
        if None in written:  # Chat has citations of web pages only, not of documents
            self._losses.add(LossCode.CITATIONS, part.at)

    def add_reasoning(self, part: Reasoning) -> None:
        """Add the text of reasoning, and the signatures of Chat's own."""
        if part.native is not None and part.origin == DIALECT:
            self._signatures.update(part.native.get(EXTRA_KEY, ()))
        if part.redacted:
            self._losses.add(LossCode.REASONING_ENCRYPTED, part.at)
            return
        if part.proof and part.origin != DIALECT:
            # Encrypted content is the reasoning itself, a signature is not.
            encrypted = part.origin == "responses"
            self._losses.add(LossCode.REASONING_ENCRYPTED if encrypted else LossCode.REASONING_SIGNATURE, part.at)
        if part.text:
            self._reasoning.gap()
            self._reasoning.add(part.text)

    def add_call(self, part: ToolCall, *, cut: bool) -> None:
        """Add a call. Raises UpstreamProtocolError for one that Chat does not have."""
        self._calls.append(_write_call(part, self._reply_id, len(self._calls), cut=cut))
        self._call_ids.append(part.id)

    def add_refusal_info(self, reply: Reply) -> None:
        """Add the explanation of a refusal that has no text, after all parts."""
        info = reply.refusal
        if is_model_refusal(reply.stop, info) and not self.refusal.pieces:
            explanation = info.explanation if info else None
            if explanation or not (self.text.pieces or self._calls):  # no default text besides content (mapping §9.3)
                self.refusal.add(explanation or DECLINED)
        if info is not None and info.category is not None:
            self._losses.add(LossCode.REFUSAL_CATEGORY, ("stop_details", "category"))

    def write(self, reasoning_field: str) -> Json:
        """Return the message. `reasoning_field` is the knob."""
        message: Json = {
            "role": "assistant",
            "content": str(self.text) if self.text.pieces else None,
            "refusal": str(self.refusal) if self.refusal.pieces else None,
            "annotations": self._annotations,
        }
        if self._reasoning.pieces:
            if reasoning_field in ("reasoning_content", "both"):
                message["reasoning_content"] = str(self._reasoning)
            if reasoning_field in ("reasoning", "both"):
                message["reasoning"] = str(self._reasoning)
            if reasoning_field == "off":
                self._losses.add(LossCode.REASONING_MODE, "reasoning", "not shown (reasoning_field = off)")
        if self._calls:
            message["tool_calls"] = self._calls
        if self._signatures:
            add_signatures(message, self._call_ids, self._signatures)
        if self.images:
            message["images"] = self.images
        return message


def _write_call(part: ToolCall, upstream_id: str, position: int, *, cut: bool) -> Json:
    if part.namespace is not None or part.search:
        raise UpstreamProtocolError(f"the model called {part.name!r} in a way that no Chat client can be given")
    call_id = sanitize_call_id(part.id or f"{upstream_id}:{position}", 64)
    if part.custom:
        return {"id": call_id, "type": "custom", "custom": {"name": part.name, "input": part.arguments}}
    arguments = part.arguments or ("" if cut else "{}")  # a cut call is never completed, as in a stream
    return {"id": call_id, "type": "function", "function": {"name": part.name, "arguments": arguments}}


class JoinedText:
    """Joins text blocks to the one string of a message (mapping §4.2).

    Adjacent ones are joined as they are, because citations split them; others as paragraphs.
    """

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.length = 0
        self._apart = False

    def add(self, text: str) -> int:
        """Append a block's text. Return its offset in the joined text."""
        if self._apart:
            self._apart = False
            self.pieces.append("\n\n")
            self.length += 2
        start = self.length
        self.pieces.append(text)
        self.length += len(text)
        return start

    def gap(self) -> None:
        """Make the next text a new paragraph, if there is text before it."""
        self._apart = bool(self.pieces)

    def __str__(self) -> str:
        return self.pieces[0] if len(self.pieces) == 1 else "".join(self.pieces)

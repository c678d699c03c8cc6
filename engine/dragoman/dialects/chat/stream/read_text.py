"""Assembles the text, refusal and reasoning blocks of a Chat stream.

Chat marks no borders of blocks. A block starts when a delta of another kind arrives, so one of them is open at a time.
"""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.events import IMAGE, BlockEnd, BlockKind, BlockStart, Delta, Event, Opaque
from dragoman.canonical.request import Json
from dragoman.dialects.chat.content_parts import read_content_parts
from dragoman.dialects.chat.extra_content import EXTRA_KEY, signature_of
from dragoman.dialects.chat.images import read_images
from dragoman.dialects.chat.reasoning_details import DETAILS_KEY, ReasoningDetails, read_details, size_of
from dragoman.dialects.chat.reasoning_fields import is_signed, record_dropped_proofs, record_unknown_details
from dragoman.dialects.chat.stop_and_usage import DIALECT
from dragoman.dialects.chat.stream.phases import Phase
from dragoman.dialects.shared.block_index import BlockMap
from dragoman.dialects.shared.early_call_ends import EarlyEnds
from dragoman.dialects.shared.stream_reader import ignore_run
from dragoman.dialects.shared.streamed_arguments import ReplyBudget
from dragoman.errors import Path, UpstreamProtocolError
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.wire.delta_template import RunCallback

_DELTA: Final = ("choices", 0, "delta")


class TextAssembler:
    """The blocks of one stream but its tool calls. It also prepares for the start of any block."""

    __slots__ = (
        "_context",
        "_details",
        "_reasoning",
        "blocks",
        "budget",
        "early_ends",
        "index",
        "kind",
        "phase",
        "refused",
        "shown",
        "signature_blocks",
        "signatures",
    )

    def __init__(self, context: ReplyContext) -> None:
        self._context = context
        self.blocks = BlockMap(context.limits)
        self.early_ends: EarlyEnds | None = None
        """Ends the calls of the stream early; None if it has none."""
        self.budget = ReplyBudget(context.limits)
        """Characters that may be kept until the end of the stream."""
        self.kind: BlockKind | None = None
        """Kind of the open block, None without one."""
        self.index = 0
        """Index of the open block."""
        self.phase: Phase = "NEW"
        """Phase of the stream, which the reader sets."""
        self.refused = False
        """True if there is a refusal."""
        self.shown = False
        """True if there is a text."""
        self._reasoning: list[str] | None = None
        """Texts of the open reasoning block, if the server wants them back and the client can keep them."""
        self._details: ReasoningDetails | None = None
        """Details of the open reasoning block. They replace `_reasoning`."""
        self.signatures: Json | None = None
        """Signed `extra_content` of the message and of calls by id, until it is written with a reasoning block."""
        self.signature_blocks = 0
        """The number of reasoning blocks that hold signatures only."""

    def add(self, kind: BlockKind, text: Any, out: list[Event]) -> None:
        """Add a text to the block of its kind."""
        if type(text) is not str:
            raise UpstreamProtocolError(f"upstream sent {kind} that is not a string")
        if self.kind != kind:
            self._start(kind, out)
        if self._reasoning is not None:
            self.budget.take(len(text))
            self._reasoning.append(text)
        out.append(Delta(self.index, text))

    def add_parts(self, content: list[Any] | Json, out: list[Event]) -> None:
        """Add `content` that is an array, or one part. Mistral's servers send their reasoning in it."""
        losses = self._context.losses
        if self._context.profile.reasoning_key != "thinking":
            losses.add_once(LossCode.REPLY_REPAIRED, _DELTA, "content was an array of parts")
        for kind, text in read_content_parts(content, _DELTA, losses):
            if text:
                self.add(kind, text, out)

    def add_details(self, delta: Json, out: list[Event]) -> None:
        """Keep the `reasoning_details` of a delta if they can be sent back, else record their proofs as lost."""
        details = read_details(delta, self._context)
        if not details:
            if DETAILS_KEY in delta or is_signed(delta):
                record_dropped_proofs(delta, _DELTA, self._context.losses)
            else:  # fragments of `thinking_blocks` have no proofs
                record_unknown_details(delta, _DELTA, self._context.losses)
            return
        if self.kind != "reasoning":  # details without a text
            self._start("reasoning", out)
        if self._details is None:
            self._details, self._reasoning = ReasoningDetails(), None
        for detail in details:
            self.budget.take(size_of(detail))
            self._details.add(detail)

    def add_signature(self, call_id: str, extra: Json) -> None:
        """Keep the signed `extra_content` of a call, or of the message itself with the key `OF_MESSAGE`."""
        self.budget.take(len(signature_of(extra)))
        if self.signatures is None:
            self.signatures = {}
        self.signatures[call_id] = extra

    def write_signatures(self, out: list[Event]) -> None:
        """Write a reasoning block without text for the signatures that are not written, if there are any.

        Such a block is what clients of all other dialects send back. It precedes its call if the call has not started.
        """
        if self.signatures:
            self.signature_blocks += 1
            self.index = self.blocks.start(EXTRA_KEY, "reasoning")
            out.append(BlockStart(self.index, "reasoning"))
            self._keep(out)
            out.append(BlockEnd(self.blocks.end(EXTRA_KEY)))

    def add_images(self, images: Any, out: list[Event]) -> None:
        """Add the pictures of a delta, each as a block (OpenRouter, LiteLLM)."""
        for payload in read_images(images, _DELTA, self._context):
            self.before_start("an image", _DELTA, out)
            index = self.blocks.start(IMAGE, "opaque")
            out.append(BlockStart(index, "opaque", name=IMAGE, code=LossCode.VENDOR_BLOCK))
            out.append(Opaque(index, DIALECT, "block", payload))
            out.append(BlockEnd(self.blocks.end(IMAGE)))

    def on_template(self) -> RunCallback | None:
        """See `StreamReader.follow`, for the open block."""
        if self._details is not None:  # a text may be part of a detail, which has to be kept
            return None
        return ignore_run if self._reasoning is None else self._record_run

    def _record_run(self, text: str, pieces: list[str]) -> bool:
        assert self._reasoning is not None
        if not self.budget.fits(len(text)):
            return False
        self._reasoning.append(text)
        return True

    def before_start(self, content: str, at: Path, out: list[Event]) -> None:
        """Close the blocks that end when another one starts. `content` names that one in the loss after the finish."""
        self.close(out)
        if self.phase == "FINISHED":
            self._context.losses.add_once(LossCode.REPLY_REPAIRED, at, f"{content} arrived after the finish_reason")
        if self.early_ends is not None:
            self.early_ends.before_start(out)
        if self.signatures:
            self.write_signatures(out)

    def _start(self, kind: BlockKind, out: list[Event]) -> None:
        self.before_start("content", _DELTA, out)
        self.kind = kind
        self.index = self.blocks.start(kind, kind)
        out.append(BlockStart(self.index, kind))
        if kind == "refusal":
            self.refused = True
        elif kind != "reasoning":
            self.shown = True
        elif self._context.envelope is not None and self._context.profile.reasoning_replay:
            self._reasoning = []

    def close(self, out: list[Event], *, complete: bool = True) -> None:
        """Close the open block, if there is one."""
        if self.kind is None:
            return
        if self.kind == "reasoning":
            self._keep(out)
        out.append(BlockEnd(self.blocks.end(self.kind), complete))
        self.kind = None

    def _keep(self, out: list[Event]) -> None:
        """Write what the server wants back of the open reasoning block."""
        form, signatures = "reasoning_content", self.signatures
        block: Json = {}
        if self._details is not None:
            form, block = DETAILS_KEY, {DETAILS_KEY: self._details.complete()}
        elif self._reasoning is not None:
            block = {form: "".join(self._reasoning)}
        if signatures:
            form, block[EXTRA_KEY] = EXTRA_KEY, signatures
        if block:
            proof = signature_of(next(iter(signatures.values()))) if signatures else None
            out.append(Opaque(self.index, DIALECT, form, proof, block))
        self._reasoning = self._details = self.signatures = None

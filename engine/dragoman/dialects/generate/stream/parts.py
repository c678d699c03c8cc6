"""The parts of a reply as blocks: texts, reasoning with its signatures, calls, pictures.

A chunk's parts are new parts, and their texts go on where those of the chunk before ended. A block of text stays open
until another part or the end of the reply, as its sources come last.

Calls, and what follows them, are held until the `finishReason` is known: a client may run a call as soon as it has it,
and one of a reply that is withheld, malformed or cut must not run (mapping §14). Calls come whole and last, so a client
waits for the next chunk.
"""

from __future__ import annotations

from typing import Any

from dragoman.canonical.events import IMAGE, Annotation, BlockEnd, BlockKind, BlockStart, Delta, Event, Logprobs, Opaque
from dragoman.canonical.request import Json
from dragoman.dialects.generate.grounding import Grounding
from dragoman.dialects.generate.images import read_image
from dragoman.dialects.generate.reply_fields import CANDIDATE_AT, DROPPED, PART, PARTS_AT
from dragoman.dialects.generate.signatures import END, REASONING, block_of, signature_of
from dragoman.dialects.generate.stop_and_usage import DIALECT
from dragoman.dialects.generate.stream.read_calls import CallReader
from dragoman.dialects.shared.block_index import BlockMap
from dragoman.dialects.shared.json_fields import kind_of, record_unknown
from dragoman.dialects.shared.streamed_arguments import ReplyBudget
from dragoman.errors import UpstreamProtocolError
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.wire.json_codec import dumps


class PartReader:
    """Reads the parts of one reply."""

    __slots__ = (
        "_budget",
        "_context",
        "_end_signature",
        "_held",
        "_held_size",
        "_runs",
        "_texts",
        "blocks",
        "calls",
        "index",
        "kind",
        "left_out",
        "shown",
    )

    def __init__(self, context: ReplyContext) -> None:
        self._context = context
        self._budget = ReplyBudget(context.limits)
        self.blocks = BlockMap(context.limits)
        self.calls = CallReader(self.blocks, self._budget, context)
        self.kind: BlockKind | None = None
        """The kind of the open block of text or reasoning, or None."""
        self.index = 0
        """Its index."""
        self._texts: list[str] = []
        """Its texts."""
        self._end_signature = ""
        """The signature of a text that may go on, or without reasoning before it. It follows the text: clients that
        requested no reasoning expect the text first."""
        self._held: list[Json] = []
        """The first call and the parts after it, while it is not known if calls run."""
        self._held_size = 0
        """Their size in bytes, which is taken from the budget meanwhile."""
        self._runs: bool | None = None
        """True if the calls of the reply run; None while that is not known."""
        self.shown = False
        """True once there is anything else than reasoning."""
        self.left_out = ""
        """The kind of a part that no client of another dialect has, if there was one."""

    def read(self, part: Any, reply_id: str, out: list[Event]) -> None:
        """Read one part, or hold it. Raises UpstreamProtocolError, LimitExceeded."""
        if type(part) is not dict:
            if part is not None:
                raise UpstreamProtocolError(f"upstream sent a part that is {kind_of(part)}")
            return
        if not PART.issuperset(part):
            record_unknown(part, PART, PARTS_AT, self._context.losses)
        if self._runs is None and (self._held or part.get("functionCall")):
            size = len(dumps(part))
            self._budget.take(size)
            self._held_size += size
            self._held.append(part)
        else:
            self._read(part, reply_id, out)

    def release(self, reply_id: str, out: list[Event], *, runs: bool) -> None:
        """Read the parts that are held. Without `runs`, calls are left out, also later ones."""
        held, self._held, self._runs = self._held, [], runs
        self._budget.left += self._held_size
        self._held_size = 0
        for part in held:
            self._read(part, reply_id, out)

    def _read(self, part: Json, reply_id: str, out: list[Event]) -> None:
        if self.calls.continues(part):
            self.calls.read(part["functionCall"], reply_id, out)
            return
        signature, text = signature_of(part), part.get("text")
        if part.get("functionCall"):  # an empty one ends a call that was begun
            if not self._runs:
                self._context.losses.add_once(LossCode.CALL_CUT, PARTS_AT, "the reply was withheld with it")
                return
            self._before("functionCall", signature, out)
            self.calls.read(part["functionCall"], reply_id, out)
            self.shown = True
        elif text or part.get("thought") or (signature and not part.get("inlineData")):
            if text and type(text) is not str:
                raise UpstreamProtocolError(f"upstream sent a text that is {kind_of(text)}")
            if text or signature:
                self.calls.end(out)
                (self._reasoning if part.get("thought") in (True, "true") else self._text)(text or "", signature, out)
        if part.get("inlineData"):
            self._media(part["inlineData"], signature, out)
        for key in DROPPED:
            if part.get(key):
                self._leave_out(key, part, out)

    def add_text(self, text: str, pieces: list[str]) -> bool:
        """Record more texts of the open block. Return False, and record none, if that would exceed the limit."""
        budget, size = self._budget, len(text)  # as `fits`, without a call for each chunk
        if size > budget.left:
            return False
        budget.left -= size
        self._texts.append(text)
        return True

    # --- texts ---------------------------------------------------------------------------------------------------

    def _text(self, text: str, signature: str, out: list[Event]) -> None:
        if text:
            if self.kind != "text":
                if signature and self.kind == "reasoning":
                    self._sign("text", signature, out)
                    signature = ""
                self._open("text", out)
            self._add(text, out)
            self.shown = True
        if signature:
            if self._end_signature:
                self._context.losses.add_once(LossCode.REASONING_SIGNATURE, PARTS_AT, "the last one was kept")
            self._end_signature = signature

    def _reasoning(self, text: str, signature: str, out: list[Event]) -> None:
        if text and self.kind != "reasoning":
            self._open("reasoning", out)
        if text:
            self._add(text, out)
        if signature:
            self._sign(REASONING, signature, out)

    def _add(self, text: str, out: list[Event]) -> None:
        self._budget.take(len(text))
        self._texts.append(text)
        out.append(Delta(self.index, text))

    def _open(self, kind: BlockKind, out: list[Event]) -> None:
        self._close(out)
        self.index = self.blocks.start(kind, kind)
        self.kind = kind
        out.append(BlockStart(self.index, kind))

    def _close(self, out: list[Event], *, complete: bool = True) -> None:
        """End the open block, and the signature of its text."""
        kind, self.kind = self.kind, None
        if kind == "reasoning":
            self._write_proof("", "", out)
        if kind is not None:
            self._texts.clear()
            out.append(BlockEnd(self.blocks.end(kind), complete))
        if self._end_signature:
            signature, self._end_signature = self._end_signature, ""
            self._sign(END, signature, out)

    # --- signatures ----------------------------------------------------------------------------------------------

    def _before(self, kind: str, signature: str, out: list[Event]) -> None:
        """End what is open before a part of this kind, and write its signature."""
        self.calls.end(out)
        if signature:
            self._sign(kind, signature, out)
        else:
            self._close(out)

    def _sign(self, kind: str, signature: str, out: list[Event]) -> None:
        """Write the signature of a part of this kind: at the end of the reasoning before it, else as a block alone."""
        if self.kind != "reasoning":
            self._open("reasoning", out)
        self._budget.take(len(signature))
        self._write_proof(kind, signature, out)
        self._texts.clear()
        self.kind = None
        out.append(BlockEnd(self.blocks.end("reasoning")))

    def _write_proof(self, kind: str, signature: str, out: list[Event]) -> None:
        if self._context.envelope is not None:
            # Reasoning without a signature too, so that it comes back as Gemini's own.
            block = block_of(kind, "".join(self._texts), signature)
            out.append(Opaque(self.index, DIALECT, "signature", signature, block))
        elif signature:
            out.append(Opaque(self.index, DIALECT, "signature", signature))

    # --- media and the rest ----------------------------------------------------------------------------------------

    def _media(self, data: Any, signature: str, out: list[Event]) -> None:
        image = read_image(data)
        if image is None:
            return self._leave_out("inlineData", {"inlineData": data}, out)
        self._before("inlineData", signature, out)
        self._budget.take(len(image["image_url"]["url"]))
        self._write_opaque(IMAGE, image, out)
        self.shown = True

    def _leave_out(self, kind: str, part: Json, out: list[Event]) -> None:
        """Write a part that no other dialect has. Writers leave it out and record it."""
        self.left_out = kind
        self._before(kind, "", out)
        self._write_opaque(kind, part, out)

    def _write_opaque(self, name: str, payload: Json, out: list[Event]) -> None:
        index = self.blocks.start(name, "opaque")
        out.append(BlockStart(index, "opaque", name=name, code=LossCode.VENDOR_BLOCK))
        out.append(Opaque(index, DIALECT, "block", payload))
        out.append(BlockEnd(self.blocks.end(name)))

    def add_logprobs(self, tokens: list[Json], out: list[Event]) -> None:
        """Add the log probabilities of the latest text."""
        if self.kind == "text":
            out.append(Logprobs(self.index, tokens))
        else:
            self._context.losses.add_once(
                LossCode.UNKNOWN_FIELD, (*CANDIDATE_AT, "logprobsResult"), "sent for something other than text"
            )

    def refuse(self, text: str, out: list[Event]) -> None:
        """Write a refusal with this text."""
        self._open("refusal", out)
        self._add(text, out)
        self.shown = True

    def finish(self, grounding: Grounding | None, out: list[Event], *, complete: bool) -> None:
        """End all blocks. `complete` is False if the reply was cut.

        Raises UpstreamProtocolError for a reply that holds only what no client of another dialect has.
        """
        if self.left_out and not self.shown:
            raise UpstreamProtocolError(f"upstream reply holds {self.left_out} only")
        if grounding is not None and grounding:
            if self.kind == "text":
                out += [Annotation(self.index, each) for each in grounding.citations("".join(self._texts))]
            else:
                self._context.losses.add_once(
                    LossCode.CITATIONS, (*CANDIDATE_AT, "groundingMetadata"), "there was no open text to cite them"
                )
        if complete:
            self.calls.end(out)
        else:
            self.calls.cut(out)
        self._close(out, complete=complete)

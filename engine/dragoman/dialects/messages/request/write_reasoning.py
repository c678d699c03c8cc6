"""Writes the reasoning of earlier turns as thinking blocks (mapping §5.2 to §5.4).

The upstream's own reasoning is sent back if the profile's `thinking_replay` allows it. Any other is dropped, or becomes
plain text with the knob `demote_reasoning`.
"""

from __future__ import annotations

from dragoman.canonical.request import Json, Reasoning
from dragoman.dialects.messages.stop_and_usage import DIALECT
from dragoman.errors import Path
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.reasoning.envelope import own_block


def is_blank(text: str) -> bool:
    """True if the text is empty or white space. The API rejects such text blocks."""
    return not text or text.isspace()


class ReasoningWriter:
    """Writes the reasoning of one request.

    Set `replay` to False if the prefix was edited: signatures are then invalid, and signed thinking is dropped.
    """

    __slots__ = ("_demotes", "_family", "_losses", "_policy", "replay")

    def __init__(self, profile: Profile, knobs: Knobs, losses: Losses) -> None:
        self._policy = profile.thinking_replay
        self._family = profile.family or DIALECT
        self._demotes = knobs.demote_reasoning == "on"
        self._losses = losses
        self.replay = True

    def write(self, part: Reasoning) -> Json | None:
        """Return the block to send, or None."""
        own = own_block(part, DIALECT, self._family)
        if own is not None:
            return self._write_own(part, own)
        if part.family is None:
            return self.write_foreign(part.text, part.at, part.proof)
        return self._drop(part, LossCode.REASONING_FOREIGN)

    def write_foreign(self, text: str, at: Path, proof: str | None) -> Json | None:
        """Return the block to send, or None, for reasoning of another dialect that was not in an envelope."""
        if not text or text.isspace():
            if proof is None:
                return None
        elif self._policy == "own_required":
            return {"type": "thinking", "thinking": text, "signature": ""}
        elif self._demotes:
            return self._demote_or_drop(
                text, at, LossCode.REASONING_UNSIGNED if proof is None else LossCode.REASONING_FOREIGN
            )
        self._losses.add(LossCode.REASONING_UNSIGNED if proof is None else LossCode.REASONING_FOREIGN, at)
        return None

    def _write_own(self, part: Reasoning, native: Json) -> Json | None:
        policy = self._policy
        if policy == "drop":
            return self._drop(part, LossCode.REASONING_ENCRYPTED if part.redacted else LossCode.REASONING_FOREIGN)
        if policy == "verify":
            # An envelope proves nothing: blocks of servers that do not sign are enveloped too.
            if not (native.get("signature") or native.get("data")):
                return self._drop(part, LossCode.REASONING_UNSIGNED)
            if not self.replay:
                return self._drop(part, LossCode.THINKING_INVALIDATED)
        if "cache_control" in native:
            # Thinking blocks have no such field; with it the check of the signature fails.
            return {key: value for key, value in native.items() if key != "cache_control"}
        return native

    def _drop(self, part: Reasoning, code: LossCode) -> Json | None:
        if part.proof is None and part.family is None and is_blank(part.text):
            return None
        return self._demote_or_drop(part.text, part.at, code)

    def _demote_or_drop(self, text: str, at: Path, code: LossCode) -> Json | None:
        if self._demotes and not is_blank(text):
            self._losses.add(code, at, "became plain text")
            return {"type": "text", "text": text}
        self._losses.add(code, at)
        return None

"""Writes the reasoning of earlier turns as thinking blocks (mapping §5.2 to §5.4).

The upstream's own reasoning is sent back if the profile's `thinking_replay` allows it. Any other is dropped, or becomes
plain text with the knob `demote_reasoning`.
"""

from __future__ import annotations

from dragoman.canonical.request import Json
from dragoman.canonical.turn import ReasoningFields
from dragoman.dialects.messages.stop_and_usage import DIALECT
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.reasoning.replay import Fate, ReasoningRules


def is_blank(text: str) -> bool:
    """True if the text is empty or white space. The API rejects such text blocks."""
    return not text or text.isspace()


class ReasoningWriter:
    """Writes the reasoning of one request.

    Set `replay` to False if the prefix was edited: signatures are then invalid, and signed thinking is dropped.
    """

    def __init__(self, profile: Profile, knobs: Knobs, losses: Losses) -> None:
        self._policy = profile.thinking_replay
        self._rules = ReasoningRules(DIALECT, profile, knobs, losses, replays=self._policy == "own_required")
        self.replay = True

    def write(self, fields: ReasoningFields) -> Json | None:
        """Return the block to send, or None."""
        fate: Fate = self._rules.decide(fields)
        own = fields[5]
        if fate == "own" and own is not None:
            if (code := self._refusal(fields, own)) is None:
                if "cache_control" in own:
                    # Thinking blocks have no such field; with it the check of the signature fails.
                    return {key: value for key, value in own.items() if key != "cache_control"}
                return own
            text, _, _, proof, _, _, family = fields
            if proof is None and family is None and is_blank(text):
                return None
            fate = self._rules.leave_out(fields, code)
        if fate == "text":
            return {"type": "thinking", "thinking": fields[0], "signature": ""}
        return {"type": "text", "text": fields[0]} if fate == "plain" else None

    def _refusal(self, fields: ReasoningFields, own: Json) -> LossCode | None:
        """Return why the upstream must not get its own block back, or None if it may."""
        if self._policy == "drop":
            return LossCode.REASONING_ENCRYPTED if fields[4] else LossCode.REASONING_FOREIGN
        if self._policy == "verify":
            # An envelope proves nothing: blocks of servers that do not sign are enveloped too.
            if not (own.get("signature") or own.get("data")):
                return LossCode.REASONING_UNSIGNED
            if not self.replay:
                return LossCode.THINKING_INVALIDATED
        return None

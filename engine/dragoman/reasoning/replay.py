"""Decides what becomes of the reasoning of earlier turns: one table for all writers (mapping §5.2, §5.3).

An upstream gets its own reasoning back as the block that it made. Any other is sent in the dialect's field for
reasoning if the upstream wants that, becomes plain text with the knob `demote_reasoning`, or is dropped.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from dragoman.canonical.turn import ReasoningFields
from dragoman.dialects import FACTS
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile

Fate = Literal["own", "text", "plain", "dropped"]
"""`own`: the original block goes back; `text`: its text does, as reasoning; `plain`: its text does, as the assistant's;
`dropped`: nothing does."""


class _Codes(NamedTuple):
    """The codes of the losses by kind of reasoning."""

    enveloped: LossCode
    """Of another upstream, from an envelope."""
    encrypted: LossCode
    """A proof without a text, of another dialect."""
    signed: LossCode
    """A text with a proof, of another dialect."""
    unsigned: LossCode
    """A text without a proof, of another dialect."""
    replayed: LossCode | None = None
    """The proof of a text that is sent as reasoning."""


_FOREIGN: Final = LossCode.REASONING_FOREIGN
_CODES: Final = _Codes(_FOREIGN, _FOREIGN, _FOREIGN, LossCode.REASONING_UNSIGNED)
_WITHOUT_SIGNATURE: Final = _Codes(
    _FOREIGN, LossCode.REASONING_ENCRYPTED, _FOREIGN, _FOREIGN, LossCode.REASONING_SIGNATURE
)
"""The codes for an upstream whose dialect has a field for the text, but none for its signature."""


class ReasoningRules:
    """The rules of one request.

    Args:
        dialect: the dialect of the upstream.
        profile: the upstream's abilities.
        knobs: the operator's choices.
        losses: where reasoning that is not sent is recorded.
        replays: True if the upstream wants reasoning of other dialects in its own field.
    """

    __slots__ = ("_codes", "_demotes", "_dialect", "_family", "_losses", "_no_blanks", "_replays")

    def __init__(self, dialect: str, profile: Profile, knobs: Knobs, losses: Losses, *, replays: bool = False) -> None:
        self._dialect, self._family = dialect, profile.family or dialect
        facts = FACTS[dialect]
        self._codes, self._replays = _WITHOUT_SIGNATURE if facts.loses_signatures else _CODES, replays
        self._demotes = knobs.demote_reasoning == "on"
        self._losses = losses
        self._no_blanks = not facts.blank_texts

    def decide(self, fields: ReasoningFields) -> Fate:
        """Decide about one block, and record its loss."""
        text, at, origin, proof, redacted, native, family = fields
        # The condition of `own_block`.
        if native is not None and origin == self._dialect and (family is None or family == self._family):
            return "own"
        if family is not None:
            code = self._codes.enveloped
        elif text and not (self._no_blanks and text.isspace()):
            if self._replays:
                if proof and self._codes.replayed is not None:
                    self._losses.add(self._codes.replayed, at)
                return "text"
            code = self._codes.signed if proof else self._codes.unsigned
        elif proof or redacted:
            code = self._codes.encrypted
        else:
            return "dropped"  # nothing is lost
        if self._demotes:
            return self.leave_out(fields, code)
        self._losses.add(code, at)
        return "dropped"

    def leave_out(self, fields: ReasoningFields, code: LossCode) -> Fate:
        """Record the loss of a block that is not sent. Its text may be sent as plain text."""
        text, at = fields[:2]
        if self._demotes and text and not (self._no_blanks and text.isspace()):
            self._losses.add(code, at, "became plain text")
            return "plain"
        self._losses.add(code, at)
        return "dropped"

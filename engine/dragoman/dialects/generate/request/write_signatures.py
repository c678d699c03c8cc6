"""Puts the signatures of earlier turns back into the parts that they came in.

The text of reasoning is not sent back, only its signatures are: Google's own client leaves it out too.
"""

from __future__ import annotations

from dragoman.canonical.request import Json
from dragoman.canonical.turn import ReasoningFields
from dragoman.dialects.generate.signatures import END, KEY, KINDS, REASONING, SKIP, UNSIGNED, read_block
from dragoman.dialects.generate.stop_and_usage import DIALECT
from dragoman.errors import Path
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.reasoning.replay import ReasoningRules


class SignatureWriter:
    """Writes the reasoning of one request, turn by turn."""

    def __init__(self, profile: Profile, knobs: Knobs, losses: Losses) -> None:
        self._rules = ReasoningRules(DIALECT, profile, knobs, losses)
        self._required = profile.signed_calls
        self._losses = losses
        self.pending: dict[str, tuple[str, Path]] = {}
        """Kind of a part → the signature for the next one of that kind in the turn, and its place in the client's."""

    def reasoning(self, fields: ReasoningFields) -> Json | None:
        """Read the reasoning before a part. Return the part that is sent for it, if there is one."""
        fate = self._rules.decide(fields)
        text, at, _, _, _, native, _ = fields
        if fate == "plain" or fate == "text":
            return {"text": text}
        if fate != "own" or native is None:
            return None
        kind, shown, signature = read_block(native)
        if kind == END:
            return {"text": "", KEY: signature}
        if kind == REASONING:
            return {"text": shown, "thought": True, KEY: signature}
        if kind:
            self._drop(kind)
            self.pending[kind] = signature, at
        return None

    def sign(self, kind: str, part: Json) -> Json:
        """Return a part of this kind with the signature that precedes it, if one does."""
        if (found := self.pending.pop(kind, None)) is not None:
            part[KEY] = found[0]
        return part

    def end_turn(self) -> None:
        """Record the signatures whose parts are not there."""
        for kind in KINDS:
            self._drop(kind)

    def _drop(self, kind: str) -> None:
        if (found := self.pending.pop(kind, None)) is not None:
            self._losses.add(LossCode.THINKING_INVALIDATED, found[1], f"its {kind} is not in the turn")

    def fill(self, call: Json, at: Path) -> None:
        """Give the first call of a step, if it is unsigned, the value that Google documents for other models' calls.

        Steps of earlier turns get it too, though Google does not check them, so that a longer history begins with the
        bytes of a shorter one.
        """
        if self._required and KEY not in call:
            call[KEY] = SKIP
            self._losses.add(LossCode.REASONING_FILLED, at, UNSIGNED)

"""Opaque reasoning in a Responses reply: whatever is proof goes into `encrypted_content` (mapping §5.2, §5.3)."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.request import Json
from dragoman.dialects.responses.wire import DIALECT
from dragoman.losses import LossCode
from dragoman.reasoning.envelope import Envelope


def write_encrypted_content(origin: str, native: Json | None, own: Any, envelope: Envelope | None) -> str | None:
    """The `encrypted_content` of some reasoning, or None if there is none that the client could bring back.

    The dialect's own (`own`) goes as it is; of another one's the whole block goes into an envelope, as its bare
    signature could not be told apart later.
    """
    if origin == DIALECT:
        return own if type(own) is str and own else None
    if native is not None and envelope is not None:
        return envelope.wrap(origin, native)
    return None


def loss_code(origin: str) -> LossCode:
    """The loss of a proof that is left out. Unlike a signature, encrypted content is the reasoning itself."""
    return LossCode.REASONING_SIGNATURE if origin == "messages" else LossCode.REASONING_ENCRYPTED

"""The `encrypted_content` of reasoning items in a Responses reply (mapping §5.2, §5.3)."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.request import Json
from dragoman.dialects.responses.stop_and_usage import DIALECT
from dragoman.losses import LossCode
from dragoman.reasoning.envelope import Envelope


def write_encrypted_content(origin: str, native: Json | None, own: Any, envelope: Envelope | None) -> str | None:
    """Return the `encrypted_content` of reasoning, or None without one that the client could send back.

    The encrypted content of this dialect (`own`) is passed on. Of another dialect the complete block (`native`) is
    wrapped in an envelope, because its signature alone could not be recognized later.
    """
    if origin == DIALECT:
        return own if type(own) is str and own else None
    if native is not None and envelope is not None:
        return envelope.wrap(origin, native)
    return None


def loss_code(origin: str) -> LossCode:
    """Return the loss of proof of this origin. Unlike a signature, encrypted content is the reasoning itself."""
    return LossCode.REASONING_SIGNATURE if origin == "messages" else LossCode.REASONING_ENCRYPTED

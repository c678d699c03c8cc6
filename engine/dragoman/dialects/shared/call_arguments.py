"""The arguments of calls, for dialects that send a JSON object where others send its text."""

from __future__ import annotations

from typing import Any, Final

from dragoman.dialects.shared.json_fields import INVALID_ARGUMENTS, parse_object
from dragoman.errors import Path
from dragoman.losses import LossCode, Losses
from dragoman.wire.json_codec import embed

ARGUMENTS_AT: Final[dict[str, Path]] = {"chat": ("function", "arguments"), "messages": ("input",)}
"""Client's dialect → path of the arguments in a call, for loss rows; `("arguments",)` in the others."""


def embed_arguments(text: str, at: Path, losses: Losses) -> Any:
    """Return the object for arguments that orjson does not parse as one: they are empty, need the fallback parser, or
    are broken.

    Broken ones are sent as a text, which shows the model what it wrote; they never become `{}`. `at` is their path.
    """
    if text.strip() in ("", "[]"):  # PHP writes an empty object so
        return {}
    if parse_object(text) is not None:
        return embed(text)
    losses.add(LossCode.CALL_ARGUMENTS, at, "sent as `invalid_arguments`")
    return {INVALID_ARGUMENTS: text}

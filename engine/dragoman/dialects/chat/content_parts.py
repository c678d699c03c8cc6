"""Content arrays in replies and deltas of compatible servers. OpenAI sends `content` as one string."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dragoman.canonical.events import BlockKind
from dragoman.canonical.request import Json
from dragoman.dialects.shared.json_fields import record_unknown
from dragoman.errors import Path
from dragoman.losses import LossCode, Losses

_PARTS: dict[str, BlockKind] = {"text": "text", "refusal": "refusal", "thinking": "reasoning"}
_KEYS = frozenset(("type", "text", "refusal", "thinking", "closed"))
_REASONING_KEYS = frozenset(("type", "text"))


def read_content_parts(content: list[Any] | Json, at: Path, losses: Losses) -> list[tuple[BlockKind, str]]:
    """Return kind and text of each part, or of the only one. Parts of other kinds are recorded as lost.

    `at` is the path of the message or delta that has the content.
    """
    read: list[tuple[BlockKind, str]] = []
    for number, part in enumerate(content if type(content) is list else [content]):
        if not part:
            continue
        if type(part) is str:
            read.append(("text", part))
            continue
        kind = part.get("type") if type(part) is dict else None
        text = part.get(kind) if type(kind) is str else None
        if type(text) is list and kind == "thinking":  # Mistral
            text = "".join(_reasoning_texts(text, (*at, "content", "thinking"), losses))
        if type(text) is str and kind in _PARTS:
            if not _KEYS.issuperset(part):
                record_unknown(part, _KEYS, (*at, "content"), losses)
            read.append((_PARTS[kind], text))
        else:
            losses.add(LossCode.UNKNOWN_EVENT, (*at, "content", number), f"content part of type {kind!r} left out")
    return read


def _reasoning_texts(parts: list[Any], at: Path, losses: Losses) -> Iterator[str]:
    """Yield the texts of a part that is reasoning. Its other parts are citations of the reasoning (Mistral)."""
    for part in parts:
        if type(part) is dict:
            text = part.get("text")
            record_unknown(part, _REASONING_KEYS, at, losses)
            if type(text) is str:
                yield text

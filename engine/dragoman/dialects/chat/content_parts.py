"""Content arrays in replies and deltas of compatible servers. OpenAI sends `content` as one string."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.events import BlockKind
from dragoman.dialects.shared.json_fields import record_unknown
from dragoman.errors import Path
from dragoman.losses import LossCode, Losses

_PARTS = {"text": BlockKind.TEXT, "refusal": BlockKind.REFUSAL, "thinking": BlockKind.REASONING}
_KEYS = frozenset(("type", "text", "refusal", "thinking"))


def read_content_parts(content: list[Any], at: Path, losses: Losses) -> list[tuple[BlockKind, str]]:
    """Returns kind and text of each part. Parts of other kinds are recorded as lost.

    `at` is the path of the message or delta that has the content.
    """
    read: list[tuple[BlockKind, str]] = []
    for number, part in enumerate(content):
        if not part:
            continue
        kind = part.get("type") if type(part) is dict else None
        text = part.get(kind) if type(kind) is str else None
        if type(text) is list and kind == "thinking":  # Mistral
            text = "".join(t for p in text if type(p) is dict and type(t := p.get("text")) is str)
        if type(text) is str and kind in _PARTS:
            if not _KEYS.issuperset(part):
                record_unknown(part, _KEYS, (*at, "content"), losses)
            read.append((_PARTS[kind], text))
        else:
            losses.add(LossCode.UNKNOWN_EVENT, (*at, "content", number), f"content part of type {kind!r} left out")
    return read

"""Reasoning items of a request to the fields of canonical reasoning (mapping §5.2, §5.3)."""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.request import Json
from dragoman.canonical.turn import ReasoningFields
from dragoman.dialects.responses.stop_and_usage import DIALECT
from dragoman.dialects.shared.json_fields import note_unknown, one_of, optional, required, typed
from dragoman.errors import Path
from dragoman.losses import Losses
from dragoman.reasoning.envelope import unwrap

_KEYS: Final = frozenset({"type", "id", "summary", "content", "encrypted_content", "status"})


def read_reasoning_item(item: Json, at: Path, losses: Losses) -> ReasoningFields:
    """Return the fields of `Reasoning` of an item, or of the original block if the item has an envelope."""
    content, summary, proof = item.get("content"), item.get("summary"), item.get("encrypted_content")
    text = "" if content is None else _texts(content, "reasoning_text", at, "content")
    if not text and summary is not None:
        text = _texts(summary, "summary_text", at, "summary")
    if type(proof) is not str:
        proof = optional(item, "encrypted_content", str, at)
    if not _KEYS.issuperset(item):
        note_unknown(item, _KEYS, at, losses)
    # Every envelope contains a dot, and no provider's encrypted content does.
    envelope = unwrap(proof) if proof and "." in proof else None
    if envelope is None:
        return text, at, DIALECT, proof or None, False, item, None
    dialect, family, _, original = envelope
    return text, at, dialect, proof, False, original, family


def _texts(parts: Any, kind: str, at: Path, key: str) -> str:
    """Return the texts of the parts at `at` + `key` as paragraphs. `kind` is the required type of the parts."""
    if type(parts) is list and len(parts) == 1:  # nearly always; the loop below also builds the paths that errors need
        part = parts[0]
        if type(part) is dict and part.get("type") == kind and type(text := part.get("text")) is str:
            return text
    texts: list[str] = []
    for index, part in enumerate(typed(parts, list, (*at, key))):
        where = (*at, key, index)
        one_of(typed(part, dict, where), "type", (kind,), where)
        texts.append(required(part, "text", str, where))
    return "\n\n".join(filter(None, texts))

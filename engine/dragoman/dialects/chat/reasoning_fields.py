"""Reasoning in the extension fields of Chat messages and deltas (mapping §5.1).

A proof is a signature or encrypted data, by which the provider recognizes its own reasoning.
"""

from __future__ import annotations

from typing import Any

from dragoman.canonical.request import Json
from dragoman.dialects.shared.json_fields import record_unknown
from dragoman.errors import Path
from dragoman.losses import LossCode, Losses

_DETAIL = frozenset(("type", "text", "summary", "data", "signature", "index", "id", "format", "thinking"))
"""The keys of a detail, and of a `thinking` block."""
_READ = {"reasoning_content": str, "reasoning": str, "reasoning_details": list, "thinking_blocks": list}
"""The extension fields, and the type of each."""


def reasoning_text(message: Json) -> str:
    """Return the reasoning of a message or delta, from the first extension field that has any."""
    for key in ("reasoning_content", "reasoning"):
        text = message.get(key)
        if text and type(text) is str:
            return text
    details = message.get("reasoning_details")
    if type(details) is list:
        texts = (d.get("text") or d.get("summary") for d in details if type(d) is dict)
        return "".join(text for text in texts if type(text) is str)
    blocks = message.get("thinking_blocks")
    if type(blocks) is not list:
        return ""
    return "".join(text for d in blocks if type(d) is dict and type(text := d.get("thinking")) is str)


def record_unread(message: Json, at: Path, losses: Losses) -> None:
    """Record the reasoning of a message or delta that no rule reads: fields of other types than the vendors' own."""
    for key, kind in _READ.items():
        value = message.get(key)
        if value and type(value) is not kind:
            losses.add_unknown((*at, key))


def record_dropped_proofs(message: Json, at: Path, losses: Losses) -> None:
    """Record the proofs of a message or delta as lost: no other dialect has a field that names their provider."""
    details = message.get("reasoning_details")
    if type(details) is list:
        path = (*at, "reasoning_details")
        if any(type(d) is dict and d.get("data") for d in details):
            losses.add(LossCode.REASONING_ENCRYPTED, path)
        if any(type(d) is dict and d.get("signature") for d in details):
            losses.add(LossCode.REASONING_SIGNATURE, path)
        _record_unknown(details, path, losses)
    if blocks := message.get("thinking_blocks"):
        losses.add(LossCode.REASONING_SIGNATURE, (*at, "thinking_blocks"))
        if type(blocks) is list:
            _record_unknown(blocks, (*at, "thinking_blocks"), losses)


def _record_unknown(details: list[Any], at: Path, losses: Losses) -> None:
    for detail in details:
        if type(detail) is dict and not _DETAIL.issuperset(detail):
            record_unknown(detail, _DETAIL, at, losses)

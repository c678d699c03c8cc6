"""Reasoning in the extension fields of Chat messages and deltas (mapping §5.1).

A proof is a signature or encrypted data, by which the provider recognizes its own reasoning.
"""

from __future__ import annotations

from dragoman.canonical.request import Json
from dragoman.dialects.shared.json_fields import record_unknown
from dragoman.errors import Path
from dragoman.losses import LossCode, Losses

_DETAIL = frozenset(("type", "text", "summary", "data", "signature", "index", "id", "format", "thinking"))
"""The keys of a detail, and of a `thinking` block."""
_LISTS = ("reasoning_details", "thinking_blocks")
_PLAIN = ("reasoning_content", "reasoning", "thinking", "reasoning_text")
"""The fields that hold a text only: of most servers, of OpenRouter and newer vLLM, of LM Studio and Ollama's relays, of
GitHub Copilot."""
_READ = {"reasoning_content": str, "reasoning": str, "reasoning_details": list, "thinking_blocks": list}
"""The extension fields, and the type of each."""


def plain_text(message: Json) -> str:
    """Return the reasoning of a message or delta in one of the fields that hold a text only."""
    for key in _PLAIN:
        text = message.get(key)
        if text and type(text) is str:
            return text
    return ""


def is_signed(message: Json) -> bool:
    """True if a message or delta has a detail, or a `thinking` block, with a signature."""
    for key in _LISTS:
        entries = message.get(key)
        if type(entries) is list and any(type(entry) is dict and entry.get("signature") for entry in entries):
            return True
    return False


def reasoning_text(message: Json) -> str:
    """Return the reasoning of a message or delta, from the first extension field that has any."""
    if plain := plain_text(message):
        return plain
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
        if (unread := message.get(key)) and type(unread) is not kind:
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
    if message.get("thinking_blocks"):
        losses.add(LossCode.REASONING_SIGNATURE, (*at, "thinking_blocks"))
    record_unknown_details(message, at, losses)


def record_unknown_details(message: Json, at: Path, losses: Losses) -> None:
    """Record the unknown keys of the details and `thinking` blocks of a message or delta."""
    for key in _LISTS:
        details = message.get(key)
        if type(details) is not list:
            continue
        for detail in details:
            if type(detail) is dict and not _DETAIL.issuperset(detail):
                record_unknown(detail, _DETAIL, (*at, key), losses)

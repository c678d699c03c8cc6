"""Restores envelopes in a request that is passed through to a Responses upstream (mapping §5.2, §1.7).

Reasoning returns to its own family. A history that was compacted here becomes messages again, as only Dragoman can read
its item.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.canonical.request import Json
from dragoman.dialects.responses.stop_and_usage import DIALECT
from dragoman.losses import LossCode, Losses
from dragoman.profiles.profile import Profile
from dragoman.reasoning.compacted_history import expand, unwrap_history
from dragoman.reasoning.envelope import unwrap


def restore_reasoning(body: Json, profile: Profile, losses: Losses) -> bool:
    """Restore the reasoning items of the upstream's family in place, and drop those of others. Returns True for any.

    The same goes for compacted histories, of any family. An upstream with encrypted reasoning takes no text of it, so
    that items with nothing else, which a Chat model made, are dropped too.
    """
    items = body.get("input")
    if type(items) is not list:
        return False
    kept: list[object] = []
    numbered: Iterable[tuple[int, Any]] = enumerate(items)
    if found := any(unwrap_history(item) is not None for item in items):
        numbered = ((place, item) for place, item, _ in expand(items))
    for number, item in numbered:
        content = item.get("encrypted_content") if type(item) is dict and item.get("type") == "reasoning" else None
        envelope = unwrap(content) if type(content) is str else None
        if envelope is None and not (content is None and profile.encrypted_reasoning and _has_text(item)):
            kept.append(item)
            continue
        found = True
        if envelope is None:
            losses.add(LossCode.REASONING_UNSIGNED, ("input", number))
        elif envelope.dialect == DIALECT and envelope.family == (profile.family or DIALECT):
            kept.append(envelope.block)
        else:
            losses.add(LossCode.REASONING_FOREIGN, ("input", number))
    if found:
        body["input"] = kept
    return found


def _has_text(item: object) -> bool:
    """True for an item with the text of reasoning, and not only with a summary."""
    return type(item) is dict and item.get("type") == "reasoning" and bool(item.get("content"))

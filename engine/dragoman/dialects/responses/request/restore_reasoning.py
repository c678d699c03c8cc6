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
from dragoman.reasoning.compacted_history import expand, unwrap_history
from dragoman.reasoning.envelope import unwrap


def restore_reasoning(body: Json, family: str, losses: Losses) -> bool:
    """Restore the reasoning items of this family in place, and drop those of others. Returns True if there are any.

    The same goes for compacted histories, of any family.
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
        if envelope is None:
            kept.append(item)
            continue
        found = True
        if envelope.dialect == DIALECT and envelope.family == family:
            kept.append(envelope.block)
        else:
            losses.add(LossCode.REASONING_FOREIGN, ("input", number))
    if found:
        body["input"] = kept
    return found

"""The canonical whole reply."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.canonical.events import RefusalInfo, Stop, Usage
from dragoman.canonical.parts import Part


@dataclass(slots=True)
class Reply:
    """A whole reply: what a stream of events accumulates to. `parts` are Text, Refusal, Reasoning, ToolCall, Native;
    `cut` has the positions of those that the upstream did not finish, as far as it can be known."""

    id: str
    model: str
    parts: list[Part]
    stop: Stop
    usage: Usage | None = None
    created: int | None = None
    refusal: RefusalInfo | None = None
    cut: frozenset[int] = frozenset()

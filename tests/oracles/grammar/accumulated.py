"""The content that a client has after the last byte of a stream, in one shape for every dialect, so that tests can
compare streams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dragoman.stages.grammar.checker import Grammar, GrammarChecker
from dragoman.stages.grammar.values import GrammarError

from . import sse

Json = dict[str, Any]
UNLIMITED = 1 << 40
"""Bytes that a grammar may keep in tests."""


class Call(NamedTuple):
    """A tool call, its arguments as one string exactly as they were received (free text if `kind` is custom)."""

    id: str
    name: str
    arguments: str
    namespace: str | None = None
    kind: str = "function"


@dataclass(slots=True)
class Accumulated:
    """`blocks` is (kind, content) in start order; a chat stream has none on the wire, so runs of one kind count.

    `finish` is the dialect's own word. `error` is the in-band error's body if the stream ended in one.
    """

    id: str = ""
    model: str = ""
    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: list[Call] = field(default_factory=list)
    finish: str | None = None
    sequence: str | None = None
    stop_details: Json | None = None
    usage: Json | None = None
    error: Json | None = None
    blocks: list[tuple[str, str]] = field(default_factory=list)
    annotations: list[Json] = field(default_factory=list)
    signatures: list[str] = field(default_factory=list)
    pings: int = 0

    @property
    def order(self) -> list[str]:
        """The kinds of the blocks in start order."""
        return [kind for kind, _ in self.blocks]

    def parsed_calls(self) -> list[tuple[str, str, Any]]:
        """The calls with their arguments parsed; none at all count as `{}` (mapping §6.1)."""
        return [
            (call.id, call.name, call.arguments if call.kind == "custom" else json.loads(call.arguments or "{}"))
            for call in self.calls
        ]

    def meant_calls(self) -> list[Any]:
        """The calls with their JSON parsed where it is whole (a cut call's is not)."""
        return [(*call[:2], _meant(call), *call[3:]) for call in self.calls]


def _meant(call: Call) -> Any:
    if call.kind == "custom":
        return call.arguments
    try:
        return json.loads(call.arguments or "{}")
    except ValueError:
        return call.arguments


def judged(grammar: Grammar, data: bytes) -> Iterator[sse.Item]:
    """Check a complete stream, and return its items. Raises GrammarError."""
    judge = GrammarChecker(grammar, UNLIMITED)
    judge.feed(data)
    assert not judge.over or judge.violation is not None, f"not judged to its end: {judge!r}"
    judge.finish()
    if (violation := judge.violation) is not None:
        frames = data.split(b"\n\n")
        shown = frames[violation.position] if violation.position < len(frames) else b""
        assert violation.rule != "a frame of an unknown form", f"a check is missing: {shown!r}"
        raise GrammarError(f"{violation.rule} (frame {violation.position}: {shown[:400]!r})")
    return iter(sse.split(data, flush=False))

"""Turns in compact form, as the readers make them."""

from __future__ import annotations

from dragoman.canonical.turn import CallFields, ReasoningFields, ResultFields, Role, Turn, compact_turn
from dragoman.errors import Path


def assistant_turn(
    at: Path,
    reasoning: list[ReasoningFields],
    text: str | None,
    text_at: Path,
    calls: list[CallFields],
    *,
    apart: bool = False,
    plain: bool = False,
) -> Turn:
    """Return a turn of the assistant."""
    return compact_turn("assistant", (reasoning, text, text_at, apart, calls), at, "", plain)


def result_turn(at: Path, results: list[ResultFields]) -> Turn:
    """Return a turn of results."""
    return compact_turn("user", results, at)


def text_turn(role: Role, text: str, at: Path, original: str = "", *, plain: bool = True) -> Turn:
    """Return a turn of a single text: a bare string, or an array of one part if not `plain`."""
    return compact_turn(role, text, at, original, plain)

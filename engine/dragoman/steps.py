"""The turns of a tool loop in short: what an agent's long history is made of, without an object for each part.

An agent resends hundreds of turns that are all alike: thoughts, a text and calls, then their results. Readers make
these two kinds of turn of them, whose calls and results are tuples, and writers write those as they are; a text, a call
and a result as objects of their own would take the greater part of a long request's time (`bench/micro/requests.py`).
Whoever asks for `parts` gets what a `Turn` would hold, and from then on the parts are what counts.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from .errors import Path
from .model import Json, Part, Reasoning, Role, Text, ToolCall, ToolResult, Turn

Thought: TypeAlias = tuple[str, Path, str, str | None, Json | None]
"""Text, where it stood, the dialect of its origin, its proof, and the whole block if that is more: reasoning that is
not redacted and came in no envelope."""

Call: TypeAlias = tuple[str, str, str, Path]
"""Id, name, arguments as JSON text, and where it stood: a call of a function without namespace or cache mark."""

Result: TypeAlias = tuple[str, str, Path, bool, Json | None]
"""The call's id, the content, where it stood, is it an error, and its cache mark."""

_ASSISTANT = Role.ASSISTANT
_USER = Role.USER
_new = object.__new__
_parts: Any = Turn.__dict__["parts"]
"""The slot below the properties here."""


class _Short(Turn):
    """What both kinds share: equal to the `Turn` of the same parts."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Turn):
            return NotImplemented
        return _fields(self) == _fields(other)

    __hash__ = None  # type: ignore[assignment]  # as every turn, since turns are changed


class SpokenTurn(_Short):
    """A turn of the assistant's: `thoughts`, then `text` if any, then `calls`; None once `parts` was asked for."""

    __slots__ = ("apart", "calls", "text", "text_at", "thoughts")

    calls: list[Call] | None
    text: str | None
    text_at: Path | None
    thoughts: list[Thought]
    apart: bool

    @property
    def parts(self) -> list[Part]:
        """The turn's parts."""
        if self.calls is not None:
            parts: list[Part] = [reasoning(thought) for thought in self.thoughts]
            if self.text:
                parts.append(Text(self.text, self.text_at or (), apart=self.apart))
            parts.extend(ToolCall(*call) for call in self.calls)
            self.parts = parts
        whole: list[Part] = _parts.__get__(self)
        return whole

    @parts.setter
    def parts(self, parts: list[Part]) -> None:
        self.calls = None
        _parts.__set__(self, parts)


class ResultTurn(_Short):
    """A turn of the user's that holds `results` alone; None once `parts` was asked for."""

    __slots__ = ("results",)

    results: list[Result] | None

    @property
    def parts(self) -> list[Part]:
        """The turn's parts."""
        if self.results is not None:
            self.parts = [ToolResult(*result) for result in self.results]
        whole: list[Part] = _parts.__get__(self)
        return whole

    @parts.setter
    def parts(self, parts: list[Part]) -> None:
        self.results = None
        _parts.__set__(self, parts)


def reasoning(thought: Thought) -> Reasoning:
    """A thought as the part that it is."""
    text, at, origin, proof, native = thought
    return Reasoning(text, at, origin, proof, native=native)


def _fields(turn: Turn) -> tuple[Any, ...]:
    return turn.role, turn.parts, turn.at, turn.spelling, turn.plain, turn.name


# Both are built field by field: the call of a class costs half as much again (CPython 3.11, 250 ns and 170 ns).


def spoken(
    at: Path,
    thoughts: list[Thought],
    text: str | None,
    text_at: Path | None,
    calls: list[Call],
    apart: bool = False,
    plain: bool = False,
) -> SpokenTurn:
    """A turn of the assistant's; `apart` is the text's."""
    turn = _new(SpokenTurn)
    turn.role = _ASSISTANT
    turn.at = at
    turn.spelling = ""
    turn.plain = plain
    turn.name = None
    turn.thoughts = thoughts
    turn.text = text
    turn.text_at = text_at
    turn.calls = calls
    turn.apart = apart
    return turn


def answered(at: Path, results: list[Result]) -> ResultTurn:
    """A turn of results."""
    turn = _new(ResultTurn)
    turn.role = _USER
    turn.at = at
    turn.spelling = ""
    turn.plain = False
    turn.name = None
    turn.results = results
    return turn

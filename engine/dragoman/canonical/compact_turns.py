"""Compact turns: the usual turns of a conversation without an object for each part.

An agent resends hundreds of turns that are all alike: reasoning, a text and calls, then their results. The dialects'
readers make these kinds of turn of them, whose calls and results are tuples, and the writers write the tuples. An
object for each text, call and result would take most of a long request's time (`bench/micro/requests.py`). A turn of
a single text, which every conversation has, is the third kind.

`parts` expands a compact turn: it makes the part objects, and from then on they count. All other code uses the methods
of `Turn`, which do not expand it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from dragoman.canonical.request import (
    CallFields,
    Part,
    Reasoning,
    ReasoningFields,
    ResultFields,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)
from dragoman.errors import Path

_new = object.__new__
_parts: Any = Turn.__dict__["parts"]
"""The slot that the properties here stand before."""


class _CompactTurn(Turn):
    """Base of all kinds. Equal to the `Turn` of the same parts. Made without arguments and filled by the reader."""

    __slots__ = ()
    _FIXED = frozenset({"role", "original", "name"})
    if TYPE_CHECKING:

        def __init__(self) -> None: ...
    else:
        __init__ = object.__init__  # half the cost of one with parameters

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Turn):
            return NotImplemented
        return _fields(self) == _fields(other)

    __hash__ = None  # type: ignore[assignment]  # like every turn, as turns are mutable

    def __getstate__(self) -> Any:
        """The state of a copy, without the fields that are constants of the class."""
        whole: Any = super().__getstate__()
        return None, {name: value for name, value in whole[1].items() if name not in self._FIXED}


class CompactAssistantTurn(_CompactTurn):
    """A turn of the assistant: `reasoning`, then `text` if any, then `calls` (None once it is expanded)."""

    __slots__ = ("apart", "calls", "reasoning", "text", "text_at")
    role = "assistant"  # always, like the next two
    original = ""
    name = None

    calls: list[CallFields] | None
    text: str | None
    text_at: Path | None
    reasoning: list[ReasoningFields]
    apart: bool

    @property
    def parts(self) -> list[Part]:
        """The parts of the turn."""
        if self.calls is not None:
            parts: list[Part] = [Reasoning(*fields) for fields in self.reasoning]
            if self.text:
                parts.append(Text(self.text, self.text_at or (), apart=self.apart))
            parts.extend(ToolCall(*call) for call in self.calls)
            self.parts = parts
        expanded: list[Part] = _parts.__get__(self)
        return expanded

    @parts.setter
    def parts(self, parts: list[Part]) -> None:
        self.calls = None
        _parts.__set__(self, parts)

    def compact_assistant(self) -> CompactAssistantTurn | None:
        return None if self.calls is None else self

    def is_empty(self) -> bool:
        return super().is_empty() if self.calls is None else not (self.calls or self.text or self.reasoning)

    def has_reasoning(self) -> bool:
        return super().has_reasoning() if self.calls is None else bool(self.reasoning)

    def call_ids(self) -> list[str]:
        return super().call_ids() if self.calls is None else [fields[0] for fields in self.calls]

    def rename_calls(self, rename: Callable[[str, Path], str]) -> None:
        if self.calls is None:
            super().rename_calls(rename)
            return
        self.calls[:] = [(rename(call_id, at), name, arguments, at) for call_id, name, arguments, at in self.calls]

    def reasoning_at(self, place: int) -> Reasoning:
        return super().reasoning_at(place) if self.calls is None else Reasoning(*self.reasoning[place])

    def drop_parts(self, places: Collection[int]) -> None:
        if self.calls is None:
            super().drop_parts(places)
            return
        self.reasoning = [fields for place, fields in enumerate(self.reasoning) if place not in places]


class CompactResultTurn(_CompactTurn):
    """A turn of the user that holds only `results` (None once it is expanded)."""

    __slots__ = ("results",)
    _FIXED = _CompactTurn._FIXED | {"plain"}
    role = "user"  # always, as the next three
    original = ""
    plain = False
    name = None

    results: list[ResultFields] | None

    @property
    def parts(self) -> list[Part]:
        """The parts of the turn."""
        if self.results is not None:
            self.parts = [to_tool_result(result) for result in self.results]
        parts: list[Part] = _parts.__get__(self)
        return parts

    @parts.setter
    def parts(self, parts: list[Part]) -> None:
        self.results = None
        _parts.__set__(self, parts)

    def compact_results(self) -> list[ResultFields] | None:
        return self.results

    def is_empty(self) -> bool:
        return super().is_empty() if self.results is None else not self.results

    def has_results(self) -> bool:
        return super().has_results() if self.results is None else bool(self.results)

    def has_content(self) -> bool:
        return self.results is None and super().has_content()

    def result_ids(self) -> list[tuple[int, str]]:
        if self.results is None:
            return super().result_ids()
        return [(place, fields[0]) for place, fields in enumerate(self.results)]

    def rename_results(self, rename: Callable[[str], str]) -> None:
        if self.results is None:
            super().rename_results(rename)
            return
        self.results[:] = [(rename(call_id), *rest) for call_id, *rest in self.results]  # type: ignore[misc]


class CompactTextTurn(_CompactTurn):
    """A turn of the user, or of instructions, that holds only `text` (None once it is expanded)."""

    __slots__ = ("text", "text_at")
    _FIXED = frozenset({"name"})
    name = None  # always

    text: str | None
    text_at: Path

    @property
    def parts(self) -> list[Part]:
        """The parts of the turn."""
        if self.text is not None:
            self.parts = [plain_text(self.text, self.text_at)]
        parts: list[Part] = _parts.__get__(self)
        return parts

    @parts.setter
    def parts(self, parts: list[Part]) -> None:
        self.text = None
        _parts.__set__(self, parts)

    def compact_text(self) -> str | None:
        return self.text

    def is_empty(self) -> bool:
        return super().is_empty() if self.text is None else not self.text

    def has_results(self) -> bool:
        return self.text is None and super().has_results()

    def has_content(self) -> bool:
        return super().has_content() if self.text is None else bool(self.text)

    def result_ids(self) -> list[tuple[int, str]]:
        return super().result_ids() if self.text is None else []


def _fields(turn: Turn) -> tuple[Any, ...]:
    return turn.role, turn.parts, turn.at, turn.original, turn.plain, turn.name


def compact_assistant_turn(
    at: Path,
    reasoning: list[ReasoningFields],
    text: str | None,
    text_at: Path | None,
    calls: list[CallFields],
    apart: bool = False,
    plain: bool = False,
) -> CompactAssistantTurn:
    """Returns a compact turn of the assistant; `apart` is the text's."""
    turn = CompactAssistantTurn()
    turn.at = at
    turn.plain = plain
    turn.reasoning = reasoning
    turn.text = text
    turn.text_at = text_at
    turn.calls = calls
    turn.apart = apart
    return turn


def compact_result_turn(at: Path, results: list[ResultFields]) -> CompactResultTurn:
    """Returns a compact turn of results."""
    turn = CompactResultTurn()
    turn.at = at
    turn.results = results
    return turn


def plain_text(text: str, at: Path) -> Text:
    """Returns a `Text` without marks or citations. Field by field, as the class's constructor costs twice as much."""
    part = _new(Text)
    part.text = text
    part.at = at
    part.cache = part.logprobs = None
    part.citations = []
    part.apart = False
    return part


def to_tool_result(fields: ResultFields) -> ToolResult:
    """Returns the part of a compact result."""
    part = _new(ToolResult)
    part.call_id, part.content, part.at, part.is_error = fields
    part.cache = None
    part.custom = part.search = False
    part.built_in = ""
    return part


def single_text_turn(
    role: Role, text: str, text_at: Path, at: Path, original: str = "", plain: bool = True
) -> CompactTextTurn:
    """Returns a compact turn of one text, not of the assistant: a bare string, or a single part if not `plain`."""
    turn = CompactTextTurn()
    turn.role = role
    turn.text = text
    turn.text_at = text_at
    turn.at = at
    turn.original = original
    turn.plain = plain
    return turn

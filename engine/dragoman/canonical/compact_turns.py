"""Compact turns: the turns of a tool loop, without an object for each part.

An agent resends hundreds of similar turns: reasoning, a text and calls, then their results. Readers make these two
kinds of turn of them, whose calls and results are tuples, and writers write the tuples. An object for every text, call
and result would take most of the time of a long request (`bench/micro/requests.py`). Reading `parts` converts the turn:
it then holds parts as any `Turn` does, and no tuples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from dragoman.canonical.request import Json, Part, Reasoning, Role, Text, ToolCall, ToolResult, Turn
from dragoman.errors import Path

ReasoningFields: TypeAlias = tuple[str, Path, str, str | None, bool, Json | None, str | None]
"""The fields of `Reasoning`, in their order."""

Call: TypeAlias = tuple[str, str, str, Path]
"""A call of a function without namespace or cache mark: its id, name, arguments as JSON text, and path."""

Result: TypeAlias = tuple[str, str, Path, bool]
"""A result without cache mark: the call's id, the content, the path, and whether it is an error."""

_ASSISTANT = Role.ASSISTANT
_USER = Role.USER
_new = object.__new__
_parts: Any = Turn.__dict__["parts"]
"""The slot of `Turn.parts`, which the properties below hide."""


class _CompactTurn(Turn):
    """Base class of both kinds. Equal to a `Turn` with the same parts. Created empty, then filled."""

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
        """Returns the state of a copy, without the class's attributes."""
        whole: Any = super().__getstate__()
        return None, {name: value for name, value in whole[1].items() if name not in self._FIXED}


class CompactAssistantTurn(_CompactTurn):
    """An assistant turn: `reasoning`, then `text` if any, then `calls` (None once `parts` was read)."""

    __slots__ = ("apart", "calls", "reasoning", "text", "text_at")
    role = _ASSISTANT  # always, like the next two
    original = ""
    name = None

    calls: list[Call] | None
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
        whole: list[Part] = _parts.__get__(self)
        return whole

    @parts.setter
    def parts(self, parts: list[Part]) -> None:
        self.calls = None
        _parts.__set__(self, parts)


class CompactResultTurn(_CompactTurn):
    """A turn of the user's that holds `results` alone; None once `parts` was asked for."""

    __slots__ = ("results",)
    _FIXED = _CompactTurn._FIXED | {"plain"}
    role = _USER  # always, as the next three
    original = ""
    plain = False
    name = None

    results: list[Result] | None

    @property
    def parts(self) -> list[Part]:
        """The parts of the turn."""
        if self.results is not None:
            self.parts = [to_tool_result(result) for result in self.results]
        whole: list[Part] = _parts.__get__(self)
        return whole

    @parts.setter
    def parts(self, parts: list[Part]) -> None:
        self.results = None
        _parts.__set__(self, parts)


def _fields(turn: Turn) -> tuple[Any, ...]:
    return turn.role, turn.parts, turn.at, turn.original, turn.plain, turn.name


def compact_assistant_turn(
    at: Path,
    reasoning: list[ReasoningFields],
    text: str | None,
    text_at: Path | None,
    calls: list[Call],
    apart: bool = False,
    plain: bool = False,
) -> CompactAssistantTurn:
    """Returns an assistant turn. `apart` is that of its text."""
    turn = CompactAssistantTurn()
    turn.at = at
    turn.plain = plain
    turn.reasoning = reasoning
    turn.text = text
    turn.text_at = text_at
    turn.calls = calls
    turn.apart = apart
    return turn


def compact_result_turn(at: Path, results: list[Result]) -> CompactResultTurn:
    """Returns a turn of tool results."""
    turn = CompactResultTurn()
    turn.at = at
    turn.results = results
    return turn


def plain_text(text: str, at: Path) -> Text:
    """Returns a text without marks or citations. Filled field by field, as calling the class costs twice as much."""
    part = _new(Text)
    part.text = text
    part.at = at
    part.cache = part.logprobs = None
    part.citations = []
    part.apart = False
    return part


def to_tool_result(result: Result) -> ToolResult:
    """Returns a result as a part, filled in the same way."""
    part = _new(ToolResult)
    part.call_id, part.content, part.at, part.is_error = result
    part.cache = None
    part.custom = part.search = False
    return part


def single_text_turn(role: Role, text: str, text_at: Path, at: Path, original: str = "", plain: bool = True) -> Turn:
    """Returns a turn that is a string (`plain`) or a single text part."""
    turn = _new(Turn)
    turn.role = role
    turn.parts = [plain_text(text, text_at)]
    turn.at = at
    turn.original = original
    turn.plain = plain
    turn.name = None
    return turn

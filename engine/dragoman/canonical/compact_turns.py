"""The turns of a tool loop in short: what an agent's long history is made of, without an object for each part.

An agent resends hundreds of turns that are all alike: thoughts, a text and calls, then their results. Readers make
these two kinds of turn of them, whose calls and results are tuples, and writers write those as they are; a text, a call
and a result as objects of their own would take the greater part of a long request's time (`bench/micro/requests.py`).
Whoever asks for `parts` gets what a `Turn` would hold, and from then on the parts are what counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from dragoman.canonical.request import Json, Part, Reasoning, Role, Text, ToolCall, ToolResult, Turn
from dragoman.errors import Path

Thought: TypeAlias = tuple[str, Path, str, str | None, bool, Json | None, str | None]
"""The fields of `Reasoning`, in their order."""

Call: TypeAlias = tuple[str, str, str, Path]
"""Id, name, arguments as JSON text, and where it stood: a call of a function without namespace or cache mark."""

Result: TypeAlias = tuple[str, str, Path, bool]
"""The call's id, the content, where it stood, and is it an error: a result without cache mark."""

_ASSISTANT = Role.ASSISTANT
_USER = Role.USER
_new = object.__new__
_parts: Any = Turn.__dict__["parts"]
"""The slot below the properties here."""


class _CompactTurn(Turn):
    """What both kinds share: equal to the `Turn` of the same parts. Made empty, and filled by those who make them."""

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

    __hash__ = None  # type: ignore[assignment]  # as every turn, since turns are changed

    def __getstate__(self) -> Any:
        """What a copy is filled with: not what is the class's."""
        whole: Any = super().__getstate__()
        return None, {name: value for name, value in whole[1].items() if name not in self._FIXED}


class CompactAssistantTurn(_CompactTurn):
    """A turn of the assistant's: `thoughts`, then `text` if any, then `calls`; None once `parts` was asked for."""

    __slots__ = ("apart", "calls", "reasoning", "text", "text_at")
    role = _ASSISTANT  # always, as the next two
    original = ""
    name = None

    calls: list[Call] | None
    text: str | None
    text_at: Path | None
    reasoning: list[Thought]
    apart: bool

    @property
    def parts(self) -> list[Part]:
        """The turn's parts."""
        if self.calls is not None:
            parts: list[Part] = [Reasoning(*thought) for thought in self.reasoning]
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
        """The turn's parts."""
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
    thoughts: list[Thought],
    text: str | None,
    text_at: Path | None,
    calls: list[Call],
    apart: bool = False,
    plain: bool = False,
) -> CompactAssistantTurn:
    """A turn of the assistant's; `apart` is the text's."""
    turn = CompactAssistantTurn()
    turn.at = at
    turn.plain = plain
    turn.reasoning = thoughts
    turn.text = text
    turn.text_at = text_at
    turn.calls = calls
    turn.apart = apart
    return turn


def compact_result_turn(at: Path, results: list[Result]) -> CompactResultTurn:
    """A turn of results."""
    turn = CompactResultTurn()
    turn.at = at
    turn.results = results
    return turn


def plain_text(text: str, at: Path) -> Text:
    """A text that is nothing but one. Filled field by field, as the class's own way costs twice as much."""
    part = _new(Text)
    part.text = text
    part.at = at
    part.cache = part.logprobs = None
    part.citations = []
    part.apart = False
    return part


def to_tool_result(result: Result) -> ToolResult:
    """A result as the part that it is, filled the same way."""
    part = _new(ToolResult)
    part.call_id, part.content, part.at, part.is_error = result
    part.cache = None
    part.custom = part.search = False
    return part


def single_text_turn(role: Role, text: str, text_at: Path, at: Path, spelling: str = "", plain: bool = True) -> Turn:
    """Any turn that is a bare string or, not `plain`, a single text."""
    turn = _new(Turn)
    turn.role = role
    turn.parts = [plain_text(text, text_at)]
    turn.at = at
    turn.original = spelling
    turn.plain = plain
    turn.name = None
    return turn

"""A turn of a conversation, and its compact form.

A conversation is a list of turns. Results of tools are parts of a user's turn, calls are parts of an assistant's, which
suits both the dialects with a message for each result and those with blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Literal, TypeAlias

from dragoman.canonical.parts import Json, Part, Reasoning, Text, ToolCall, ToolResult
from dragoman.errors import Path
from dragoman.short_repr import short_repr

Role = Literal["instruction", "user", "assistant"]
"""The role of a turn. `system` and `developer` are one role; `Turn.original` keeps the word."""

ReasoningFields: TypeAlias = tuple[str, Path, str, str | None, bool, Json | None, str | None]
"""The fields of a `Reasoning`, in their order."""
CallFields: TypeAlias = tuple[str, str, str, Path]
"""Id, name, arguments as JSON text and path of a function call without namespace or cache mark."""
ResultFields: TypeAlias = tuple[str, str, Path, bool]
"""The call's id, the content, the path and the error flag of a result that is one text, without cache mark."""
AssistantFields: TypeAlias = tuple[list[ReasoningFields], str | None, Path, bool, list[CallFields]]
"""A turn of the assistant: reasoning, a text if any, its path and its `apart`, and calls, in this order."""

Compact: TypeAlias = AssistantFields | list[ResultFields] | str


class Turn:
    """One turn of the conversation.

    `original` is the source's own role word (`system`, `developer`; `top` for a top-level instruction field), used only
    by dialects that know it. `plain` is true if the content was a bare string. `name` is Chat's participant name.

    The usual turns of a conversation are `compact`: those of the assistant as `AssistantFields`, the results of calls
    as a list of them, a single text of another role as this text. An agent resends hundreds of them. With a named tuple
    for each call, result and reasoning, a long request would take a quarter more time: CPython 3.11 makes one in
    370 ns, a tuple in 20 ns. `parts` makes the part objects of a compact turn, and sets `compact` to None, as they may
    be changed. The methods here do not make them.
    """

    __slots__ = ("_parts", "at", "compact", "name", "original", "plain", "role")

    compact: Compact | None

    def __init__(
        self,
        role: Role,
        parts: list[Part],
        at: Path = (),
        original: str = "",
        plain: bool = False,
        name: str | None = None,
    ) -> None:
        self.role: Role = role
        self._parts = parts
        self.at = at
        self.original = original
        self.plain = plain
        self.name = name
        self.compact = None

    @property
    def parts(self) -> list[Part]:
        """The parts of the turn. A change of the list changes the turn."""
        if self.compact is not None:
            self.parts = _expand(self, self.compact)
        return self._parts

    @parts.setter
    def parts(self, parts: list[Part]) -> None:
        self.compact, self._parts = None, parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Turn) and _fields(self) == _fields(other)

    __hash__ = None  # type: ignore[assignment]  # turns are mutable

    def __repr__(self) -> str:
        return short_repr(self, self.role, ".".join(map(str, self.at)))

    def is_empty(self) -> bool:
        """True if writers leave the turn out, as if the client had not sent it."""
        compact = self.compact
        if isinstance(compact, tuple):
            reasoning, text, _, _, calls = compact
            return not (calls or text or reasoning)
        if compact is not None:
            return not compact
        return all(type(part) is Text and not part.text for part in self._parts)

    def has_results(self) -> bool:
        """True if the turn holds a tool result."""
        return bool(self.result_ids())

    def has_content(self) -> bool:
        """True if the turn holds anything but tool results and empty texts."""
        compact = self.compact
        if compact is not None:
            return type(compact) is not list and not self.is_empty()
        return any(type(part) is not ToolResult and not (type(part) is Text and not part.text) for part in self._parts)

    def has_reasoning(self) -> bool:
        """True if the turn holds reasoning."""
        if isinstance(self.compact, tuple):
            return bool(self.compact[0])
        return self.compact is None and any(type(part) is Reasoning for part in self._parts)

    def call_ids(self) -> list[str]:
        """The ids of the turn's calls."""
        if isinstance(self.compact, tuple):
            return [call_id for call_id, _, _, _ in self.compact[4]]
        return [] if self.compact is not None else [part.id for part in self._parts if type(part) is ToolCall]

    def result_ids(self) -> list[tuple[int, str]]:
        """Place among `parts` and call id of each tool result."""
        compact = self.compact
        if compact is None:
            return [(place, part.call_id) for place, part in enumerate(self._parts) if type(part) is ToolResult]
        return [(place, call_id) for place, (call_id, *_) in enumerate(compact)] if isinstance(compact, list) else []

    def rename_calls(self, rename: Callable[[str, Path], str]) -> None:
        """Replace each call's id by what `rename(id, path)` returns."""
        if isinstance(self.compact, tuple):
            calls = self.compact[4]
            calls[:] = [(rename(call_id, at), name, arguments, at) for call_id, name, arguments, at in calls]
        elif self.compact is None:
            for part in self._parts:
                if type(part) is ToolCall:
                    part.id = rename(part.id, part.at)

    def rename_results(self, rename: Callable[[str], str]) -> None:
        """Replace each result's call id by what `rename(id)` returns."""
        results = self.compact
        if isinstance(results, list):
            results[:] = [(rename(call_id), content, at, failed) for call_id, content, at, failed in results]
        elif results is None:
            for part in self._parts:
                if type(part) is ToolResult:
                    part.call_id = rename(part.call_id)

    def reasoning_at(self, place: int) -> Reasoning:
        """The reasoning at a place among `parts`."""
        if isinstance(self.compact, tuple):
            return Reasoning(*self.compact[0][place])
        part = self._parts[place]
        assert type(part) is Reasoning
        return part

    def drop_parts(self, places: Collection[int]) -> None:
        """Leave out the parts at these places. In a compact turn they must be reasoning."""
        if isinstance(self.compact, tuple):
            reasoning = self.compact[0]
            reasoning[:] = [fields for place, fields in enumerate(reasoning) if place not in places]
        else:
            self.parts = [part for place, part in enumerate(self.parts) if place not in places]


_new = object.__new__  # a constructor takes twice as long, 4 % of a long request


def compact_turn(role: Role, compact: Compact, at: Path, original: str = "", plain: bool = False) -> Turn:
    """Return a turn in compact form. The path of a single text is `content` of the turn, or of its first part."""
    turn = _new(Turn)
    turn.role = role
    turn.compact = compact
    turn.at = at
    turn.original = original
    turn.plain = plain
    turn.name = None
    return turn


def plain_text(text: str, at: Path) -> Text:
    """Return a `Text` without marks or citations. Field by field, as the class's constructor costs twice as much."""
    part = _new(Text)
    part.text = text
    part.at = at
    part.cache = part.logprobs = None
    part.citations = []
    part.apart = False
    return part


def reasoning_fields(part: Reasoning) -> ReasoningFields:
    """Return the fields of a part, for code that takes those of compact turns too."""
    return part.text, part.at, part.origin, part.proof, part.redacted, part.native, part.family


def _expand(turn: Turn, compact: Compact) -> list[Part]:
    """Return the parts of a compact turn."""
    if isinstance(compact, str):
        return [plain_text(compact, _text_path(turn))]
    if isinstance(compact, list):
        return [ToolResult(*result) for result in compact]
    reasoning, text, text_at, apart, calls = compact
    parts: list[Part] = [Reasoning(*fields) for fields in reasoning]
    if text:
        parts.append(Text(text, text_at, apart=apart))
    parts.extend([ToolCall(*call) for call in calls])
    return parts


def _text_path(turn: Turn) -> Path:
    """Return the path of the only text of a turn."""
    if len(turn.at) < 2:  # a field of the request, which is the text itself
        return turn.at
    return (*turn.at, "content") if turn.plain else (*turn.at, "content", 0)


def _fields(turn: Turn) -> tuple[object, ...]:
    return turn.role, turn.parts, turn.at, turn.original, turn.plain, turn.name

"""The turns that items make, and which of them is still open.

Items are finer than turns: consecutive items of the assistant's side make one turn, consecutive outputs another. The
steps of an agent's tool loop, which are nearly all items of its long history, are read here in short (`steps`); nothing
is refused or lost with them, and an item that is anything else goes on with the turn as a whole one.
"""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.compact_turns import (
    CompactAssistantTurn,
    CompactResultTurn,
    compact_assistant_turn,
    compact_result_turn,
    single_text_turn,
)
from dragoman.canonical.request import Part, Reasoning, Role, ToolCall, ToolResult, Turn
from dragoman.dialects.responses.request.read_reasoning import read_reasoning_item
from dragoman.errors import Path
from dragoman.losses import Losses

# Member access on an enum class costs more than a global.
_USER: Final = Role.USER
_INSTRUCTION: Final = Role.INSTRUCTION
_ASSISTANT: Final = Role.ASSISTANT
_ROLES: Final = {
    "user": (Role.USER, ""),
    "developer": (Role.INSTRUCTION, "developer"),
    "system": (Role.INSTRUCTION, "system"),
}


class TurnBuilder:
    """`turns` so far."""

    __slots__ = ("_assistant", "_instructions", "_losses", "_results", "turns")

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self.turns: list[Turn] = []
        self._assistant: list[Part] | None = None
        """The parts of the assistant turn that is open, if one is and is no step in short."""
        self._results: list[Part] | None = None
        """The same of a turn of outputs."""
        self._instructions = 0
        """How many turns, from the first, are known to be instructions."""

    @property
    def has_conversation(self) -> bool:
        """Has anybody but the instructions spoken."""
        turns = self.turns
        while self._instructions < len(turns) and turns[self._instructions].role is _INSTRUCTION:
            self._instructions += 1
        return self._instructions < len(turns)

    def assistant_parts(self, at: Path, *, plain: bool = False) -> list[Part]:
        """The parts of the open assistant turn, which begins here if none is open."""
        parts = self._assistant
        if parts is None:
            last = self._last()
            if type(last) is CompactAssistantTurn:
                parts = last.parts
                self.turns[-1] = Turn(_ASSISTANT, parts, last.at, "", last.plain)
            else:
                parts = []
                self.turns.append(Turn(_ASSISTANT, parts, at, "", plain))
            self._assistant, self._results = parts, None
        return parts

    def add_result(self, result: ToolResult) -> None:
        """Add an output to the open turn of outputs, which begins here if none is open."""
        parts = self._results
        if parts is None:
            last = self._last()
            if type(last) is CompactResultTurn:
                parts = last.parts
                self.turns[-1] = Turn(_USER, parts, last.at)
            else:
                parts = []
                self.turns.append(Turn(_USER, parts, result.at))
            self._assistant, self._results = None, parts
        parts.append(result)

    def add_turn(self, turn: Turn) -> None:
        """Add a turn of the user's or an instruction: either ends what was open."""
        self.turns.append(turn)
        self._assistant = self._results = None

    def _last(self) -> Turn | None:
        return self.turns[-1] if self.turns else None

    def read_compact(self, items: list[Any], start: int) -> int:
        """Read items in short from `start` on, up to the first that cannot be; gives the place of that one.

        Keys are looked up as if they were there, which costs half of asking for them; one that is not ends the steps.
        """
        turns, losses, last = self.turns, self._losses, self._last()
        said = last if type(last) is CompactAssistantTurn else None
        calls = said.calls if said is not None else None
        given = last.results if type(last) is CompactResultTurn else None
        number = start
        try:
            for number in range(start, len(items)):
                item, at = items[number], ("input", number)
                size = len(item)
                kind = item["type"] if size > 2 else "message"
                if kind == "function_call_output":
                    call_id, output = item["call_id"], item["output"]
                    if type(output) is not str or type(call_id) is not str or not call_id:
                        return number
                    if size > 3 and ("id" in item) + ("status" in item) != size - 3:
                        return number
                    if given is not None:
                        given.append((call_id, output, at, False))
                    elif self._results is not None:
                        self._results.append(ToolResult(call_id, output, at))
                    else:
                        given, said, calls, self._assistant = [(call_id, output, at, False)], None, None, None
                        turns.append(compact_result_turn(at, given))
                    continue
                if kind == "message":
                    role, content = item["role"], item["content"]
                    if size > 2 and ("id" in item) + ("status" in item) != size - 3:
                        return number
                    if role != "assistant":
                        turn = _single_text_turn(role, content, at)
                        if turn is None:
                            return number
                        turns.append(turn)
                        given = said = calls = self._assistant = self._results = None
                        continue
                    text = content if type(content) is str else _single_text(content)
                    if not text or self._assistant is not None:
                        return number
                    text_at = ("input", number, "content") if text is content else ("input", number, "content", 0)
                    if said is not None:
                        if said.text or calls:
                            return number
                        said.text, said.text_at, said.apart = text, text_at, True
                        continue
                    calls = []
                    said = compact_assistant_turn(at, [], text, text_at, calls, False, text is content)
                elif kind == "function_call":
                    call_id, name, arguments = item["call_id"], item["name"], item["arguments"]
                    if type(call_id) is not str or not call_id or type(name) is not str or not name:
                        return number
                    if type(arguments) is not str or (size > 4 and ("id" in item) + ("status" in item) != size - 4):
                        return number
                    if calls is not None:
                        calls.append((call_id, name, arguments, at))
                        continue
                    if self._assistant is not None:
                        self._assistant.append(ToolCall(call_id, name, arguments, at))
                        continue
                    calls = [(call_id, name, arguments, at)]
                    said = compact_assistant_turn(at, [], None, None, calls)
                elif kind == "reasoning":
                    if self._assistant is not None:
                        self._assistant.append(Reasoning(*read_reasoning_item(item, at, losses)))
                        continue
                    if said is None:
                        calls = []
                        said = compact_assistant_turn(at, [read_reasoning_item(item, at, losses)], None, None, calls)
                    elif said.text or calls:
                        return number
                    else:
                        said.reasoning.append(read_reasoning_item(item, at, losses))
                        continue
                else:
                    return number
                turns.append(said)
                given = self._results = None
        except (KeyError, TypeError):  # TypeError: what should be an object is none
            return number
        return len(items)


def _single_text_turn(role: Any, content: Any, at: Path) -> Turn | None:
    """A turn of the user's or an instruction that is a single text, or None."""
    who, spelling = _ROLES[role]
    if type(content) is str:
        return single_text_turn(who, content, (*at, "content"), at, spelling)
    if type(content) is not list or len(content) != 1:
        return None
    part = content[0]
    text = part["text"]
    if len(part) != 2 or part["type"] != "input_text" or type(text) is not str:
        return None
    return single_text_turn(who, text, (*at, "content", 0), at, spelling, False)


def _single_text(content: Any) -> str | None:
    """The one text of an assistant's message, or None."""
    if type(content) is not list or len(content) != 1:
        return None
    part = content[0]
    text = part["text"]
    if part["type"] != "output_text" or type(text) is not str:
        return None
    size = len(part)
    if size > 2 and (part.get("annotations") or ("annotations" in part) + ("logprobs" in part) != size - 2):
        return None
    return text

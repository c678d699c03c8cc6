"""Builds turns from items, which are smaller than turns.

Consecutive items of the assistant form one turn, consecutive outputs of its calls another; a message of the user or an
instruction ends both. Nearly all items of an agent's long history belong to its tool loop. They are read to compact
turns by `read_compact`, which rejects and drops nothing; any other item continues its turn as a list of parts.
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
from dragoman.errors import ClientRequestError, Path
from dragoman.losses import Losses

_ROLES: Final[dict[str, tuple[Role, str]]] = {
    "user": ("user", ""),
    "developer": ("instruction", "developer"),
    "system": ("instruction", "system"),
}


class TurnBuilder:
    """Builds the `turns` of one request, which may have some already."""

    __slots__ = ("_assistant", "_instructions", "_losses", "_results", "turns")

    def __init__(self, losses: Losses, turns: list[Turn]) -> None:
        self._losses = losses
        self.turns = turns
        self._assistant: list[Part] | None = None
        """The parts of the open assistant turn. None if none is open or it is a compact turn."""
        self._results: list[Part] | None = None
        """The parts of the open turn of outputs. None if none is open or it is a compact turn."""
        self._instructions = 0
        """Number of leading turns that are known to be instructions."""

    @property
    def has_conversation(self) -> bool:
        """True if there is a turn that is not an instruction."""
        turns = self.turns
        while self._instructions < len(turns) and turns[self._instructions].role == "instruction":
            self._instructions += 1
        return self._instructions < len(turns)

    def assistant_parts(self, at: Path, *, plain: bool = False) -> list[Part]:
        """Returns the parts of the open assistant turn, which starts here if none is open."""
        parts = self._assistant
        if parts is None:
            last = self._last()
            if type(last) is CompactAssistantTurn:
                parts = last.parts
                self.turns[-1] = Turn("assistant", parts, last.at, "", last.plain)
            else:
                parts = []
                self.turns.append(Turn("assistant", parts, at, "", plain))
            self._assistant, self._results = parts, None
        return parts

    def add_result(self, result: ToolResult) -> None:
        """Add an output to the open turn of outputs, which starts here if none is open."""
        parts = self._results
        if parts is None:
            last = self._last()
            if type(last) is CompactResultTurn:
                parts = last.parts
                self.turns[-1] = Turn("user", parts, last.at)
            else:
                parts = []
                self.turns.append(Turn("user", parts, result.at))
            self._assistant, self._results = None, parts
        parts.append(result)

    def add_turn(self, turn: Turn) -> None:
        """Add a turn of the user or an instruction, which ends the open turn."""
        self.turns.append(turn)
        self._assistant = self._results = None

    def restart(self, turns: int) -> None:
        """Drop all turns but the first ones."""
        del self.turns[turns:]
        self._assistant = self._results = None
        self._instructions = min(self._instructions, turns)

    def _last(self) -> Turn | None:
        return self.turns[-1] if self.turns else None

    def read_compact(self, items: list[Any], start: int) -> int:
        """Read items to compact turns from index `start` on. Returns the index of the first that cannot be read so.

        Keys are looked up without `get`, which costs half as much; a missing key ends the loop.
        """
        turns, losses, last = self.turns, self._losses, self._last()
        assistant = last if type(last) is CompactAssistantTurn else None
        calls = assistant.calls if assistant is not None else None
        results = last.results if type(last) is CompactResultTurn else None
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
                    if results is not None:
                        results.append((call_id, output, at, False))
                    elif self._results is not None:
                        self._results.append(ToolResult(call_id, output, at))
                    else:
                        results, assistant, calls, self._assistant = [(call_id, output, at, False)], None, None, None
                        turns.append(compact_result_turn(at, results))
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
                        results = assistant = calls = self._assistant = self._results = None
                        continue
                    text = content if type(content) is str else _single_text(content)
                    if not text or self._assistant is not None:
                        return number
                    text_at = ("input", number, "content") if text is content else ("input", number, "content", 0)
                    if assistant is not None:
                        if assistant.text or calls:
                            return number
                        assistant.text, assistant.text_at, assistant.apart = text, text_at, True
                        continue
                    calls = []
                    assistant = compact_assistant_turn(at, [], text, text_at, calls, False, text is content)
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
                    assistant = compact_assistant_turn(at, [], None, None, calls)
                elif kind == "reasoning":
                    if self._assistant is not None:
                        self._assistant.append(Reasoning(*read_reasoning_item(item, at, losses)))
                        continue
                    if assistant is None:
                        calls = []
                        assistant = compact_assistant_turn(
                            at, [read_reasoning_item(item, at, losses)], None, None, calls
                        )
                    elif assistant.text or calls:
                        return number
                    else:
                        assistant.reasoning.append(read_reasoning_item(item, at, losses))
                        continue
                else:
                    return number
                turns.append(assistant)
                results = self._results = None
        except (KeyError, TypeError, ClientRequestError):  # TypeError: an item or a part is not an object
            return number
        return len(items)


def _single_text_turn(role: Any, content: Any, at: Path) -> Turn | None:
    """Returns a turn of the user or an instruction that is a single text, or None if it is not."""
    turn_role, original = _ROLES[role]
    if type(content) is str:
        return single_text_turn(turn_role, content, (*at, "content"), at, original)
    if type(content) is not list or len(content) != 1:
        return None
    part = content[0]
    text = part["text"]
    if len(part) != 2 or part["type"] != "input_text" or type(text) is not str:
        return None
    return single_text_turn(turn_role, text, (*at, "content", 0), at, original, False)


def _single_text(content: Any) -> str | None:
    """Returns the single text of an assistant message, or None if it has other content."""
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

"""Builds turns from items, which are smaller than turns.

Consecutive items of the assistant form one turn, consecutive outputs of its calls another; a message of the user or an
instruction ends both. Nearly all items of an agent's long history belong to its tool loop. They are read to compact
turns by `read_compact`, which rejects and drops nothing; any other item makes its turn a list of parts.
"""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.parts import Json, Part, Reasoning, ToolCall, ToolResult
from dragoman.canonical.turn import AssistantFields, Compact, Role, Turn, compact_turn
from dragoman.dialects.responses.request.read_reasoning import read_reasoning_item
from dragoman.errors import ClientRequestError, Path
from dragoman.losses import Losses

_ROLES: Final[dict[str, tuple[Role, str]]] = {
    "user": ("user", ""),
    "developer": ("instruction", "developer"),
    "system": ("instruction", "system"),
}


class TurnBuilder:
    """Builds the `turns` of one request, which may have some already.

    The last turn is open if it is the assistant's, or holds outputs: the next item may continue it.
    """

    def __init__(self, losses: Losses, turns: list[Turn]) -> None:
        self._losses = losses
        self.turns = turns
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
        """Return the parts of the open assistant turn, which starts here if none is open."""
        if self._role() != "assistant":
            self.turns.append(Turn("assistant", [], at, "", plain))
        return self.turns[-1].parts

    def add_result(self, result: ToolResult) -> None:
        """Add an output to the open turn of outputs, which starts here if none is open."""
        if self._role() == "user" and self.turns[-1].has_results():
            self.turns[-1].parts.append(result)
        else:
            self.turns.append(Turn("user", [result], result.at))

    def add_turn(self, turn: Turn) -> None:
        """Add a turn of the user or an instruction, which ends the open turn."""
        self.turns.append(turn)

    def restart(self, turns: int) -> None:
        """Drop all turns but the first ones."""
        del self.turns[turns:]
        self._instructions = min(self._instructions, turns)

    def _role(self) -> str:
        """The role of the last turn."""
        return self.turns[-1].role if self.turns else ""

    # --- usual items --------------------------------------------------------------------------------------------------

    def read_compact(self, items: list[Any], start: int) -> int:
        """Read items to compact turns from index `start` on. Returns the index of the first that cannot be read so.

        Keys are looked up without `get`, which costs half as much; a missing key ends the loop.
        """
        turns = self.turns
        number, last = start, turns[-1].compact if turns else None  # of the last turn
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
                    if type(last) is list:
                        last.append((call_id, output, at, False))
                    elif last is None and turns and turns[-1].has_results():
                        turns[-1].parts.append(ToolResult(call_id, output, at))
                    else:
                        last = [(call_id, output, at, False)]
                        turns.append(compact_turn("user", last, at, "", False))
                elif kind == "function_call":
                    call_id, name, arguments = item["call_id"], item["name"], item["arguments"]
                    if type(call_id) is not str or not call_id or type(name) is not str or not name:
                        return number
                    if type(arguments) is not str or (size > 4 and ("id" in item) + ("status" in item) != size - 4):
                        return number
                    call = call_id, name, arguments, at
                    if type(last) is tuple:
                        last[4].append(call)
                    elif last is None and self._role() == "assistant":
                        turns[-1].parts.append(ToolCall(*call))
                    else:
                        last = [], None, (), False, [call]
                        turns.append(compact_turn("assistant", last, at, "", False))
                elif kind == "message":
                    if not self._message(item, size, at, last):
                        return number
                    last = turns[-1].compact
                elif kind == "reasoning":
                    if type(last) is not tuple:
                        last = self._begin_with_reasoning(item, at)
                    elif last[1] or last[4]:
                        return number
                    else:
                        last[0].append(read_reasoning_item(item, at, self._losses))
                else:
                    return number
        except (KeyError, TypeError, ClientRequestError):  # TypeError: an item or a part is not an object
            return number
        return len(items)

    def _begin_with_reasoning(self, item: Json, at: Path) -> AssistantFields | None:
        """Add reasoning that begins a compact turn. Returns that, or None if it joins a turn that is not compact."""
        fields = read_reasoning_item(item, at, self._losses)
        if self._role() == "assistant":
            self.turns[-1].parts.append(Reasoning(*fields))
            return None
        last: AssistantFields = [fields], None, (), False, []
        self.turns.append(compact_turn("assistant", last, at, "", False))
        return last

    def _message(self, item: Json, size: int, at: Path, last: Compact | None) -> bool:
        role, content, turns = item["role"], item["content"], self.turns
        if size > 2 and ("id" in item) + ("status" in item) != size - 3:
            return False
        if role != "assistant":
            turn = _single_text_turn(role, content, at)
            if turn is not None:
                turns.append(turn)
            return turn is not None
        text = content if type(content) is str else _single_text(content)
        if not text:
            return False
        text_at = (*at, "content") if text is content else (*at, "content", 0)
        if type(last) is tuple:
            reasoning, before, _, _, calls = last
            if before or calls:
                return False
            turns[-1].compact = reasoning, text, text_at, True, calls
        elif last is None and self._role() == "assistant":
            return False
        else:
            turns.append(compact_turn("assistant", ([], text, text_at, False, []), at, "", text is content))
        return True


def _single_text_turn(role: Any, content: Any, at: Path) -> Turn | None:
    """Return a turn of the user or an instruction that is a single text, or None if it is not."""
    turn_role, original = _ROLES[role]
    if type(content) is str:
        return compact_turn(turn_role, content, at, original, True)
    if type(content) is not list or len(content) != 1:
        return None
    part = content[0]
    text = part["text"]
    if len(part) != 2 or part["type"] != "input_text" or type(text) is not str:
        return None
    return compact_turn(turn_role, text, at, original)


def _single_text(content: Any) -> str | None:
    """Return the single text of an assistant message, or None if it has other content."""
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

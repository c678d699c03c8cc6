"""The turns that items make, and which of them is still open.

Items are finer than turns: consecutive items of the assistant's side make one turn, consecutive outputs another. The
steps of an agent's tool loop, which are nearly all items of its long history, are read here in short (`steps`); nothing
is refused or lost with them, and an item that is anything else goes on with the turn as a whole one.
"""

from __future__ import annotations

from typing import Any, Final

from ...envelope import TAG
from ...errors import Path
from ...model import Part, Role, ToolResult, Turn
from ...steps import ResultTurn, SpokenTurn, Thought, answered, spoken
from .wire import DIALECT

# Member access on an enum class costs more than a global.
_USER: Final = Role.USER
_ASSISTANT: Final = Role.ASSISTANT


class OpenTurns:
    """`turns` so far; `started` says whether anybody but the instructions has spoken."""

    __slots__ = ("_assistant", "_results", "started", "turns")

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.started = False
        self._assistant: list[Part] | None = None
        """The parts of the assistant turn that is open, if one is and is no step in short."""
        self._results: list[Part] | None = None
        """The same of a turn of outputs."""

    def assistant(self, at: Path, *, plain: bool = False) -> list[Part]:
        """The parts of the open assistant turn, which begins here if none is open."""
        parts = self._assistant
        if parts is None:
            last = self._last()
            if type(last) is SpokenTurn:
                parts = last.parts
                self.turns[-1] = Turn(_ASSISTANT, parts, last.at, "", last.plain)
            else:
                parts = []
                self.turns.append(Turn(_ASSISTANT, parts, at, "", plain))
            self._assistant, self._results, self.started = parts, None, True
        return parts

    def result(self, result: ToolResult) -> None:
        """Add an output to the open turn of outputs, which begins here if none is open."""
        parts = self._results
        if parts is None:
            last = self._last()
            if type(last) is ResultTurn:
                parts = last.parts
                self.turns[-1] = Turn(_USER, parts, last.at)
            else:
                parts = []
                self.turns.append(Turn(_USER, parts, result.at))
            self._assistant, self._results, self.started = None, parts, True
        parts.append(result)

    def message(self, turn: Turn) -> None:
        """Add a turn of the user's or an instruction: either ends what was open."""
        self.turns.append(turn)
        self._assistant = self._results = None
        if turn.role is _USER:
            self.started = True

    def _last(self) -> Turn | None:
        return self.turns[-1] if self.turns else None

    def steps(self, items: list[Any], start: int) -> int:
        """Read items in short from `start` on, up to the first that cannot be; gives the place of that one.

        Keys are looked up as if they were there, which costs half of asking for them; one that is not ends the steps.
        """
        turns, last = self.turns, self._last()
        said = last if type(last) is SpokenTurn else None
        given = last.results if type(last) is ResultTurn else None
        number = start
        try:
            for number in range(start, len(items)):
                item, at = items[number], ("input", number)
                kind = item["type"]
                if kind == "function_call_output":
                    call_id, output = item["call_id"], item["output"]
                    if self._results is not None or type(output) is not str or type(call_id) is not str or not call_id:
                        return number
                    if len(item) != 3 + ("id" in item) + ("status" in item):
                        return number
                    result = (call_id, output, at, False, None)
                    if given is not None:
                        given.append(result)
                        continue
                    given, said = [result], None
                    turns.append(answered(at, given))
                    self._assistant, self.started = None, True
                    continue
                if self._assistant is not None:
                    return number
                if kind == "function_call":
                    call_id, name, arguments = item["call_id"], item["name"], item["arguments"]
                    if type(call_id) is not str or not call_id or type(name) is not str or not name:
                        return number
                    if type(arguments) is not str or len(item) != 4 + ("id" in item) + ("status" in item):
                        return number
                    call = (call_id, name, arguments, at)
                    if said is not None and said.calls is not None:
                        said.calls.append(call)
                        continue
                    said = spoken(at, [], None, None, [call])
                elif kind == "reasoning":
                    thought = _thought(item, at)
                    if thought is None:
                        return number
                    if said is not None:
                        if said.text or said.calls:
                            return number
                        said.thoughts.append(thought)
                        continue
                    said = spoken(at, [thought], None, None, [])
                elif kind == "message" and item["role"] == "assistant":
                    text = _text(item)
                    if text is None:
                        return number
                    text_at = ("input", number, "content", 0)
                    if said is not None:
                        if said.text or said.calls:
                            return number
                        said.text, said.text_at, said.apart = text, text_at, True
                        continue
                    said = spoken(at, [], text, text_at, [])
                else:
                    return number
                turns.append(said)
                given, self._results, self.started = None, None, True
        except (KeyError, TypeError):  # TypeError: what should be an object is none
            return number
        return len(items)


def _text(item: Any) -> str | None:
    """The one text of an assistant's message without phase, or None."""
    content = item["content"]
    if type(content) is not list or len(content) != 1 or len(item) != 3 + ("id" in item) + ("status" in item):
        return None
    part = content[0]
    text = part["text"]
    if part["type"] != "output_text" or type(text) is not str or not text:
        return None
    if len(part) != 2 + ("annotations" in part) + ("logprobs" in part) or part.get("annotations"):
        return None
    return text


_REASONING_KEYS: Final = frozenset({"type", "id", "summary", "content", "encrypted_content", "status"})


def _thought(item: Any, at: Path) -> Thought | None:
    """Reasoning of at most one summary text and with the proof of its own provider, or None."""
    proof, summary = item["encrypted_content"], item["summary"]
    if type(proof) is not str or not proof or proof.startswith(TAG) or type(summary) is not list or len(summary) > 1:
        return None
    if item.get("content") or not _REASONING_KEYS.issuperset(item):
        return None
    text = ""
    if summary:
        part = summary[0]
        text = part["text"]
        if part["type"] != "summary_text" or type(text) is not str:
            return None
    return text, at, DIALECT, proof, item

"""Calls of one conversation that have one id (mapping §11).

Some servers count their calls anew in every reply. Messages refuses a conversation with two calls of one id, and
Responses pairs calls and outputs by it, so every call but the first gets an id made of its own and of how often that
came before. What a call is called depends on what stands before it alone: a longer history extends a shorter one.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from dragoman.canonical.compact_turns import CompactAssistantTurn, CompactResultTurn
from dragoman.canonical.request import Request, Role, ToolCall, ToolResult, Turn
from dragoman.losses import LossCode, Losses
from dragoman.tools.names import sanitize_call_id

_ASSISTANT = Role.ASSISTANT
_LONGEST = 40


class CallPairing(NamedTuple):
    """What one look at a conversation tells of its calls, so that what has nothing to mend need not look again."""

    distinct: bool
    """Has every call an id of its own."""
    complete: bool
    """Is every call answered, once and in order, before the assistant's next turn, and is nothing else answered."""
    ids: list[str]
    """Those of the calls, and of the results where they are others."""
    whole: list[Turn]
    """The turns that are not in short: calls of anything but plain functions can only be among their parts."""
    calls: int
    """How many calls there are."""


def pair_calls(turns: list[Turn]) -> CallPairing:
    """How the calls of a conversation and their results go together."""
    called: list[tuple[Any, ...]] = []  # tuples that begin with an id, as short turns have them
    answered: list[tuple[Any, ...]] = []
    whole: list[Turn] = []
    in_step = True
    for turn in turns:
        if type(turn) is CompactAssistantTurn and (calls := turn.calls) is not None:
            if len(called) != len(answered):
                in_step = False
            called += calls
        elif type(turn) is CompactResultTurn and (results := turn.results) is not None:
            answered += results
        else:
            whole.append(turn)
            if turn.role is _ASSISTANT and len(called) != len(answered):
                in_step = False
            for part in turn.parts:
                if type(part) is ToolCall:
                    called.append((part.id,))
                elif type(part) is ToolResult:
                    answered.append((part.call_id,))
    ids = [call[0] for call in called]
    distinct = len(set(ids)) == len(ids)
    answers = [result[0] for result in answered]
    if ids == answers:
        return CallPairing(distinct, distinct and in_step, ids, whole, len(ids))
    return CallPairing(distinct, False, ids + answers, whole, len(ids))


def deduplicate_call_ids(request: Request, losses: Losses) -> None:
    """Give every call of the history an id that no other has, and its result the same, in place.

    To be called before anybody asks for the parts of a short turn.
    """
    _Renaming(losses).rename(request.turns)


class _Renaming:
    """One pass. `_waiting` has the new ids, by the old one, of the calls that the next results answer."""

    __slots__ = ("_losses", "_seen", "_waiting")

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._seen: dict[str, int] = {}
        self._waiting: dict[str, deque[str]] = {}

    def rename(self, turns: list[Turn]) -> None:
        answered = False
        for turn in turns:
            if turn.role is _ASSISTANT:
                if answered:  # whatever was not answered by now never is
                    self._waiting.clear()
                answered = False
                self._calls(turn)
            else:
                answered = True
                self._results(turn)

    def _calls(self, turn: Turn) -> None:
        if type(turn) is CompactAssistantTurn and turn.calls is not None:
            for place, call in enumerate(turn.calls):
                turn.calls[place] = (self._new(call[0], call[3]), *call[1:])
            return
        for part in turn.parts:
            if type(part) is ToolCall:
                part.id = self._new(part.id, part.at)

    def _results(self, turn: Turn) -> None:
        if type(turn) is CompactResultTurn and turn.results is not None:
            for place, result in enumerate(turn.results):
                turn.results[place] = (self._answered(result[0]), *result[1:])
            return
        for part in turn.parts:
            if type(part) is ToolResult:
                part.call_id = self._answered(part.call_id)

    def _new(self, call_id: str, at: tuple[str | int, ...]) -> str:
        times = self._seen.get(call_id, 0)
        self._seen[call_id] = times + 1
        new = call_id
        if times:
            new = sanitize_call_id(f"{call_id}:{times}", _LONGEST)
            self._losses.add(LossCode.CALL_ID, at, "another call before it has its id")
        waiting = self._waiting.get(call_id)
        if waiting is None:
            waiting = self._waiting[call_id] = deque()
        waiting.append(new)
        return new

    def _answered(self, call_id: str) -> str:
        waiting = self._waiting.get(call_id)
        return waiting.popleft() if waiting else call_id

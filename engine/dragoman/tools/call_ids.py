"""Calls of one conversation that have the same id (mapping §11).

Some servers number their calls from the beginning in every reply. Messages rejects a conversation with two calls of one
id, and Responses pairs calls and outputs by it. So every call but the first gets an id made of its own id and of the
number of earlier calls with it. The new id depends on earlier turns only: the translation of a longer history begins
with that of a shorter one.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from dragoman.canonical.request import Request, Role, Turn
from dragoman.losses import LossCode, Losses
from dragoman.tools.names import sanitize_call_id

_ASSISTANT = Role.ASSISTANT
_LONGEST = 40


class CallPairing(NamedTuple):
    """The calls and results of a conversation, from one pass, so that later steps can skip one that is in order."""

    distinct: bool
    """True if no two calls have the same id."""
    complete: bool
    """True if every call has one result, in order and before the assistant's next turn, and there is no other."""
    ids: list[str]
    """The ids of the calls, and of the results where they differ."""
    whole: list[Turn]
    """The turns that are not compact: only their parts can hold calls of other than plain functions."""
    calls: int
    """The number of calls."""


def pair_calls(turns: list[Turn]) -> CallPairing:
    """Returns how the calls of a conversation and their results pair up."""
    called: list[tuple[Any, ...]] = []  # tuples that begin with the id, as compact turns hold them
    answered: list[tuple[Any, ...]] = []
    whole: list[Turn] = []
    in_order = True
    for turn in turns:
        if (assistant := turn.compact_assistant()) is not None:
            if len(called) != len(answered):
                in_order = False
            called += assistant.calls or ()
        elif (compact := turn.compact_results()) is not None:
            answered += compact
        else:
            whole.append(turn)
            if turn.role is _ASSISTANT and len(called) != len(answered):
                in_order = False
            called += [(call_id,) for call_id in turn.call_ids()]
            answered += [(call_id,) for _, call_id in turn.result_ids()]
    calls = [call[0] for call in called]
    results = [result[0] for result in answered]
    distinct = len(set(calls)) == len(calls)
    if calls == results:
        return CallPairing(distinct, distinct and in_order, calls, whole, len(calls))
    return CallPairing(distinct, False, calls + results, whole, len(calls))


def deduplicate_call_ids(request: Request, losses: Losses) -> None:
    """Give every call of the history an id that no other call has, and its result the same id, in place."""
    _Renaming(losses).rename(request.turns)


class _Renaming:
    """One pass over a history. `_waiting`: by old id, the new ids of the calls whose results are still to come."""

    __slots__ = ("_losses", "_seen", "_waiting")

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._seen: dict[str, int] = {}
        self._waiting: dict[str, deque[str]] = {}

    def rename(self, turns: list[Turn]) -> None:
        had_results = False
        for turn in turns:
            if turn.role is _ASSISTANT:
                if had_results:  # A call without a result by now never gets one.
                    self._waiting.clear()
                had_results = False
                turn.rename_calls(self._call_id)
            else:
                had_results = True
                turn.rename_results(self._result_id)

    def _call_id(self, call_id: str, at: tuple[str | int, ...]) -> str:
        times = self._seen.get(call_id, 0)
        self._seen[call_id] = times + 1
        new = call_id
        if times:
            new = sanitize_call_id(f"{call_id}:{times}", _LONGEST)
            self._losses.add(LossCode.CALL_ID, at, "an earlier call has the same id")
        waiting = self._waiting.get(call_id)
        if waiting is None:
            waiting = self._waiting[call_id] = deque()
        waiting.append(new)
        return new

    def _result_id(self, call_id: str) -> str:
        waiting = self._waiting.get(call_id)
        return waiting.popleft() if waiting else call_id

"""Tool calls of a conversation that share an id (mapping §11).

Some servers number the calls of every reply from the start. Messages rejects a conversation in which two calls have
the same id, and Responses pairs calls and outputs by it. So every repeated id is replaced by one that is made of it and
of the number of earlier calls with it. The new id depends on earlier turns only: a longer history extends a shorter
one, and prompt caches stay valid.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from dragoman.canonical.request import Request
from dragoman.canonical.turn import Turn
from dragoman.errors import Path
from dragoman.losses import LossCode, Losses
from dragoman.tools.names import reply_id, sanitize_call_id

_LONGEST = 40


def mint_call_id(
    given: object, upstream_id: str, number: int, at: Path | str, record: Callable[[LossCode, Path | str, str], object]
) -> str:
    """Return an id for an upstream's call whose own id is missing or was used before, and record the loss.

    Args:
        given: the call's own id; None or empty if it has none.
        upstream_id: the id of the reply.
        number: a number of the call that is unique in the reply.
        at: the path of the call.
        record: `Losses.add` or `Losses.add_once`.
    """
    record(LossCode.CALL_ID, at, "a call with the id of another" if given else "a call without an id")
    return sanitize_call_id(f"{reply_id(upstream_id, 'call_')}_{number}", _LONGEST)


class CallPairing(NamedTuple):
    """The calls and results of a conversation, collected in one pass.

    Later stages skip their own pass if the pairing shows that they have nothing to change.
    """

    distinct: bool
    """True if no two calls have the same id."""
    complete: bool
    """True if each call has exactly one result, in order, before the next assistant turn, and there are no others."""
    ids: Sequence[str]
    """The ids of all calls, followed by those of the results if they differ."""
    full_turns: Sequence[Turn]
    """The turns that are not compact. Only these can hold calls of free-text or namespaced tools and tool searches."""
    calls: int
    """The number of calls."""


_TEXTS_ONLY: Final = CallPairing(True, True, (), (), 0)
"""The pairing of a conversation of compact turns without calls and results. Making one costs as much as ten turns."""


def pair_calls(turns: list[Turn]) -> CallPairing:
    """Collect the calls and results of a conversation and compare them."""
    called: list[tuple[Any, ...]] = []  # tuples that begin with the id, as compact turns hold them
    answered: list[tuple[Any, ...]] = []
    full_turns: list[Turn] = []
    in_order = True
    for turn in turns:
        compact = turn.compact
        if type(compact) is list:
            answered += compact
        elif turn.role == "assistant":
            if len(called) != len(answered):
                in_order = False
            if type(compact) is tuple:
                called += compact[4]
            else:
                full_turns.append(turn)
                called += [(call_id,) for call_id in turn.call_ids()]
        elif compact is None:
            full_turns.append(turn)
            if ids := turn.result_ids():
                answered += [(call_id,) for _, call_id in ids]
    if not called and not answered:
        return CallPairing(True, True, (), full_turns, 0) if full_turns else _TEXTS_ONLY
    calls = [call[0] for call in called]
    results = [result[0] for result in answered]
    distinct = len(set(calls)) == len(calls)
    if calls == results:
        return CallPairing(distinct, distinct and in_order, calls, full_turns, len(calls))
    return CallPairing(distinct, False, calls + results, full_turns, len(calls))


def deduplicate_call_ids(request: Request, losses: Losses) -> None:
    """Replace the repeated call ids of `request` in calls and their results, in place."""
    _IdDeduplicator(losses).rename(request.turns)


class _IdDeduplicator:
    """One pass over a conversation. `_pending_ids` holds, by original id, the ids of calls without a result so far."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._seen: dict[str, int] = {}
        self._pending_ids: dict[str, deque[str]] = {}

    def rename(self, turns: list[Turn]) -> None:
        had_results = False
        for turn in turns:
            if turn.role == "assistant":
                if had_results:  # results follow their calls at once: a call without one by now never gets one
                    self._pending_ids.clear()
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
        pending = self._pending_ids.get(call_id)
        if pending is None:
            pending = self._pending_ids[call_id] = deque()
        pending.append(new)
        return new

    def _result_id(self, call_id: str) -> str:
        pending = self._pending_ids.get(call_id)
        return pending.popleft() if pending else call_id

"""Calls without results and results without calls (mapping §13).

One pass over the turns changes only what is wrong; a history in order (`call_ids.pair_calls`) needs none.
The repair of a call depends on the turns around it and is made at its place, so the repair of a longer history begins
with that of a shorter one. For the same reason a late result is dropped and not moved back to its call.
"""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.canonical.parts import Part, Reasoning, Text, ToolCall, ToolResult
from dragoman.canonical.request import Request
from dragoman.canonical.turn import Turn
from dragoman.errors import Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses

NO_RESULT = "no result recorded"


def repair_history(
    request: Request, knobs: Knobs, losses: Losses, *, flagged: bool = True, verified: bool = True
) -> None:
    """Give every call one result in the user turns after it and leave every other result out, in place.

    The results of consecutive assistant turns are in the user turns that follow them; instructions in between are
    skipped. Calls of the last assistant turns are no orphans, as the client is still to run them. `flagged`: the
    upstream has an error flag for an added result. `verified`: it checks that nothing around signed reasoning changed.
    Raises `Unsupported` if the `orphans` knob is `reject`.
    """
    turns = request.turns
    pending: dict[str, bool] = {}
    open_runs: list[_Run] = []
    first = last = 0
    results: Turn | None = None
    answered = False
    for index, turn in enumerate(turns):
        role = turn.role
        if role == "assistant":
            if answered:
                if pending:
                    open_runs.append(_Run(first, last, results, _calls(turns[first : last + 1], pending)))
                    pending.clear()
                first, results, answered = index, None, False
            last = index
            pending.update(dict.fromkeys(turn.call_ids(), True))
        elif role == "user":
            found = turn.result_ids()
            if not found and turn.is_empty():
                continue
            strays: list[int] = []
            for place, call_id in found:
                if not pending.pop(call_id, False):
                    strays.append(place)
                elif results is None:
                    results = turn
            answered = True
            if strays:
                _drop(turn, strays, knobs, losses)
    if answered and pending:
        open_runs.append(_Run(first, last, results, _calls(turns[first : last + 1], pending)))
    if not open_runs:
        return
    if knobs.orphans == "reject":
        raise Unsupported(open_runs[0].orphans[0].at, "the conversation holds no result of this call")
    if knobs.orphans == "strip":
        for run in open_runs:
            _strip(turns[run.first : run.last + 1], run.orphans, losses, verified)
    else:
        _repair(turns, open_runs, flagged)
        for run in open_runs:
            for orphan in run.orphans:
                losses.add(LossCode.ORPHAN_REPAIRED, orphan.at, "an error result was added")


class _Run:
    """Consecutive assistant turns: their indexes, the first user turn with a result, the calls without one."""

    def __init__(self, first: int, last: int, results: Turn | None, orphans: list[ToolCall]) -> None:
        self.first, self.last, self.results, self.orphans = first, last, results, orphans


def _calls(turns: list[Turn], pending: Iterable[str]) -> list[ToolCall]:
    """Return the calls that have these ids."""
    calls = {part.id: part for turn in turns for part in turn.parts if type(part) is ToolCall}
    return [calls[call_id] for call_id in pending]


def _drop(turn: Turn, strays: list[int], knobs: Knobs, losses: Losses) -> None:
    parts = turn.parts
    for place in strays:
        stray = parts[place]
        assert type(stray) is ToolResult
        if knobs.orphans == "reject":
            raise Unsupported(stray.at, f"no call {stray.call_id!r} comes before this result")
        losses.add(LossCode.ORPHAN_DROPPED, stray.at, "no call comes before this result")
    gone = frozenset(strays)
    turn.parts = [part for place, part in enumerate(parts) if place not in gone]


def _repair(turns: list[Turn], runs: list[_Run], flagged: bool) -> None:
    """Add the missing results, in turns of their own where no user turn holds another result of the run."""
    added: dict[int, Turn] = {}
    for run in runs:
        results: list[Part] = [
            ToolResult(
                call.id,
                NO_RESULT,
                call.at,
                flagged or call.built_in != "",  # such outputs have a place for it in Responses too
                custom=call.custom,
                search=call.search,
                built_in=call.built_in,
            )
            for call in run.orphans
        ]
        if run.results is None:
            added[run.last] = Turn("user", results, run.orphans[0].at)
            continue
        parts = run.results.parts
        after = max(index for index, part in enumerate(parts) if type(part) is ToolResult) + 1
        run.results.parts = [*parts[:after], *results, *parts[after:]]
    if added:
        # One pass: to insert them one by one would move the rest of the history for each.
        whole: list[Turn] = []
        for index, turn in enumerate(turns):
            whole.append(turn)
            if index in added:
                whole.append(added[index])
        turns[:] = whole


def _strip(turns: list[Turn], orphans: list[ToolCall], losses: Losses, verified: bool) -> None:
    """Leave the calls out. That changes their turns, so signed reasoning in them is invalid: it becomes text."""
    gone = {id(call) for call in orphans}
    for turn in turns:
        if not any(id(part) in gone for part in turn.parts):
            continue
        kept: list[Part] = []
        for part in turn.parts:
            if id(part) in gone:
                losses.add(LossCode.ORPHAN_DROPPED, part.at, "the call has no result")
            elif verified and type(part) is Reasoning and part.proof is not None:
                losses.add(LossCode.THINKING_INVALIDATED, part.at, "became plain text" if part.text else "dropped")
                if part.text:
                    kept.append(Text(part.text, part.at))
            else:
                kept.append(part)
        turn.parts = kept

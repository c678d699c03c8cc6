"""Calls without results and results without calls (mapping §13).

One pass over the turns, which are touched only where something is wrong; a history whose calls are all settled
(`call_ids.pairing`) needs none. What happens to a call depends on the turns
around it alone and happens at its place, so the repair of a longer history extends the repair of the shorter one; that
is also why a result that comes too late is dropped and not fetched back to its call.
"""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.canonical.compact_turns import CompactAssistantTurn, CompactResultTurn
from dragoman.canonical.request import Part, Reasoning, Request, Role, Text, ToolCall, ToolResult, Turn
from dragoman.errors import Unsupported
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses
from dragoman.policies.turns import is_empty

NO_RESULT = "no result recorded"

# Member access on an enum class costs more than the comparison.
_USER = Role.USER
_ASSISTANT = Role.ASSISTANT


def repair_history(
    request: Request, knobs: Knobs, losses: Losses, *, flagged: bool = True, verified: bool = True
) -> None:
    """Give every call one result in the user turns after it and leave every other result out, in place.

    Calls of consecutive assistant turns are answered by the user turns that follow them; instructions in between count
    for nothing. Calls of the last assistant turns are no orphans: the client is still to run them. `flagged` says that
    the upstream has an error flag for an added result, `verified` that it checks what signed thinking stands beside.
    Raises `Unsupported` where the `orphans` knob says `reject`.
    """
    turns = request.turns
    pending: dict[str, bool] = {}
    open_runs: list[_Run] = []
    first = last = 0
    results: Turn | None = None
    answered = False
    for index, turn in enumerate(turns):
        role = turn.role
        if role is _ASSISTANT:
            if answered:
                if pending:
                    open_runs.append(_Run(first, last, results, _calls(turns[first : last + 1], pending)))
                    pending.clear()
                first, results, answered = index, None, False
            last = index
            if type(turn) is CompactAssistantTurn and turn.calls is not None:
                for call in turn.calls:
                    pending[call[0]] = True
            else:
                for part in turn.parts:
                    if type(part) is ToolCall:
                        pending[part.id] = True
        elif role is _USER:
            strays: list[int] = []
            place = 0
            if type(turn) is CompactResultTurn and turn.results is not None:
                for result in turn.results:
                    if not pending.pop(result[0], False):
                        strays.append(place)
                    elif results is None:
                        results = turn
                    place += 1
            elif is_empty(turn):
                continue
            else:
                for part in turn.parts:
                    if type(part) is ToolResult:
                        if not pending.pop(part.call_id, False):
                            strays.append(place)
                        elif results is None:
                            results = turn
                    place += 1
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
    """Consecutive assistant turns: their indexes, the first user turn that answers them, the calls left open."""

    __slots__ = ("first", "last", "orphans", "results")

    def __init__(self, first: int, last: int, results: Turn | None, orphans: list[ToolCall]) -> None:
        self.first, self.last, self.results, self.orphans = first, last, results, orphans


def _calls(turns: list[Turn], pending: Iterable[str]) -> list[ToolCall]:
    """The calls of these ids."""
    calls = {part.id: part for turn in turns for part in turn.parts if type(part) is ToolCall}
    return [calls[call_id] for call_id in pending]


def _drop(turn: Turn, strays: list[int], knobs: Knobs, losses: Losses) -> None:
    parts = turn.parts
    for place in strays:
        stray = parts[place]
        assert type(stray) is ToolResult
        if knobs.orphans == "reject":
            raise Unsupported(stray.at, f"no call {stray.call_id!r} waits for this result")
        losses.add(LossCode.ORPHAN_DROPPED, stray.at, "no call waits for this result")
    gone = frozenset(strays)
    turn.parts = [part for place, part in enumerate(parts) if place not in gone]


def _repair(turns: list[Turn], runs: list[_Run], flagged: bool) -> None:
    """Add the missing results, in turns of their own where no user turn holds another result of the run."""
    added: dict[int, Turn] = {}
    for run in runs:
        results: list[Part] = [
            ToolResult(call.id, NO_RESULT, call.at, is_error=flagged, custom=call.custom, search=call.search)
            for call in run.orphans
        ]
        if run.results is None:
            added[run.last] = Turn(Role.USER, results, run.orphans[0].at)
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
    """Take the calls out. That edits their turns, so signed thinking in them would no longer pass: it becomes text."""
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

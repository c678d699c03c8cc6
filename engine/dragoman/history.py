"""Calls without results and results without calls (mapping §13).

One pass over the turns, which are touched only where something is wrong. What happens to a call depends on the turns
around it alone and happens at its place, so the repair of a longer history extends the repair of the shorter one; that
is also why a result that comes too late is dropped and not fetched back to its call.
"""

from __future__ import annotations

from .errors import Unsupported
from .knobs import Knobs
from .losses import Code, Losses
from .model import Part, Reasoning, Request, Role, Text, ToolCall, ToolResult, Turn

NO_RESULT = "no result recorded"

# Member access on an enum class costs more than the comparison.
_USER = Role.USER
_ASSISTANT = Role.ASSISTANT


def repair_history(request: Request, knobs: Knobs, losses: Losses) -> None:
    """Give every call one result in the user turns after it and leave every other result out, in place.

    Calls of consecutive assistant turns are answered by the user turns that follow them; instructions in between count
    for nothing. Calls of the last assistant turns are no orphans: the client is still to run them. Raises `Unsupported`
    where the `orphans` knob says `reject`.
    """
    turns = request.turns
    pending: dict[str, ToolCall] = {}
    open_runs: list[_Run] = []
    run = _Run()
    answered = False
    for index, turn in enumerate(turns):
        role = turn.role
        if role is _ASSISTANT:
            if answered:
                if pending:
                    run.orphans = list(pending.values())
                    open_runs.append(run)
                    pending.clear()
                run, answered = _Run(index), False
            run.last = index
            for part in turn.parts:
                if type(part) is ToolCall:
                    pending[part.id] = part
        elif role is _USER and not _is_empty(turn):
            answered = True
            strays = None
            for part in turn.parts:
                if type(part) is ToolResult:
                    if pending.pop(part.call_id, None) is None:
                        strays = [part] if strays is None else [*strays, part]
                    elif run.results is None:
                        run.results = turn
            if strays is not None:
                _drop(turn, strays, knobs, losses)
    if answered and pending:
        run.orphans = list(pending.values())
        open_runs.append(run)
    if not open_runs:
        return
    if knobs.orphans == "reject":
        raise Unsupported(open_runs[0].orphans[0].at, "the conversation holds no result of this call")
    if knobs.orphans == "strip":
        for run in open_runs:
            _strip(turns[run.first : run.last + 1], run.orphans, losses)
    else:
        # From the end, so that the indexes of earlier runs stay right.
        for run in reversed(open_runs):
            _repair(turns, run)
        for run in open_runs:
            for call in run.orphans:
                losses.add(Code.ORPHAN_REPAIRED, call.at, "an error result was added")


class _Run:
    """Consecutive assistant turns: their indexes, the first user turn that answers them, the calls left open."""

    __slots__ = ("first", "last", "orphans", "results")

    def __init__(self, first: int = 0) -> None:
        self.first = self.last = first
        self.results: Turn | None = None
        self.orphans: list[ToolCall] = []


def _is_empty(turn: Turn) -> bool:
    """A turn that the writers leave out, as if the client had not sent it."""
    parts = turn.parts
    if len(parts) == 1:
        part = parts[0]
        return type(part) is Text and not part.text
    return not parts


def _drop(turn: Turn, strays: list[ToolResult], knobs: Knobs, losses: Losses) -> None:
    for stray in strays:
        if knobs.orphans == "reject":
            raise Unsupported(stray.at, f"no call {stray.call_id!r} waits for this result")
        losses.add(Code.ORPHAN_DROPPED, stray.at, "no call waits for this result")
    gone = {id(stray) for stray in strays}
    turn.parts = [part for part in turn.parts if id(part) not in gone]


def _repair(turns: list[Turn], run: _Run) -> None:
    results: list[Part] = [
        ToolResult(call.id, NO_RESULT, call.at, is_error=True, custom=call.custom, search=call.search)
        for call in run.orphans
    ]
    if run.results is None:
        turns.insert(run.last + 1, Turn(Role.USER, results, run.orphans[0].at))
        return
    parts = run.results.parts
    after = max(index for index, part in enumerate(parts) if type(part) is ToolResult) + 1
    run.results.parts = [*parts[:after], *results, *parts[after:]]


def _strip(turns: list[Turn], orphans: list[ToolCall], losses: Losses) -> None:
    """Take the calls out. That edits their turns, so signed thinking in them would no longer pass: it becomes text."""
    gone = {id(call) for call in orphans}
    for turn in turns:
        if not any(id(part) in gone for part in turn.parts):
            continue
        kept: list[Part] = []
        for part in turn.parts:
            if id(part) in gone:
                losses.add(Code.ORPHAN_DROPPED, part.at, "the call has no result")
            elif type(part) is Reasoning and part.proof is not None:
                losses.add(Code.THINKING_INVALIDATED, part.at, "became plain text" if part.text else "dropped")
                if part.text:
                    kept.append(Text(part.text, part.at))
            else:
                kept.append(part)
        turn.parts = kept

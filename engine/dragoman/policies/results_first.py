"""Tool results right behind their calls, and together, for servers of Responses that want them so (mapping §6.4, §13).

Responses itself lets items stand in any order, and its writer keeps the client's; the writers of Chat and Messages put
results first in any case, as those dialects demand it.
"""

from __future__ import annotations

from dragoman.canonical.parts import Part, ToolResult
from dragoman.canonical.request import Request
from dragoman.canonical.turn import Turn
from dragoman.losses import LossCode, Losses


def put_results_first(request: Request, losses: Losses) -> None:
    """Between two turns of the assistant's, move what stands before or among results behind them, in place."""
    turns = request.turns
    out: list[Turn] = []
    start = 0
    for index in range(len(turns) + 1):
        if index == len(turns) or turns[index].role == "assistant":
            run = turns[start:index]
            out += _ordered(run, losses) if _is_mixed(run) else run
            if index < len(turns):
                out.append(turns[index])
            start = index + 1
    request.turns = out


def _is_mixed(run: list[Turn]) -> bool:
    """True if other content comes before a result."""
    other = False
    for turn in run:
        if turn.role == "instruction":
            other = True
        elif turn.has_results():
            if other or not _begins_with_results(turn):
                return True
            other = turn.has_content()
        else:
            other = other or turn.has_content()
    return False


def _begins_with_results(turn: Turn) -> bool:
    if not turn.has_content():
        return True
    others = False
    for part in turn.parts:
        if type(part) is not ToolResult:
            others = True
        elif others:
            return False
    return True


def _ordered(run: list[Turn], losses: Losses) -> list[Turn]:
    results: list[Part] = []
    rest: list[Turn] = []
    at = next(turn.at for turn in run if turn.has_results())
    last = max(index for index, turn in enumerate(run) if turn.has_results())
    for index, turn in enumerate(run):
        if turn.role == "instruction":
            if index < last:
                losses.add(LossCode.SYSTEM_REORDERED, turn.at, "moved after the tool results")
            rest.append(turn)
            continue
        parts = turn.parts
        results += [part for part in parts if type(part) is ToolResult]
        others = [part for part in parts if type(part) is not ToolResult]
        if not others:
            continue
        if index < last or not _begins_with_results(turn):
            losses.add(LossCode.BLOCK_ORDER, turn.at, "moved after the tool results")
        rest.append(Turn(turn.role, others, turn.at, turn.original, turn.plain, turn.name))
    return [Turn("user", results, at), *rest]

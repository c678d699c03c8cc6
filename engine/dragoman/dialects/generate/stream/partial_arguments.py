"""Arguments of a call that arrive in pieces, each at a JSON path (`FunctionCall.partialArgs` of Vertex's reference).

A string may have several pieces, which are joined; any other value has one.
"""

from __future__ import annotations

import re
from typing import Any, Final

from dragoman.canonical.request import Json
from dragoman.dialects.shared.streamed_arguments import ReplyBudget
from dragoman.errors import UpstreamProtocolError

_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d{1,6})\]|\[(?:'([^']*)'|\"([^\"]*)\")\]")
_VALUES: Final = ("numberValue", "boolValue")
_DEEPEST: Final = 100
_Step = str | int


class PartialArguments:
    """The arguments of one call so far."""

    __slots__ = ("_budget", "_name", "_root")

    def __init__(self, name: str, budget: ReplyBudget) -> None:
        self._name = name
        self._budget = budget
        self._root: Json = {}

    def add(self, pieces: Any) -> None:
        """Add a list of pieces. Raises UpstreamProtocolError for one that does not fit, LimitExceeded."""
        if type(pieces) is not list:
            raise self._error("partialArgs that are not an array")
        for piece in pieces:
            if type(piece) is not dict or type(path := piece.get("jsonPath")) is not str:
                raise self._error("a partial argument without a path")
            self._budget.take(len(path))
            self._put(_steps(path), piece)

    def whole(self, given: Json) -> Json:
        """Return all arguments: those of the pieces, over those that came complete."""
        return {**given, **self._root}

    def _put(self, steps: list[_Step] | None, piece: Json) -> None:
        if not steps or len(steps) > _DEEPEST or type(steps[0]) is int:
            raise self._error("a partial argument with a path that is not understood")
        holder: Any = self._root
        for number, step in enumerate(steps):
            self._check(holder, step)
            if number == len(steps) - 1:
                holder[step] = self._value(holder[step] if _has(holder, step) else None, piece)
            else:
                if not _has(holder, step):
                    _set(holder, step, [] if type(steps[number + 1]) is int else {})
                holder = holder[step]

    def _check(self, holder: Any, step: _Step) -> None:
        """Raise UpstreamProtocolError unless `step` leads into `holder`. An array grows by one item at a time."""
        if type(step) is int and type(holder) is list and step <= len(holder):
            if step == len(holder):
                holder.append(None)
        elif type(step) is not str or type(holder) is not dict:
            raise self._error("partial arguments that contradict each other")

    def _value(self, before: Any, piece: Json) -> Any:
        if "stringValue" in piece:
            text = piece["stringValue"]
            if type(text) is not str or not (before is None or type(before) is str):
                raise self._error("partial arguments that contradict each other")
            self._budget.take(len(text))
            return (before or "") + text
        if before is not None:
            raise self._error("partial arguments that contradict each other")
        return next((piece[key] for key in _VALUES if key in piece), None)

    def _error(self, what: str) -> UpstreamProtocolError:
        return UpstreamProtocolError(f"upstream sent {what} in the call of {self._name!r}")


def _has(holder: Any, step: Any) -> bool:
    return step in holder if type(holder) is dict else holder[step] is not None


def _set(holder: Any, step: Any, value: Any) -> None:
    holder[step] = value


def _steps(path: str) -> list[_Step] | None:
    """Return the steps of a path such as `$.items[0].name`, or None if it has another form."""
    if not path.startswith("$"):
        return None
    steps: list[_Step] = []
    at = 1
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            return None
        name, number, single, double = found.groups()
        steps.append(int(number) if number is not None else next(n for n in (name, single, double) if n is not None))
        at = found.end()
    return steps

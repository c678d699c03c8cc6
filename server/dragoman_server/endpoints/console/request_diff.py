"""The structural difference between the request of a client and the request that the upstream gets.

Whole parts are compared before their members: a part with the same content at another path was moved, or renamed if
only its last name differs. What was found in neither way was dropped, or added. Each loss is shown at its place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any

from dragoman.wire import Json, json_dumps

Path = tuple[str | int, ...]
BODY_MAX = 1 << 20
"""Longest body that is compared, in bytes: each part of it is serialized once for each level above it."""
ROWS_MAX = 500
"""Most rows of a difference."""
EXCERPT_MAX = 160
"""Longest excerpt of a value, in characters."""
_DEPTH_MAX = 40
"""Parts below this depth are compared as a whole."""


class FieldChange(StrEnum):
    """The kinds of rows."""

    MOVED = "moved"
    RENAMED = "renamed"
    CHANGED = "changed"
    DROPPED = "dropped"
    ADDED = "added"
    LOSS = "loss"


def request_diff(received: Any, sent: Any, losses: Sequence[Json]) -> list[Json]:
    """Return the rows of the difference. `losses` are those of an explanation or a receipt.

    A row has `change`, `path` (in the request received) and `to` (in the request sent), excerpts of both values as
    `before` and `after`, and the `losses` at its path. A loss without a difference at its path has a row of its own.
    """
    return _Comparison(received, sent).rows(losses)


class _Comparison:
    def __init__(self, received: Any, sent: Any) -> None:
        self._received = received
        self._sent = sent
        self._places: defaultdict[bytes, list[Path]] = defaultdict(list)
        """Paths in the request sent by content."""
        self._used: set[Path] = set()
        """Paths in the request sent whose content is explained."""
        self._partly_used: set[Path] = set()
        """These paths, and those of all parts that contain them."""
        self._rows: list[Json] = []

    def rows(self, losses: Sequence[Json]) -> list[Json]:
        for path, value in _parts(self._sent, ()):
            if path and not _is_trivial(value):
                self._places[_content(value)].append(path)
        self._keep(self._received, self._sent, ())
        rows, _ = self._visit(self._received, ())
        self._partly_used = {path[:length] for path in self._used for length in range(len(path) + 1)}
        rows += self._added(self._sent, ())
        rows = _with_losses(rows, losses)
        if len(rows) > ROWS_MAX:
            rows.sort(key=lambda row: not row["losses"])
        return rows[:ROWS_MAX]

    def _keep(self, received: Any, sent: Any, path: Path) -> None:
        """Mark the parts that are equal at the same path, so that nothing else is taken for them."""
        if received == sent and type(received) is type(sent):
            self._used.add(path)
            return
        for key, value in _members(received):
            inner = _lookup(sent, (key,))
            if inner is not _ABSENT and len(path) < _DEPTH_MAX:
                self._keep(value, inner, (*path, key))

    def _visit(self, value: Any, path: Path) -> tuple[list[Json], bool]:
        """Return the rows of a part of the request received, and True if all of it was dropped."""
        if path in self._used and _lookup(self._sent, path) == value:
            return [], False
        if path and (place := self._find(value, path)) is not None:
            self._used.add(place)
            renamed = place[:-1] == path[:-1] and isinstance(place[-1], str)
            return [_row(FieldChange.RENAMED if renamed else FieldChange.MOVED, path, place, value, value)], False
        members = list(_members(value)) if len(path) < _DEPTH_MAX else []
        if not members:
            other = _lookup(self._sent, path)
            if other is not _ABSENT and path not in self._used and not list(_members(other)):
                self._used.add(path)
                return [_row(FieldChange.CHANGED, path, path, value, other)], False
            return [_row(FieldChange.DROPPED, path, None, value, None)], True
        rows: list[Json] = []
        dropped = True
        for key, inner in members:
            more, all_dropped = self._visit(inner, (*path, key))
            rows += more
            dropped &= all_dropped
        if dropped and path:
            return [_row(FieldChange.DROPPED, path, None, value, None)], True
        return rows, dropped

    def _find(self, value: Any, path: Path) -> Path | None:
        """Return the path of the same content in the request sent; of several, that with the most similar path."""
        if _is_trivial(value):
            return None
        free = [place for place in self._places.get(_content(value), ()) if not self._is_used(place)]
        return max(free, key=lambda place: _similarity(path, place), default=None)

    def _is_used(self, path: Path) -> bool:
        return any(path[:length] in self._used for length in range(len(path) + 1))

    def _added(self, value: Any, path: Path) -> Iterator[Json]:
        """Yield rows for the parts of the request sent that come from nowhere."""
        if path in self._used:
            return
        if path and path not in self._partly_used:
            yield _row(FieldChange.ADDED, None, path, None, value)
            return
        for key, inner in _members(value):
            yield from self._added(inner, (*path, key))


_ABSENT = object()


def _members(value: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def _parts(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    yield path, value
    if len(path) < _DEPTH_MAX:
        for key, inner in _members(value):
            yield from _parts(inner, (*path, key))


def _lookup(value: Any, path: Path) -> Any:
    for key in path:
        if isinstance(key, int):
            value = value[key] if isinstance(value, list) and key < len(value) else _ABSENT
        else:
            value = value.get(key, _ABSENT) if isinstance(value, dict) else _ABSENT
    return value


def _is_trivial(value: Any) -> bool:
    """True for values that are equal by chance: finding one elsewhere does not show that it was moved."""
    return value is None or isinstance(value, bool) or value in ("", [], {})


def _similarity(one: Path, other: Path) -> tuple[int, int]:
    same_end = sum(1 for a, b in zip(reversed(one), reversed(other), strict=False) if a == b)
    same_start = sum(1 for a, b in zip(one, other, strict=False) if a == b)
    return same_end, same_start


def _content(value: Any) -> bytes:
    return json_dumps(value)


def _row(change: FieldChange, path: Path | None, to: Path | None, before: Any, after: Any) -> Json:
    return {
        "change": change.value,
        "path": _dotted(path) if path is not None else None,
        "to": _dotted(to) if to is not None else None,
        "before": _excerpt(before) if path is not None else None,
        "after": _excerpt(after) if to is not None else None,
        "losses": [],
    }


def _dotted(path: Path) -> str:
    """Return a path in the form of loss rows: `messages[3].content[0]`."""
    out = ""
    for key in path:
        out += f"[{key}]" if isinstance(key, int) else f".{key}" if out else key
    return out


def _excerpt(value: Any) -> str:
    text = json_dumps(value).decode("utf-8", "replace")
    return text if len(text) <= EXCERPT_MAX else f"{text[: EXCERPT_MAX - 1]}…"


def _with_losses(rows: list[Json], losses: Sequence[Json]) -> list[Json]:
    """Add each loss to the row with the nearest path, or a row of its own."""
    for loss in losses:
        path = str(loss["path"])
        best, score = None, -1
        for row in rows:
            at = row["path"]
            if at is not None and (near := _nearness(path, at)) > score:
                best, score = row, near
        if best is None:
            best = _row(FieldChange.LOSS, None, None, None, None)
            best["path"] = path
            rows.append(best)
        best["losses"].append(loss)
    return rows


def _nearness(loss: str, path: str) -> int:
    """Return a number that is higher the nearer a row's path is to a loss's; -1 if neither contains the other."""
    if loss == path:
        return len(path) + 1
    if loss.startswith(path) and loss[len(path)] in ".[":
        return len(path)
    return 0 if path.startswith(loss) and loss and path[len(loss)] in ".[" else -1

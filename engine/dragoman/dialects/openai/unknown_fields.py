"""Content of Chat and Responses requests: cache marks, data URLs, and fields that no dialect knows."""

from __future__ import annotations

from dragoman.canonical.request import Json
from dragoman.errors import Path
from dragoman.losses import LossCode, Losses


def note_unknown(body: Json, known: frozenset[str], at: Path, losses: Losses) -> None:
    """A row for each key that the dialect does not define, unless it is empty.

    Clients replay replies as they came, with `audio: null`, `annotations: []` and the like: nothing is lost with those.
    """
    if known.issuperset(body):
        return
    for key, value in body.items():
        if key not in known and value is not None and value != [] and value != "" and value != {}:
            losses.add(LossCode.UNKNOWN_FIELD, (*at, key))

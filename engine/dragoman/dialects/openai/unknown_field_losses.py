"""Loss rows for fields of a Chat or Responses request that the API does not define."""

from __future__ import annotations

from dragoman.canonical.request import Json
from dragoman.errors import Path
from dragoman.losses import LossCode, Losses


def note_unknown(body: Json, known: frozenset[str], at: Path, losses: Losses) -> None:
    """Record a loss for each key of the object at `at` that is not in `known`, unless its value is empty.

    Clients replay replies unchanged, with `audio: null`, `annotations: []` and similar: dropping those loses nothing.
    """
    if known.issuperset(body):
        return
    for key, value in body.items():
        if key not in known and value is not None and value != [] and value != "" and value != {}:
            losses.add(LossCode.UNKNOWN_FIELD, (*at, key))

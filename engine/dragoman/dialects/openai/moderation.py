"""The moderation of a reply, in the forms of Chat and of Responses.

Both have an `input` and an `output`. Chat has a list of results on each side (`moderation_results`), Responses a single
one (`moderation_result`); an error (`error`) is the same in both. The canonical form is Chat's.
"""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.request import Json
from dragoman.losses import LossCode, Losses

_SIDES: Final = ("input", "output")


def read_response_moderation(moderation: Any) -> Json | None:
    """Return the moderation of a Response object in Chat's form, or None if it is not an object."""
    if type(moderation) is not dict:
        return None
    return {key: _listed(value) if key in _SIDES else value for key, value in moderation.items()}


def write_response_moderation(moderation: Json, losses: Losses) -> Json:
    """Return a moderation in the form of Responses.

    Of several results of one side, the first that is flagged is kept, else the first.
    """
    return {key: _single(value, key, losses) if key in _SIDES else value for key, value in moderation.items()}


def _listed(side: Any) -> Any:
    if type(side) is not dict or side.get("type") != "moderation_result":
        return side
    return {"type": "moderation_results", "model": side.get("model", ""), "results": [side]}


def _single(side: Any, name: str, losses: Losses) -> Any:
    results = side.get("results") if type(side) is dict else None
    if type(results) is not list or not results:
        return side
    if len(results) > 1:
        losses.add(LossCode.UNKNOWN_FIELD, ("moderation", name, "results"), "reduced to one result")
    return next((result for result in results if type(result) is dict and result.get("flagged")), results[0])

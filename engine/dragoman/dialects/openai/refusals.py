"""Refusals of a Messages model, as Chat and Responses show them."""

from __future__ import annotations

from dragoman.canonical.events import Stop, StopReason

DECLINED = "The model declined to answer."
"""Stands in `refusal` where a Messages upstream refused without saying why."""


def is_model_refusal(stop: Stop) -> bool:
    """Did a Messages upstream refuse (in distinction from a filter that cut a reply)."""
    return stop.reason is StopReason.FILTERED and stop.native == "refusal"

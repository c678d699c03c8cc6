"""Refusals of Messages models, in the form of Chat and Responses (mapping §9.3)."""

from __future__ import annotations

from dragoman.canonical.events import Stop, StopReason

DECLINED = "The model declined to answer."
"""Text of `refusal` if a Messages upstream gives no explanation."""


def is_model_refusal(stop: Stop) -> bool:
    """True if a Messages model refused. False if a filter cut the reply."""
    return stop.reason is StopReason.FILTERED and (stop.native or "").lower() == "refusal"

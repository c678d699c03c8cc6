"""Fields and words that Chat and Responses have in common."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.events import Stop, StopReason

CACHE_KEYS = ("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention")


DECLINED = "The model declined to answer."
"""Stands in `refusal` where a Messages upstream refused without saying why."""


def read_created(value: Any) -> int | None:
    """A reply's time in whole seconds, or None for what is no time. Some servers give fractions."""
    if type(value) is not int and type(value) is not float:
        return None
    return int(value) if 0 <= value < 2**53 else None


def is_model_refusal(stop: Stop) -> bool:
    """Did a Messages upstream refuse (in distinction from a filter that cut a reply)."""
    return stop.reason is StopReason.FILTERED and stop.native == "refusal"

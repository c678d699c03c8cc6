"""Refusals of upstreams that explain them, in the form of Chat and Responses (mapping §9.3)."""

from __future__ import annotations

from dragoman.canonical.events import RefusalInfo, Stop, StopReason

_FILTERED = StopReason.FILTERED  # CPython 3.11 takes a thousand instructions to find a member in its class
DECLINED = "The model declined to answer."
"""Text of `refusal` if the upstream gives no explanation."""


def is_model_refusal(stop: Stop, info: RefusalInfo | None) -> bool:
    """True if the upstream refused. False if a filter cut the reply that explains nothing, as OpenAI's does."""
    return stop.reason is _FILTERED and (info is not None or (stop.native or "").lower() == "refusal")

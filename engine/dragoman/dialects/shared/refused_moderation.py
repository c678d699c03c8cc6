"""Moderation, which only the API of OpenAI has (mapping §8.1)."""

from __future__ import annotations

from dragoman.canonical.request import Json
from dragoman.errors import Unsupported
from dragoman.losses import LossCode, Losses


def refuse_moderation(moderation: Json, losses: Losses, api: str) -> None:
    """Drop the request for scores. Raises `Unsupported` if it blocks requests or replies; `api` is the upstream's."""
    policy = moderation.get("policy")
    sides = (moderation, *policy.values()) if type(policy) is dict else (moderation,)
    if any(type(side) is dict and side.get("mode") == "block" for side in sides):
        raise Unsupported(("moderation",), f"blocking moderation cannot be sent to a {api} upstream")
    losses.add(LossCode.MODERATION, ("moderation",))

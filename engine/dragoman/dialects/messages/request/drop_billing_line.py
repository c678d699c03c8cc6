"""Drops Claude Code's billing line from requests that are passed through to another provider than Anthropic."""

from __future__ import annotations

from dragoman.canonical.request import Json
from dragoman.losses import LossCode, Losses
from dragoman.policies.drop_billing_line import BILLING_LINE, BILLING_LINE_DROPPED, without_first_line


def strip_billing_line(payload: Json, losses: Losses) -> bool:
    """Drop the billing line from the head of `system`. Returns True if there was one.

    `payload` is changed in place at its top level only; the system blocks are replaced, not changed.
    """
    system = payload.get("system")
    if type(system) is str:
        if not system.startswith(BILLING_LINE):
            return False
        losses.add(LossCode.REQUEST_NOISE, ("system",), BILLING_LINE_DROPPED)
        _set_system(payload, without_first_line(system))
        return True
    if type(system) is not list or not system:
        return False
    first = system[0]
    text = first.get("text") if type(first) is dict else None
    if type(text) is not str or not text.startswith(BILLING_LINE):
        return False
    losses.add(LossCode.REQUEST_NOISE, ("system", 0), BILLING_LINE_DROPPED)
    rest = without_first_line(text)
    _set_system(payload, [{**first, "text": rest}, *system[1:]] if rest else system[1:])
    return True


def _set_system(payload: Json, system: object) -> None:
    if system:
        payload["system"] = system
    else:
        del payload["system"]

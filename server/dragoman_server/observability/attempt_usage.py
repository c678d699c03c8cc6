"""The token counts of a request that was sent several times: upstreams may charge for each reply that had begun."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import NamedTuple

from dragoman import DragomanError, Translation, UpstreamError, Usage

_COUNTS = tuple(spec.name for spec in fields(Usage) if spec.name != "other_models")
Counted = tuple[Usage | None, tuple[str, ...]]
"""Counts, if any are known, and the names of those that are estimates."""


class AttemptUsage(NamedTuple):
    """The usage of an attempt that another one followed: its model, the counts, and the names of those estimated."""

    model: str
    usage: Usage
    estimated: tuple[str, ...]


def has_begun(error: DragomanError) -> bool:
    """True if a part of the whole reply had arrived that could not be read to its end."""
    return not isinstance(error, UpstreamError) or error.received > 0


def with_input(usage: Usage | None, estimated: tuple[str, ...], translation: Translation) -> Counted:
    """Return the counts of a request that the upstream has accepted: its input is estimated if it is not known."""
    estimate = translation.context.input_estimate
    if not estimate or (usage is not None and usage.input_total is not None):
        return usage, estimated
    return replace(usage or Usage(), input_total=estimate), ("input_total", *estimated)


def with_attempts(
    usage: Usage | None, estimated: tuple[str, ...], model: str, before: Sequence[AttemptUsage]
) -> Counted:
    """Return the counts of the last attempt, at `model`, with those of the attempts before it.

    The counts of other models are parts of their own (`Usage.other_models`).
    """
    total = Usage() if usage is None else usage
    for each in before:
        total = _sum(total, each.usage)
        if each.model != model:
            total.other_models += ((each.model, each.usage),)
        estimated = tuple(dict.fromkeys((*estimated, *each.estimated)))
    return total, estimated


def _sum(first: Usage, second: Usage) -> Usage:
    """Return the sums of the counts that are known."""
    counts = [_added(getattr(first, name), getattr(second, name)) for name in _COUNTS]
    return Usage(*counts, other_models=(*first.other_models, *second.other_models))


def _added(first: int | None, second: int | None) -> int | None:
    return second if first is None else first if second is None else first + second

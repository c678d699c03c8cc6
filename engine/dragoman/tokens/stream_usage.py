"""Estimates the usage of a reply without counts: its client left, it was cut, or its server never counts.

Without an estimate, a client that leaves just before the counts would not be charged, and a budget would never end.
"""

from __future__ import annotations

from dragoman.canonical.events import Usage
from dragoman.reply_context import ReplyContext

CHARACTERS = 4
"""To a token, about: the texts themselves are not kept, only how long they were."""
_ESTIMATED = ("input_total", "output_total")


def usage_so_far(context: ReplyContext) -> tuple[Usage | None, tuple[str, ...]]:
    """The counts of a reply up to now, and the names of those among them that are estimates and no upstream's."""
    known = context.usage
    if not context.output_text or (known is not None and known.output_total is not None):
        return known, ()
    guessed = Usage(input_total=context.input_estimate or None, output_total=-(-context.output_text // CHARACTERS))
    if known is None:
        known = Usage()
    usage = known.merged_onto(guessed)
    return usage, tuple(name for name in _ESTIMATED if getattr(known, name) != getattr(usage, name))

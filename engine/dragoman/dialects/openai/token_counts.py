"""Token counts of upstreams that count apart what OpenAI counts inside: reasoning, and cached tokens.

Some servers leave reasoning out of the output (xAI's Chat, Vercel's gateway), or state it in the total only (Gemini's
compatible endpoint). Others leave cached tokens out of the input. The rules below compare the counts with each other,
so that they hold for every server.
"""

from __future__ import annotations

from dragoman.canonical.events import Usage
from dragoman.dialects.shared.json_fields import COUNT_MAX


def inclusive_usage(
    given: int | None, read: int | None, written: int | None, made: int | None, reasoning: int | None, total: int | None
) -> Usage:
    """Return the usage of counts that contradict OpenAI's rules, so that they agree with them.

    `given` and `made` are the counts of the input and the output, `total` is the stated sum of both.

    - Cached tokens above the input are not part of it, nor are those by which the total exceeds the other counts.
    - Reasoning above the output is not part of it, nor is that by which the total exceeds the other counts.
    - If no reasoning is stated, the tokens by which the total exceeds the other counts are reasoning.
    """
    if given is not None:
        cached = (read or 0) + (written or 0)
        if cached > given or (cached and total is not None and total == given + cached + (made or 0)):
            given += cached
    if made is not None:
        rest = total - (given or 0) - made if total is not None else 0
        if reasoning is not None and reasoning > made:
            made += reasoning
        elif rest > 0 and given is not None and (not reasoning or reasoning == rest):
            made += rest
            reasoning = rest
    return Usage(_bounded(given), read, written, _bounded(made), reasoning)


def _bounded(count: int | None) -> int | None:
    """A count above the greatest one is unknown, like any that an upstream states."""
    return count if count is None or count <= COUNT_MAX else None

"""The limits of stored conversations."""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.short_repr import changed_fields

DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class ThreadLimits:
    """The limits of a store: how much it holds, and for how long.

    A conversation is removed as a whole, with all its branches: `ttl` seconds after the last response was added to it,
    or earlier if a limit requires room. The one that was continued the longest time ago is removed first. `nodes` and
    `size` (bytes) are for all owners together, `owner_size` is for one of them. `depth` is the largest number of
    responses on one path, `tree` the largest number of a conversation with all its branches.
    """

    __repr__ = changed_fields

    ttl: float = 30 * DAY
    nodes: int = 1_000_000
    size: int = 4 * 1024**3
    owner_size: int = 1024**3
    depth: int = 1000
    tree: int = 100_000


DEFAULT_THREAD_LIMITS = ThreadLimits()

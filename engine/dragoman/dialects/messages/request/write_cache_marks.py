"""Writes the explicit cache marks (`cache_control`) of a Messages request (mapping §7.4)."""

from __future__ import annotations

from typing import Final

from dragoman.canonical.request import Json
from dragoman.errors import Path
from dragoman.losses import LossCode, Losses

MAX_MARKS: Final = 4
"""Most marks that the API accepts in one request, including the automatic one at the top level."""

_TTL: Final[dict[str, str]] = {"5m": "5m", "1h": "1h", "30m": "5m", "12h": "1h"}
"""Lifetime of any dialect → lifetime of Messages: the same, else the next shorter one, never a more expensive one."""


class CacheMarks:
    """Marks blocks while they are written, in the order of the prefix, and removes all but the last marks at the end.

    Args:
        losses: where marks that are not sent are recorded.
        explicit: True if the upstream accepts explicit marks; otherwise none are written.
    """

    __slots__ = ("_losses", "_on", "_put")

    def __init__(self, losses: Losses, *, explicit: bool) -> None:
        self._losses = losses
        self._on = explicit
        self._put: list[tuple[Json, Path]] = []

    def put(self, block: Json, cache: Json | None, at: Path) -> None:
        """Mark `block` if the client marked the part at `at` (`cache` is not None)."""
        if cache is None:
            return
        if not self._on:
            self._losses.add(LossCode.CACHE_HINT, at)
            return
        ttl = _TTL.get(cache.get("ttl") or "")
        block["cache_control"] = {"type": "ephemeral", "ttl": ttl} if ttl else {"type": "ephemeral"}
        self._put.append((block, at))

    def trim(self, limit: int = MAX_MARKS) -> None:
        """Keep the last `limit` marks: later ones cover a longer prefix."""
        for block, at in self._put[:-limit]:
            del block["cache_control"]
            self._losses.add(LossCode.CACHE_HINT, at, f"only the last {limit} marks are sent")

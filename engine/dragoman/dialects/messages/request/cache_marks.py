"""Explicit cache marks of a request being written (mapping §7.4)."""

from __future__ import annotations

from typing import Final

from dragoman.canonical.request import Json
from dragoman.errors import Path
from dragoman.losses import LossCode, Losses

MAX_MARKS: Final = 4
"""Marks that the API takes in one request; the automatic one at the top level counts."""

# Never to a dearer tier: what has no equal falls to the cheaper neighbour.
_TTL: Final[dict[str, str]] = {"5m": "5m", "1h": "1h", "30m": "5m", "12h": "1h"}


class CacheMarks:
    """Puts marks on blocks as they are written, in prefix order, and takes back all but the last ones at the end."""

    __slots__ = ("_losses", "_on", "_put")

    def __init__(self, losses: Losses, *, explicit: bool) -> None:
        self._losses = losses
        self._on = explicit
        self._put: list[tuple[Json, Path]] = []

    def put(self, block: Json, cache: Json | None, at: Path) -> None:
        """Mark `block` if the source's part was marked; a loss row where the upstream takes no marks."""
        if cache is None:
            return
        if not self._on:
            self._losses.add(LossCode.CACHE_HINT, at)
            return
        ttl = _TTL.get(cache.get("ttl") or "")
        block["cache_control"] = {"type": "ephemeral", "ttl": ttl} if ttl else {"type": "ephemeral"}
        self._put.append((block, at))

    def trim(self, limit: int = MAX_MARKS) -> None:
        """Keep the last `most` marks: later ones cover the longer prefix."""
        for block, at in self._put[: max(0, len(self._put) - limit)]:
            del block["cache_control"]
            self._losses.add(LossCode.CACHE_HINT, at, f"only the last {limit} marks are sent")

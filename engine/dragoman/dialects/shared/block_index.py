"""Block indexes: an upstream's own key of a block to its canonical index."""

from __future__ import annotations

from collections.abc import Hashable

from dragoman.canonical.events import BlockKind
from dragoman.errors import LimitExceeded, UpstreamProtocolError
from dragoman.limits import DEFAULT_LIMITS, Limits


class BlockMap:
    """Maps the upstream's key of each open block to its index and kind. Indexes count up from 0 in start order."""

    __slots__ = ("count", "limits", "open")

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self.open: dict[Hashable, tuple[int, BlockKind]] = {}
        self.count = 0
        self.limits = limits

    def start(self, key: Hashable, kind: BlockKind) -> int:
        """Open a block and return its index.

        Raises UpstreamProtocolError if the key is open already, LimitExceeded past `limits.blocks`.
        """
        if key in self.open:
            raise UpstreamProtocolError(f"upstream started block {key} twice")
        if self.count >= self.limits.blocks:
            raise LimitExceeded("blocks", self.limits.blocks, upstream=True)
        index = self.count
        self.count = index + 1
        self.open[key] = index, kind
        return index

    def end(self, key: Hashable) -> int:
        """Close a block and return its index. Raises UpstreamProtocolError if it is not open."""
        entry = self.open.pop(key, None)
        if entry is None:
            raise UpstreamProtocolError(f"upstream ended block {key}, which is not open")
        return entry[0]

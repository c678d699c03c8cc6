"""The store in the memory of one process. It is empty after a restart."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from dragoman.threads.forest import Forest
from dragoman.threads.limits import DEFAULT_THREAD_LIMITS, ThreadLimits
from dragoman.threads.node import Node, Outline
from dragoman.threads.store.interface import ANY_DEPTH, OpenedByWith


class MemoryStore(OpenedByWith):
    """The store in memory. `clock` returns Unix seconds."""

    def __init__(self, limits: ThreadLimits = DEFAULT_THREAD_LIMITS, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self._forest = Forest(limits)

    async def open(self) -> None:
        """Return at once: the store is always open."""

    async def close(self) -> None:
        """Return at once."""

    async def put(self, node: Node) -> None:
        """Store a response. Raises NotStored."""
        self._forest.put(node, self.clock())

    async def get(self, owner: str, node_id: str) -> Node | None:
        """Return a response, or None if the owner has none of this id."""
        return self._forest.get(owner, node_id, self.clock())

    async def path(self, owner: str, node_id: str) -> list[Node] | None:
        """Return the responses from the root to this one, or None if one of them is not there."""
        return self._forest.path(owner, node_id, self.clock())

    async def tree(self, owner: str, node_id: str) -> list[Node]:
        """Return all responses of a conversation, oldest first."""
        return self._forest.tree(owner, node_id, self.clock())

    async def path_outline(self, owner: str, node_id: str) -> list[Outline] | None:
        """Return what `path` returns, without the contents."""
        return self._forest.path_outline(owner, node_id, self.clock())

    async def tree_outline(self, owner: str, node_id: str, depth: int = ANY_DEPTH) -> list[Outline]:
        """Return what `tree` returns, without the contents, and only the first `depth` responses of each path."""
        return self._forest.tree_outline(owner, node_id, depth, self.clock())

    async def nodes(self, owner: str, outlines: Sequence[Outline]) -> list[Node]:
        """Return these responses, without those that were deleted meanwhile."""
        now = self.clock()
        found = [self._forest.get(owner, each.id, now) for each in outlines]
        return [node for node in found if node is not None]

    async def delete(self, owner: str, node_id: str) -> bool:
        """Delete a response."""
        return self._forest.delete(owner, node_id, self.clock())

    async def expire(self) -> int:
        """Delete the conversations whose time is over."""
        return self._forest.expire(self.clock())

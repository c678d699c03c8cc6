"""The interface of the stores of conversations. One test-suite runs against all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, Self

from dragoman.threads.limits import ThreadLimits
from dragoman.threads.node import Node, Outline

ANY_DEPTH: Final = 1 << 31


class StoreError(Exception):
    """A store cannot be reached, does not answer in time, or cannot be used. The text holds no secret."""


class NotStored(StoreError):
    """A response cannot be stored, although the store works. The text states why."""


class Unreadable(StoreError):
    """A stored response cannot be read, although the store works: it is encrypted with another key."""


def reason_not_stored(result: str, node: Node, limits: ThreadLimits) -> str:
    """Return the text of NotStored for a word that a script of a store returns in place of `stored`."""
    if result == "parent":
        return f"the response {node.parent} before it is no longer stored"
    if result == "depth":
        return f"its conversation has more than {limits.depth} responses"
    if result == "tree":
        return f"its conversation has {limits.tree} responses with all its branches"
    if result == "exists":
        return f"there is a response {node.id} already"
    return "its conversation is larger than the store may be"


class OpenedByWith:
    """Opens a store at the start of its `async with`, and closes it at the end. A base class of the stores."""

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Open the store."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close the store."""
        raise NotImplementedError


class Store(Protocol):
    """Stored responses. Each method raises StoreError if the store fails. Owners see only their own responses.

    `clock` returns Unix seconds.
    """

    clock: Callable[[], float]

    async def open(self) -> None:
        """Open the store, and create it if it does not exist."""
        ...

    async def close(self) -> None:
        """Write what is pending, and close the store."""
        ...

    async def put(self, node: Node) -> None:
        """Store a response. When this returns, it survives the end of the process. Raises NotStored.

        The time of its conversation begins again.
        """
        ...

    async def get(self, owner: str, node_id: str) -> Node | None:
        """Return a response, or None if the owner has none of this id."""
        ...

    async def path(self, owner: str, node_id: str) -> list[Node] | None:
        """Return the responses from the root to this one, or None if one of them is not there."""
        ...

    async def tree(self, owner: str, node_id: str) -> list[Node]:
        """Return all responses of the conversation that a response belongs to, oldest first; none if it is unknown."""
        ...

    async def path_outline(self, owner: str, node_id: str) -> list[Outline] | None:
        """Return what `path` returns, without the contents of the responses."""
        ...

    async def tree_outline(self, owner: str, node_id: str, depth: int = ANY_DEPTH) -> list[Outline]:
        """Return what `tree` returns, without the contents of the responses, and only the first `depth` of each path.

        The root has the depth 1.
        """
        ...

    async def nodes(self, owner: str, outlines: Sequence[Outline]) -> list[Node]:
        """Return these responses in this order, without those that were deleted meanwhile.

        All are in memory then, so request a long list in parts (`batches`).
        """
        ...

    async def delete(self, owner: str, node_id: str) -> bool:
        """Delete a response. Return False if the owner has none of this id.

        Those after it stay, but have no path from then on.
        """
        ...

    async def expire(self) -> int:
        """Delete the conversations whose time is over. Return the number of their responses."""
        ...

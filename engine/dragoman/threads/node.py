"""One stored response: a node of a conversation's tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from dragoman.canonical.request import Json
from dragoman.wire.json_codec import loads

READ_BYTES: Final = 1024**2
"""Bytes after which one read of a store ends."""
READ_NODES: Final = 256
"""Most nodes that one read of a store returns. Redis serves no other client meanwhile."""


class Node(NamedTuple):
    """A response with its own input.

    `parent` is the id of the response before it, or None at the root. `created` is a Unix time in seconds. `input` is
    the JSON array of the items that were sent with the request, `reply` the JSON object of the response; its `output`
    has the items of the reply. Both stay bytes, because most nodes are read only as a part of a path. `notes` is a JSON
    object of what is known of the exchange; empty if nothing is.
    """

    owner: str
    id: str
    parent: str | None
    created: int
    input: bytes
    reply: bytes
    notes: bytes = b""

    def __repr__(self) -> str:
        return f"Node(id={self.id!r}, parent={self.parent!r}, created={self.created!r})"

    @property
    def size(self) -> int:
        """The bytes that count for the limits."""
        return len(self.input) + len(self.reply) + len(self.notes)

    def input_items(self) -> list[Any]:
        """Return the items of the input."""
        items: list[Any] = loads(self.input)
        return items

    def losses(self) -> dict[str, int]:
        """Return the number of losses of the exchange, by code."""
        if not self.notes:
            return {}
        losses: dict[str, int] = loads(self.notes).get("losses", {})
        return losses

    def output_items(self) -> list[Any]:
        """Return the items of the reply."""
        reply: Json = loads(self.reply)
        output: list[Any] = reply["output"]
        return output


class Outline(NamedTuple):
    """A node without its contents, which a store returns without reading these.

    `root` is the id of the first node of its tree, `size` the number of bytes of its contents.
    """

    id: str
    root: str
    parent: str | None
    created: int
    size: int


def batches(
    outlines: Sequence[Outline], most_bytes: int = READ_BYTES, most_nodes: int = READ_NODES
) -> Iterator[Sequence[Outline]]:
    """Yield these nodes in parts to be read at a time. A part ends with the node that reaches one of the bounds."""
    start = size = 0
    for end, outline in enumerate(outlines, 1):
        size += outline.size
        if size >= most_bytes or end - start >= most_nodes:
            yield outlines[start:end]
            start, size = end, 0
    if start < len(outlines):
        yield outlines[start:]


def history(path: Sequence[Node]) -> list[Any]:
    """Return the items of a path: of each response its input, then its output."""
    items: list[Any] = []
    for node in path:
        items += node.input_items()
        items += node.output_items()
    return items

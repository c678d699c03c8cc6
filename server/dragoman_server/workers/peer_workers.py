"""What a worker may ask of the others: the numbers of all, and a receipt that one of them keeps."""

from __future__ import annotations

from typing import Protocol

from dragoman_server.observability.metric_families import Totals


class PeerWorkers(Protocol):
    """The workers of one gateway, asked by one of them. Both raise a `DragomanError` (503) if there is no answer."""

    async def totals(self) -> Totals:
        """The numbers of all workers together, those that have left included."""
        ...

    async def receipt(self, request_id: str, owner: bytes) -> bytes | None:
        """The JSON of a receipt that the key with the digest `owner` may read, from whichever worker has it."""
        ...

"""Interface through which the gateway of one worker reaches the other workers.

It has no imports of this package, so that `proxy` can use it without an import circle.
"""

from __future__ import annotations

from typing import Protocol

from dragoman.wire import Json
from dragoman_server.observability.metric_families import Totals


class PeerWorkers(Protocol):
    """The other workers of one gateway. All methods raise DragomanError (503) if the supervisor does not answer."""

    async def totals(self) -> Totals:
        """Return the summed metrics of all workers, including those that have ended."""
        ...

    async def receipt(self, request_id: str, owner: bytes) -> bytes | None:
        """Return a receipt as JSON, or None if no worker has it. `owner` is the digest of the key that may read it."""
        ...

    async def receipts(self, owner: bytes, most: int) -> list[Json]:
        """Return summaries of the key's last receipts at the other workers; those that are late are left out."""
        ...

    async def console(self, question: Json) -> list[Json]:
        """Return what the consoles of the other workers answer to a question; workers that are late are left out."""
        ...

"""The link of one run to its response at the upstream, as far as other processes are to know it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable


class Attachment:
    """Set in the scope of a run that other processes know. `share` writes a handover to the store of runs."""

    __slots__ = ("_share", "handover", "is_taken")

    def __init__(self, share: Callable[[bytes], Awaitable[None]] | None = None) -> None:
        self._share = share
        self.handover = b""
        """The handover by which another process goes on with the run; empty as long as none can."""
        self.is_taken = False
        """True if another process goes on with it, so that the upstream must not end the response."""

    async def keep(self, handover: bytes) -> None:
        """Keep a handover, and share it."""
        self.handover = handover
        if self._share is not None:
            await self._share(handover)

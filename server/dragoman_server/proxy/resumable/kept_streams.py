"""The streams that clients may resume, within the bounds of `[server.resume]`."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from dragoman.aio import LogBudget
from dragoman_server.config.resume import ResumeOptions
from dragoman_server.proxy.resumable.stream import ResumableStream

if TYPE_CHECKING:
    from dragoman_server.proxy.resumable.shared_streams import SharedStreams

_SHARE = 4
"""The part of all bytes that one client's streams may keep: a fourth."""
_ROOM = 64 * 1024
"""Bytes that can be kept if a further stream is."""


class KeptStreams(dict[tuple[str, str], ResumableStream]):
    """Streams by owner and request id, oldest first, and the bytes that those of each owner keep."""

    def __init__(self, options: ResumeOptions) -> None:
        super().__init__()
        self._options = options
        self.whole = LogBudget(options.total_bytes)
        self._shares: WeakValueDictionary[str, LogBudget] = WeakValueDictionary()
        """By owner."""
        self.shared: SharedStreams | None = None
        """The streams that other processes know; None without a store that processes share."""

    def budget_for(self, owner: str) -> LogBudget | None:
        """Return the budget of a further stream, or None if it cannot be kept. Those that ended first are forgotten."""
        budget = self._shares.get(owner)
        if budget is None:  # without keys, all clients have the same owner
            limit = self.whole.limit // _SHARE if owner else self.whole.limit
            budget = self._shares[owner] = LogBudget(limit, self.whole)
        if not budget.has_room(min(_ROOM, self._options.bytes)):
            return None
        ended = [key for key, stream in self.items() if stream.log.closed and not stream.is_read]
        own = sum(key[0] == owner for key in self)
        if own >= self._options.streams_per_client:
            ended = [key for key in ended if key[0] == owner]
        elif len(self) < self._options.streams:
            return budget
        if not ended:
            return None
        self.forget(ended[0])
        return budget

    def forget(self, key: tuple[str, str]) -> None:
        """Let a stream be resumed no longer. A client that reads it reads on."""
        stream = self.pop(key, None)
        if stream is None:
            return
        if self.shared is not None:
            self.shared.forget(stream)
        if stream.log.closed and not stream.is_read:
            stream.log.clear()

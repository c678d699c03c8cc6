"""A client that reads the events of another process's run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from dragoman.threads import StoreError
from dragoman_server.proxy.runs.interface import LEASE, Entry, Position, Rest, RunId

Decrypt = Callable[[RunId, str, bytes], bytes]
"""The reverse of `Encrypt`."""
DROPPED = "events were dropped before they were read"
_END = b"\n\n"


class RunReader:
    """One reader of a run.

    Args:
        name: The run.
        number: The number of its next event.
        mark: Its mark, if it must be the only reader; else empty.
        decrypt: Decrypts what is read.
        wake: Called when it could take more than the last read returned.
        clock: A function that returns seconds.
    """

    def __init__(
        self,
        name: RunId,
        number: int,
        mark: str,
        decrypt: Decrypt,
        wake: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.position = Position(name, number, mark)
        self.is_over = False
        """True if nothing follows."""
        self.failure = ""
        """The reason for which it is over before the end of the run."""
        self._decrypt = decrypt
        self._wake = wake
        self._clock = clock
        self._missing_since: float | None = None
        """The time since which the store does not have what it must have; None while it does."""
        self._is_behind = False
        self._data = b""
        self._ready = asyncio.Event()

    @property
    def waits(self) -> bool:
        """True if it can take more."""
        return not self._ready.is_set()

    def add(self, rest: Rest | None) -> None:
        """Give it what was read from its position on."""
        number, mark = self.position.number, self.position.reader
        if rest is None:
            self._miss("the store has lost the events")
            return
        if mark and rest.run.reader != mark:
            self._end("another client resumed the stream")
        elif number < rest.run.first or (rest.entries and rest.entries[0].end - rest.entries[0].events > number):
            self._end(DROPPED)
        elif rest.entries:
            self._missing_since = None
            try:
                self._data = b"".join(self._take(entry) for entry in rest.entries)
            except StoreError as error:  # another key
                self._end(str(error))
                return
            self._is_behind = self.position.number < rest.run.end
            self._ready.set()
        elif number < rest.run.end:  # or the read had too much to return
            self._miss(DROPPED)
        elif not rest.run.running:
            self._end("")
        else:
            self._missing_since = None

    def _miss(self, failure: str) -> None:
        """End it if the store has lacked the run for a lease: one that has lost its data gets the run again soon."""
        now = self._clock()
        if self._missing_since is None:
            self._missing_since = now
        elif now - self._missing_since >= LEASE:
            self._end(failure)

    def _end(self, failure: str) -> None:
        self.is_over, self.failure = True, failure
        self._ready.set()

    def _take(self, entry: Entry) -> bytes:
        data = self._decrypt(self.position.name, str(entry.end), entry.data)
        before = self.position.number - (entry.end - entry.events)
        self.position = self.position._replace(number=entry.end)
        return b"".join(frame + _END for frame in data.split(_END)[before:-1]) if before > 0 else data

    async def next(self, seconds: float) -> bytes:
        """Return the next events; b"" once it is over, or if there were none for so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._ready.wait()
        except TimeoutError:
            return b""
        data, self._data = self._data, b""
        if not self.is_over:
            self._ready.clear()
            if self._is_behind:
                self._wake()
        return data

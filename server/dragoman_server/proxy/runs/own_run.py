"""One run of this process, as far as others know it: what is to be written to the store next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from dragoman.aio import EventLog
from dragoman_server.proxy.runs.interface import Change, Entry, LostRun, Marks, NewRun, RunId

ENTRY_BYTES = 16 * 1024
"""Bytes of events from which on an entry takes no further one."""
ENTRIES_AT_ONCE = 64
"""Most entries of one change. There are more after the store was away."""
Encrypt = Callable[[RunId, str, bytes], bytes]
"""A function that returns bytes of a run as they are stored: encrypted, if that is configured. The text names them."""


class Begun(NamedTuple):
    """The data with which a run was begun: see `NewRun`."""

    head: bytes
    request: bytes
    most: int | None


class OwnRun:
    """One run that this process has begun, or taken to end it.

    Args:
        name: Its owner and id.
        encrypt: Encrypts what is written.
        on_marks: Called with the marks of others after each write while the run goes on; with None once it is another
            process's.
    """

    def __init__(self, name: RunId, encrypt: Encrypt, on_marks: Callable[[Marks | None], None]) -> None:
        self.name = name
        self.log: EventLog | None = None
        """The events; None if they are not shared."""
        self.state: bytes | None = None
        """A state that is not written yet."""
        self.attach: bytes | None = None
        """The data by which another process goes on with it, if that is not written yet."""
        self.is_attached = False
        """True if the store has them."""
        self.kept: float | None = None
        """Seconds for which it is kept, once it has ended."""
        self.is_written = False
        """True once its end is written, or it is another process's."""
        self.begun: Begun | None = None
        """The data with which it was begun, for a store that has lost it; None once its end is written."""
        self.last_state = b""
        """The last state, also if it is written."""
        self.on_marks = on_marks
        self._encrypt = encrypt
        self._taken = 0
        """The number of the first event that is in no entry yet."""
        self._entries: list[Entry] = []
        """Entries that are not known to be written. They stay as they are: the store may have them."""
        self._first = 0
        self._sent_attach: bytes | None = None
        self._last_attach: bytes | None = None

    def new(self, host: str, ttl: float) -> NewRun:
        """Return the run as this host begins it in the store, or once more in a store that has lost it."""
        assert self.begun is not None
        head, request, most = self.begun
        state, encrypt = self.last_state, self._encrypt
        stored_state, stored_request = (
            state and encrypt(self.name, "state", state),
            request and encrypt(self.name, "request", request),
        )
        return NewRun(self.name, host, encrypt(self.name, "head", head), stored_state, stored_request, most, ttl)

    def taken_with(self, lost: LostRun) -> None:
        """Take over what the store has of a run that has lost its host."""
        self.begun = Begun(lost.run.head, lost.request, None)
        self.last_state, self._last_attach = lost.run.state, lost.attach or None

    def resume(self, log: EventLog, first: int) -> None:
        """Go on with a run that was taken, whose events in `log` are stored. The store has those from `first` on."""
        self.log, self._taken, self._first, self.is_attached = log, log.end, first, True

    def write_again(self) -> None:
        """Write all of it once more: it was begun again in a store that had lost it."""
        if self.log is not None:
            self._taken, self._entries = self.log.first, []
        self._first = 0
        self.state = self.state or self.last_state or None
        self.attach = self.attach or self._last_attach

    def add_last(self, number: int, frame: bytes) -> None:
        """Add the last event to a run that was taken, which has no log here."""
        self._entries.append(self._entry(number + 1, [frame]))

    def end(self, state: bytes, kept: float) -> None:
        """Record that it has ended, with this last state. It is kept for so many seconds."""
        self.state, self.kept = state, kept

    @property
    def can_pass_on(self) -> bool:
        """True if another process can go on with it."""
        return self.kept is None and (self.is_attached or self.attach is not None)

    @property
    def has_news(self) -> bool:
        """True if it has something else to write than its lease."""
        log = self.log
        events = log is not None and (log.end > self._taken or log.first > self._first)
        return (
            events
            or bool(self._entries)
            or self.state is not None
            or self.attach is not None
            or (self.kept is not None and not self.is_written)
        )

    def change(self) -> Change:
        """Return what is to be written now. It stays the same until `written`, except for what is added."""
        log, first = self.log, 0
        if self.state is not None:
            self.last_state = self.state
        if log is not None:
            first = log.first
            self._entries = [entry for entry in self._entries if entry.end > first]
            self._entries += self._new_entries(log)
        state = None if self.state is None else self.state and self._encrypt(self.name, "state", self.state)
        self._sent_attach = self.attach
        attach = None if self.attach is None else self._encrypt(self.name, "attach", self.attach)
        # The end is written with the last events.
        kept = None if self.is_written or len(self._entries) > ENTRIES_AT_ONCE else self.kept
        return Change(self.name, first, tuple(self._entries[:ENTRIES_AT_ONCE]), state, kept, attach)

    def written(self, change: Change, state: bytes | None) -> None:
        """Record that a change was written; `state` is what was to be written in it."""
        del self._entries[: len(change.entries)]
        self._first = change.first
        if self.state is state:
            self.state = None
        if self.attach is not None and self.attach is self._sent_attach:
            self._last_attach, self.attach, self.is_attached = self.attach, None, True
        if change.kept is not None:
            self.is_written = True
            self.begun, self.last_state, self._last_attach = None, b"", None

    def _new_entries(self, log: EventLog) -> Iterator[Entry]:
        number = max(self._taken, log.first)
        frames: list[bytes] = []
        size = 0
        for frame in log.frames(number) if number < log.end else ():
            frames.append(frame)
            size += len(frame)
            number += 1
            if size >= ENTRY_BYTES:
                yield self._entry(number, frames)
                frames, size = [], 0
        if frames:
            yield self._entry(number, frames)
        self._taken = number

    def _entry(self, end: int, frames: list[bytes]) -> Entry:
        return Entry(end, len(frames), self._encrypt(self.name, str(end), b"".join(frames)))

"""The journal of exchanges that have begun and are not booked yet: one file for each process that books usage.

The process holds the lock (flock) of its file as long as it lives, so a file that can be locked is that of a process
that was killed. A file has slots of the same size: the first has the name of the process, each other one the entry of
an open exchange, as a line of JSON, or begins with a zero byte. A slot lies within one page of memory, so a write that
a kill interrupts leaves a whole entry or none. What is written survives the end of the process, but not that of the
machine: nothing waits for the disk.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from dragoman.wire import Json, json_dumps, json_loads

log = logging.getLogger("dragoman")
SLOT = 1024
"""Bytes of a slot."""
_TEXTS = (100, 50, 25, 5)
"""Longest texts, in characters, of an entry that is too long for its slot."""
_WHOLE = ("id", "time")
"""The texts of an entry that are not cut."""
_FREE = b"\0"


class Begun(NamedTuple):
    """An exchange that has begun: its id, and its entry as JSON."""

    id: str
    entry: bytes


Book = Callable[[str, Sequence[Json]], None]
"""Books the entries that the process of this name has left. It may be called again for some that it has booked."""


class Journal(Protocol):
    """Keeps the entries of exchanges from their beginning until they are booked.

    `begin` runs in one thread, the other methods in that of the sink. All may raise OSError or ValueError.
    """

    def begin(self, begun: Sequence[Begun]) -> None:
        """Keep entries; when this returns, they outlive the process. An entry replaces that of the same id."""
        ...

    def end(self, ids: Iterable[str]) -> None:
        """Remove the entries of exchanges whose rows are written, and ignore unknown ids."""
        ...

    def take_lost(self, book: Book) -> None:
        """Book the entries of each process that has ended without booking them, and remove them."""
        ...

    def close(self) -> None:
        """Close the journal. Entries that are left become lost."""
        ...


class FileJournal:
    """The journal of this process, at `PATH.begun.` and a random name. The file is created with the first entry."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._own = ""
        self._file = -1
        self._slots: dict[str, int] = {}
        """The slot of each open exchange."""
        self._free: list[int] = []
        self._count = 0
        self._lock = threading.Lock()

    def begin(self, begun: Sequence[Begun]) -> None:
        """Keep entries. Raises OSError; then some may be kept."""
        with self._lock:
            if self._file < 0:
                self._create()
            for request_id, entry in begun:
                slot = self._slots.get(request_id)
                if slot is None:
                    slot = self._slots[request_id] = self._take_slot()
                line = entry if len(entry) < SLOT else _shortened(entry)
                _write(self._file, line + b"\n", slot * SLOT)

    def end(self, ids: Iterable[str]) -> None:
        """Free the slots of exchanges that are booked. Raises OSError."""
        with self._lock:
            for request_id in ids:
                if (slot := self._slots.pop(request_id, None)) is not None:
                    _write(self._file, _FREE, slot * SLOT)
                    self._free.append(slot)

    def close(self) -> None:
        """Close the file, and delete it if no entry is left. Raises OSError."""
        with self._lock:
            if self._file >= 0:
                file, self._file = self._file, -1
                try:
                    if not self._slots:
                        os.unlink(self._own)
                finally:
                    os.close(file)

    def take_lost(self, book: Book) -> None:
        """Book the entries of killed processes, each file by one process. Raises OSError or what `book` raises."""
        for path in sorted(glob.glob(f"{glob.escape(self._path)}.begun.*")):
            try:
                file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:
                continue  # another process has just taken it
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(file, path):
                    _book_all(file, path, book)
                    os.unlink(path)
            except BlockingIOError:
                continue  # its process lives
            finally:
                os.close(file)

    def _take_slot(self) -> int:
        if self._free:
            return self._free.pop()
        self._count += 1
        return self._count

    def _create(self) -> None:
        """Create and lock the file. It gets its name last: no one may take it before it is locked."""
        token = os.urandom(6).hex()
        new, own = f"{self._path}.new-begun.{token}", f"{self._path}.begun.{token}"
        file = os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _write(file, json_dumps({"process": f"{socket.gethostname()}:{os.getpid()}"}) + b"\n", 0)
            os.rename(new, own)
        except BaseException:
            os.close(file)
            with suppress(OSError):
                os.unlink(new)
            raise
        self._file, self._own = file, own


def _write(file: int, data: bytes, position: int) -> None:
    if os.pwrite(file, data, position) < len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _is_at(file: int, path: str) -> bool:
    """True if an open file is the one at the path: another process may have taken and deleted it."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


def _book_all(file: int, path: str, book: Book) -> None:
    """Book the entries of a file."""
    size = os.fstat(file).st_size
    slots = [_read(os.pread(file, SLOT, position)) for position in range(0, size, SLOT)]
    header, entries = slots[:1], [entry for entry in slots[1:] if entry is not None]
    process = header[0].get("process") if header and header[0] is not None else None
    if entries:
        book(str(process or path), entries)


def _read(slot: bytes) -> Json | None:
    """Return the entry of a slot, None for one that is free or was not written to its end."""
    line, end, _ = slot.partition(b"\n")
    if not end or line.startswith(_FREE):
        return None
    try:
        entry = json_loads(line)
    except ValueError:
        return None
    return entry if type(entry) is dict else None


def _shortened(entry: bytes) -> bytes:
    """Return an entry that fits into a slot: its texts, of which clients choose some, are cut."""
    fields: dict[str, Any] = json_loads(entry)
    for longest in _TEXTS:
        if len(entry) < SLOT:
            break
        cut = {name: text[:longest] for name, text in fields.items() if type(text) is str and name not in _WHOLE}
        entry = json_dumps({**fields, **cut})
    return entry

"""Rows of usage as lines of JSON, on standard output or in a file that is rotated by its size."""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress

from dragoman.wire import json_dumps
from dragoman_server.accounts.usage.options import STDOUT
from dragoman_server.accounts.usage.row import PROVISIONAL, UsageRow
from dragoman_server.accounts.usage.sink import RowFile

_TIME = "%Y-%m-%dT%H:%M:%SZ"
_ID = re.compile(rb'\{"time":"[^"]*","id":"([^"]*)"')
"""The beginning of a row, with its id."""
_IS_PROVISIONAL = re.compile(rb'"ended":"(?:%b)"' % "|".join(PROVISIONAL).encode())


class JsonlFile(RowFile):
    """A file that several processes may append to.

    Above `max_bytes` it is renamed to `PATH.1`, the one before to `PATH.2`; `files` of them are kept.
    """

    def __init__(self, path: str, max_bytes: int, files: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._files = files
        self._file = -1
        self._identity = 0, 0
        """Device and number of the open file."""
        self._end = 0
        """Size of the open file after its last write, which was of whole rows."""

    def open(self) -> None:
        """Open the file. Other users may not read it, if it is new. Raises OSError."""
        if self._path == STDOUT:
            self._file = os.dup(1)
        else:
            self._file = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600)
            found = os.fstat(self._file)
            self._identity = found.st_dev, found.st_ino
            self._end = 0

    def write(self, rows: Sequence[UsageRow]) -> None:
        """Append rows in one write, so that lines of several processes do not mix. Raises OSError."""
        data = _lines(rows)
        if self._path == STDOUT:
            _write_all(self._file, data)
            return
        size = self._lock(len(data))
        try:
            self._append(data, size)
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _append(self, data: bytes, size: int) -> None:
        """Append lines to the locked file, which has this size."""
        if size not in (0, self._end) and os.pread(self._file, 1, size - 1) != b"\n":
            data = b"\n" + data  # a process was killed while it wrote a row
        _write_all(self._file, data, size)
        self._end = size + len(data)

    def write_missing(self, rows: Sequence[UsageRow]) -> None:
        """Append the rows whose ids the file, or a renamed one, does not have. Raises OSError.

        A provisional row does not count if it is to be replaced: readers of the file use the last one.
        """
        if self._path == STDOUT:
            self.write(rows)
            return
        size = self._lock(len(_lines(rows)))
        try:
            missing: dict[str, UsageRow] = {}
            for row in rows:
                if row.id not in missing or row.ended not in PROVISIONAL:
                    missing[row.id] = row
            for path in (self._path, *(f"{self._path}.{number}" for number in range(1, self._files + 1))):
                _forget_written(missing, path)
            if missing:
                self._append(_lines([*missing.values()]), size)
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            file, self._file = self._file, -1
            os.close(file)

    def _lock(self, more: int) -> int:
        """Lock the file, and rename it first if it has no room for `more` bytes. Return its size.

        The lock is that of the open file, so another process may have renamed the file before this one has the lock.
        """
        while True:
            if self._file < 0:  # new, or it could not be opened last time
                self.open()
            fcntl.flock(self._file, fcntl.LOCK_EX)
            size = self._current_size()
            if size is not None:
                if not size or size + more <= self._max_bytes:
                    return size
                self._rename()
            self.close()

    def _current_size(self) -> int | None:
        """Return the size of the open file, or None if it is no longer the one at the path."""
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return None
        return found.st_size if (found.st_dev, found.st_ino) == self._identity else None

    def _rename(self) -> None:
        for number in range(self._files - 1, 0, -1):
            with suppress(FileNotFoundError):
                os.replace(f"{self._path}.{number}", f"{self._path}.{number + 1}")
        os.replace(self._path, f"{self._path}.1")


def _lines(rows: Sequence[UsageRow]) -> bytes:
    return b"\n".join([json_dumps(row) for row in rows]) + b"\n"


def _forget_written(missing: dict[str, UsageRow], path: str) -> None:
    """Remove those that are in a file. Only a file that was written since they began is read."""
    first = min((row.time for row in missing.values()), default="")
    try:
        if not first or time.strftime(_TIME, time.gmtime(os.stat(path).st_mtime)) < first:
            return
        with open(path, "rb") as lines:
            for line in lines:
                # The id follows the time. A line without an end is one that a killed process has not finished.
                found = _ID.match(line)
                if found is None or not line.endswith(b"\n"):
                    continue
                row = missing.get(found[1].decode())
                if row is not None and (row.ended in PROVISIONAL or _IS_PROVISIONAL.search(line) is None):
                    del missing[row.id]
    except FileNotFoundError:
        return


def _write_all(file: int, data: bytes, size: int | None = None) -> None:
    """Write all bytes. If a part cannot be written, a file of this size is cut to it again. Raises OSError."""
    written = os.write(file, data)
    if written == len(data):
        return
    left = memoryview(data)[written:]
    try:
        while left:
            left = left[os.write(file, left) :]
    except OSError:
        if size is not None:
            with suppress(OSError):
                os.ftruncate(file, size)
        raise

"""Rows of usage as lines of JSON, on standard output or in a file that is rotated by its size."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from contextlib import suppress

from dragoman import Json, json_dumps
from dragoman_server.accounts.usage.options import STDOUT


class JsonlFile:
    """A file that several processes may append to.

    Above `max_bytes` it is renamed to `PATH.1`, the one before to `PATH.2`; `files` of them are kept.
    """

    def __init__(self, path: str, max_bytes: int, files: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._files = files
        self._file = -1

    def open(self) -> None:
        """Open the file. Other users may not read it, if it is new. Raises OSError."""
        if self._path == STDOUT:
            self._file = os.dup(1)
        else:
            self._file = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def write(self, rows: Sequence[Json]) -> None:
        """Append rows in one write, so that lines of several processes do not mix. Raises OSError."""
        data = b"".join([json_dumps(row) + b"\n" for row in rows])
        if self._path == STDOUT:
            _write_all(self._file, data)
            return
        # The lock is that of the open file. It is held by one process at a time, also while it renames.
        fcntl.flock(self._file, fcntl.LOCK_EX)
        while not self._is_current():  # another process has renamed it
            self.close()
            self.open()
            fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            size = os.fstat(self._file).st_size
            if size and size + len(data) > self._max_bytes:
                self._rotate()
            _write_all(self._file, data)
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            file, self._file = self._file, -1
            os.close(file)

    def _is_current(self) -> bool:
        with suppress(FileNotFoundError):
            return os.path.samestat(os.stat(self._path), os.fstat(self._file))
        return False

    def _rotate(self) -> None:
        for number in range(self._files - 1, 0, -1):
            with suppress(FileNotFoundError):
                os.replace(f"{self._path}.{number}", f"{self._path}.{number + 1}")
        os.replace(self._path, f"{self._path}.1")
        old, self._file = self._file, -1
        self.open()
        fcntl.flock(self._file, fcntl.LOCK_EX)
        os.close(old)


def _write_all(file: int, data: bytes) -> None:
    """Write all bytes. If a part cannot be written, the file is cut to what it was. Raises OSError."""
    start = None
    with suppress(OSError):
        start = os.fstat(file).st_size
    left = memoryview(data)
    try:
        while left:
            left = left[os.write(file, left) :]
    except OSError:
        if start is not None and len(left) < len(data):
            with suppress(OSError):  # a pipe cannot be cut
                os.ftruncate(file, start)
        raise

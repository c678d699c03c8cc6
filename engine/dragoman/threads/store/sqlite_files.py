"""The files of an SQLite database while it is open: other programs may delete, replace or truncate them."""

from __future__ import annotations

import os
from contextlib import suppress

LOG, INDEX = "-wal", "-shm"
"""The endings of the write-ahead log, and of its index, which each process that has the database open maps to memory.
"""
_INDEX_LEAST = 32 * 1024
"""Bytes of the smallest index, which grows by as much."""
_REPLACED = "{} was deleted or replaced while it was open: restart the gateway to use another"
_TRUNCATED = "the file was truncated while it was open: stop the gateway, restore the file, and start it"


class SqliteFiles:
    """The files of the database at `path`, which is open in this process."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = os.stat(path)
        self._others: dict[str, os.stat_result] = {}
        """The log and its index, by their endings, once found. They stay the same while a process has them open."""
        self._index_size = _INDEX_LEAST

    def check(self) -> None:
        """Raise OSError if what is written would be lost, though SQLite reports that it was committed."""
        found = _stat(self._path)
        if found is None or not os.path.samestat(found, self._file):
            raise FileNotFoundError(_REPLACED.format("the file"))
        if not found.st_size:
            raise OSError(_TRUNCATED)
        self.repair_index()
        for ending in (LOG, INDEX):
            found, known = _stat(self._path + ending), self._others.get(ending)
            if known is not None and (found is None or not os.path.samestat(found, known)):
                raise FileNotFoundError(_REPLACED.format(f"its file {ending}"))
            if known is None and found is not None:
                self._others[ending] = found

    def repair_index(self) -> None:
        """Extend an index that was truncated: SQLite finds nothing in it, and makes it again from the log.

        A read of memory that is mapped beyond the end of its file would end the process (SIGBUS). The file is not
        opened: closing it would release the locks of this process's connections.
        """
        found, known = _stat(self._path + INDEX), self._others.get(INDEX)
        if found is None:
            return
        if known is None:
            self._others[INDEX] = known = found
        if os.path.samestat(found, known):
            self._index_size = max(self._index_size, found.st_size)
            if found.st_size < self._index_size:
                with suppress(OSError):
                    os.truncate(self._path + INDEX, 0)  # a rest of it would be believed
                    os.truncate(self._path + INDEX, self._index_size)


def _stat(path: str) -> os.stat_result | None:
    with suppress(FileNotFoundError):
        return os.stat(path)
    return None

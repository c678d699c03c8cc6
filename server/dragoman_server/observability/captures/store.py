"""The directory of captures: a file for each, which all workers share. The oldest are deleted first."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from dragoman.wire import Json, json_loads

SUFFIX: Final = ".capture"
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,100}\Z")
_SUMMARY_MAX: Final = 20_000
"""Longest first line of a file, in bytes."""
_UNFINISHED: Final = ".part"
_UNFINISHED_SECONDS: Final = 3600.0
"""Age at which a file that a process did not finish is deleted."""


class Capture(NamedTuple):
    """One capture: its summary, and its requests and replies (docs/reference/captures.md)."""

    summary: Json
    exchange: Json


class _Entry(NamedTuple):
    written: float
    size: int
    path: str


Summaries = list[Json]
_Entries = list[_Entry]


class CaptureStore:
    """The captures in a directory. Its methods block, and may be called in any thread.

    Args:
        directory: The directory. `open` creates it.
        number: The most captures to keep.
        total_bytes: The most bytes of all files together.
        seconds: The age at which a capture is deleted.
        now: A function that returns Unix seconds.
    """

    def __init__(
        self, directory: str | os.PathLike[str], number: int, total_bytes: int, seconds: float, now: Callable[[], float]
    ) -> None:
        self.directory = Path(directory)
        self._number = number
        self._total_bytes = total_bytes
        self._seconds = seconds
        self._now = now

    def open(self) -> None:
        """Create the directory, which only its owner may read. Raises OSError if it cannot be used."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.directory.stat().st_mode & 0o077:
            self.directory.chmod(0o700)
        self.prune()

    def write(self, capture_id: str, content: bytes) -> None:
        """Write a file, complete or not at all, and delete what is too much. Raises OSError or ValueError."""
        path = self._path(capture_id)
        if path is None:
            raise ValueError(f"not an id of a capture: {capture_id[:100]!a}")
        unfinished = f"{path}{_UNFINISHED}"
        file = os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            with os.fdopen(file, "wb") as stream:
                stream.write(content)
            os.replace(unfinished, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(unfinished)
            raise
        self.prune()

    def list(self, limit: int = 100) -> Summaries:
        """Return the summaries of the newest captures, the newest first. Raises OSError."""
        found = []
        for entry in sorted(self._entries(), reverse=True)[:limit]:
            with suppress(OSError, ValueError):
                found.append(_read_summary(entry.path))
        return found

    def get(self, capture_id: str) -> Capture | None:
        """Return a capture, or None for an unknown id. Raises OSError or ValueError."""
        path = self._path(capture_id)
        if path is None:
            return None
        try:
            return read_capture(path)
        except FileNotFoundError:
            return None

    def prune(self) -> None:
        """Delete captures that are too old, and the oldest above the number and the size. Raises OSError."""
        oldest, size = self._now() - self._seconds, 0
        for place, entry in enumerate(sorted(self._entries(), reverse=True)):
            size += entry.size
            if place >= self._number or size > self._total_bytes or entry.written < oldest:
                _delete(entry.path)

    def _entries(self) -> _Entries:
        """Return the files. Those that processes did not finish are deleted after a while."""
        with os.scandir(self.directory) as files:
            return [found for file in files if (found := self._entry(file)) is not None]

    def _entry(self, file: os.DirEntry[str]) -> _Entry | None:
        """Return a capture; None for another file."""
        unfinished = file.name.endswith(SUFFIX + _UNFINISHED)
        with suppress(FileNotFoundError):  # another worker may delete it
            if unfinished or (file.name.endswith(SUFFIX) and file.is_file(follow_symlinks=False)):
                facts = file.stat(follow_symlinks=False)
                if not unfinished:
                    return _Entry(facts.st_mtime, facts.st_size, file.path)
                if self._now() - facts.st_mtime > _UNFINISHED_SECONDS:
                    _delete(file.path)
        return None

    def _path(self, capture_id: str) -> Path | None:
        return self.directory / f"{capture_id}{SUFFIX}" if _ID.match(capture_id) else None


def read_capture(path: str | os.PathLike[str]) -> Capture:
    """Return the capture in a file. Raises OSError, or ValueError for another file."""
    first, _, second = Path(path).read_bytes().partition(b"\n")
    summary, exchange = _checked(first), _object(second)
    if exchange is None:
        raise ValueError("not a capture, or damaged: it has no second line of JSON")
    return Capture(summary, exchange)


def _read_summary(path: str) -> Json:
    with open(path, "rb") as file:
        return _checked(file.readline(_SUMMARY_MAX))


def _checked(line: bytes) -> Json:
    summary = _object(line)
    if summary is None or summary.get("object") != "dragoman.capture":
        raise ValueError("not a capture: the first line is not its summary")
    return summary


def _object(line: bytes) -> Json | None:
    try:
        value: Any = json_loads(line)
    except ValueError:
        return None
    return value if type(value) is dict else None


def _delete(path: str) -> None:
    """Delete a file, which another worker may have deleted."""
    with suppress(FileNotFoundError):
        os.unlink(path)

"""Inputs that broke a promise, each kind once."""

from __future__ import annotations

import traceback
from hashlib import sha256
from pathlib import Path


class Finds:
    """Writes inputs to a folder: the shortest of each kind of failure, and its traceback in another file.

    Failures are of one kind if the same lines raised the same type.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._lengths: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._lengths)

    def add(self, data: bytes, error: Exception) -> None:
        """Keep an input and the error that it raised."""
        frames = traceback.extract_tb(error.__traceback__)
        kind = sha256(repr([(type(error).__name__, *_place(frame)) for frame in frames]).encode()).hexdigest()[:12]
        if len(data) >= self._lengths.get(kind, len(data) + 1):
            return
        self._lengths[kind] = len(data)
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{self._name}-{kind}"
        path.write_bytes(data)
        path.with_suffix(".txt").write_text("".join(traceback.format_exception(error)), "utf-8", "backslashreplace")


def _place(frame: traceback.FrameSummary) -> tuple[str, int | None]:
    return frame.filename, frame.lineno

"""Single defects of a stream that is reported as a list of its frames."""

from __future__ import annotations

from collections.abc import Callable

Change = Callable[[list[bytes]], None]


def find(frames: list[bytes], mark: str, nth: int = 0) -> int:
    """The place of the nth frame with these words in it."""
    return [at for at, frame in enumerate(frames) if mark.encode() in frame][nth]


def drop(mark: str, nth: int = 0) -> Change:
    """A frame is missing."""

    def change(frames: list[bytes]) -> None:
        del frames[find(frames, mark, nth)]

    return change


def double(mark: str, nth: int = 0) -> Change:
    """A frame comes twice."""

    def change(frames: list[bytes]) -> None:
        at = find(frames, mark, nth)
        frames.insert(at, frames[at])

    return change


def move(mark: str, before: str, nth: int = 0) -> Change:
    """A frame to before another one, or to the end."""

    def change(frames: list[bytes]) -> None:
        frame = frames.pop(find(frames, mark, nth))
        frames.insert(find(frames, before) if before else len(frames), frame)

    return change


def repeat(mark: str, before: str, nth: int = 0) -> Change:
    """A frame comes a second time, before another one."""

    def change(frames: list[bytes]) -> None:
        frames.insert(find(frames, before), frames[find(frames, mark, nth)])

    return change


def edit(mark: str, old: str, new: str, nth: int = 0) -> Change:
    """A frame has other words in it."""

    def change(frames: list[bytes]) -> None:
        at = find(frames, mark, nth)
        changed = frames[at].replace(old.encode(), new.encode(), 1)
        assert changed != frames[at], "the defect is none"
        frames[at] = changed

    return change


def add(frame: str, before: str = "") -> Change:
    """A frame that has no business there."""

    def change(frames: list[bytes]) -> None:
        frames.insert(find(frames, before) if before else len(frames), frame.encode())

    return change

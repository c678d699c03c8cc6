"""Checks that frames that are taken together are valid by themselves too, whatever byte of them is another one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dragoman.dialects import Dialect
from support.verdicts import validator


def altered(data: bytes) -> Iterator[bytes]:
    """The bytes with each one replaced, left out or doubled."""
    for at in range(len(data)):
        for other in (b"", b'"', b"\\", b"0", b"7", b"x", b"{", b"\n", b"\xff", data[at : at + 1] * 2):
            if other != data[at : at + 1]:
                yield data[:at] + other + data[at + 1 :]


def assert_taken_frames_are_valid(dialect: Dialect, frames: Sequence[bytes], first: int, last: int) -> int:
    """Take `frames[first:last]` together, with one byte changed, after the frames before them.

    Whatever is taken must be valid frame by frame. Returns how many changed ones were taken.
    """
    taken = 0
    for data in altered(b"".join(frames[first:last])):
        together, singly = validator(dialect), validator(dialect)
        for judge in (together, singly):
            for frame in frames[:first]:
                judge.feed(frame)
        size = together.take_usual(data)
        for frame in data[:size].split(b"\n\n")[:-1]:
            singly.feed(frame + b"\n\n")
        assert singly.context.violation is None, data[:size]
        assert (singly.ended, singly.position) == (together.ended, together.position)
        taken += size == len(data)
    return taken

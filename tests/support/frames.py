"""Frames of a batch, for tests that look at each one."""

from __future__ import annotations

from dragoman.wire.sse import Frame, FrameBatch


def frames_of(batch: FrameBatch) -> list[Frame]:
    """Returns the frames of a batch in which none is encoded already."""
    found = [frame for frame in batch if isinstance(frame, Frame)]
    assert len(found) == len(batch), "some frames are encoded already"
    return found

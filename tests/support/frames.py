"""Frames of a batch, for tests that look at each one."""

from __future__ import annotations

from dragoman.wire.sse import Frame, FrameBatch
from dragoman.wire.sse_parser import Parser


def frames_of(batch: FrameBatch) -> list[Frame]:
    """Returns the frames of a batch. Those that are encoded already are parsed, and must be complete."""
    frames: list[Frame] = []
    for piece in [batch] if isinstance(batch, bytes) else batch:
        if isinstance(piece, Frame):
            frames.append(piece)
        else:
            assert piece.endswith(b"\n\n"), "half a frame"
            parsed = Parser().feed(piece)
            assert not isinstance(parsed, bytes)
            frames.extend(frame for frame in parsed if isinstance(frame, Frame))
    return frames

"""Frames of a batch, for tests that look at each one."""

from __future__ import annotations

from dragoman.wire.sse import Frame, FrameBatch, Parser


def frames_of(batch: FrameBatch) -> list[Frame]:
    """Returns the frames of a batch, also those that are encoded already."""
    found: list[Frame] = []
    for item in [batch] if isinstance(batch, bytes) else batch:
        if isinstance(item, Frame):
            found.append(item)
        else:
            assert item.endswith(b"\n\n"), "an encoded frame lacks its blank line"
            found += Parser().parse(item)
    return found

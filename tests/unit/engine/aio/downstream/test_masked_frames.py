"""A client's WebSocket frames must be masked."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from dragoman.aio.downstream.masked_frames import FRAMES, MaskedFrames
from support.strategies import splits


class Reader:
    """Records what it gets."""

    def __init__(self) -> None:
        self.got = b""
        self.ended = False

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self.got += data
        return False, b""

    def feed_eof(self) -> None:
        self.ended = True


class Turns:
    """Keeps what waits for a turn."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], bool], int]] = []

    def wait(self, read: Callable[[], bool], left: int) -> None:
        assert not self.waiting, "one wait at a time"
        self.waiting.append((read, left))

    def next(self) -> bool:
        return self.waiting.pop()[0]()


def frame(size: int, mask: int = 0x80) -> bytes:
    """A frame whose payload looks like headers without masks."""
    head = bytes([0x81, mask | (size if size < 126 else 126 if size < 65536 else 127)])
    if size >= 126:
        head += size.to_bytes(2 if size < 65536 else 8, "big")
    return head + b"\x01\x02\x03\x04" * (mask > 0) + b"\x81\x05" * (size // 2) + b"\x00" * (size % 2)


SIZES = st.lists(st.sampled_from([0, 1, 125, 126, 300, 65535, 65536]), max_size=4)


@given(data=st.data(), sizes=SIZES)
def test_law_masked_frames_pass_unchanged_at_any_split(data: st.DataObject, sizes: list[int]) -> None:
    stream = b"".join(map(frame, sizes))
    reader = Reader()
    frames = MaskedFrames(reader, Turns().wait)
    for piece in data.draw(splits(stream)):
        assert frames.feed_data(piece) == (False, b"")
    assert reader.got == stream


@given(data=st.data(), sizes=SIZES, size=st.sampled_from([0, 5, 126, 70000]))
def test_law_nothing_from_the_first_unmasked_frame_on_is_passed(
    data: st.DataObject, sizes: list[int], size: int
) -> None:
    """In its place comes a frame with reserved bits, which no reader accepts."""
    before = b"".join(map(frame, sizes))
    bad = frame(size, mask=0)
    reader = Reader()
    frames = MaskedFrames(reader, Turns().wait)
    for piece in data.draw(splits(before + bad[:10])):
        frames.feed_data(piece)
        if len(reader.got) > len(before):
            break
    assert reader.got == before + b"\x70\x80"


def test_the_end_is_passed_on() -> None:
    reader = Reader()
    MaskedFrames(reader, Turns().wait).feed_eof()
    assert reader.ended


@given(data=st.data(), count=st.integers(FRAMES - 2, 3 * FRAMES), early=st.booleans())
def test_law_a_turn_passes_few_of_many_frames(data: st.DataObject, count: int, early: bool) -> None:
    """None is lost or overtaken, also when more arrives meanwhile."""
    one, turns, reader = frame(0), Turns(), Reader()
    frames = MaskedFrames(reader, turns.wait)
    stream = one * count
    for piece in data.draw(splits(stream)):
        passed = len(reader.got)
        frames.feed_data(piece)
        assert len(reader.got) - passed <= FRAMES * len(one) + len(one)
        if early and turns.waiting:
            assert turns.next() is False
    while turns.waiting:
        passed = len(reader.got)
        assert 0 < turns.waiting[0][1] <= len(stream) - passed, "more may have arrived since"
        turns.next()
        assert len(reader.got) - passed <= FRAMES * len(one)
    assert reader.got == stream


def test_a_bad_frame_among_many_is_found_in_its_turn() -> None:
    turns, reader = Turns(), Reader()
    frames = MaskedFrames(reader, turns.wait)
    frames.feed_data(frame(0) * (2 * FRAMES + 1) + frame(0, mask=0))
    assert reader.got == frame(0) * FRAMES
    turns.next()
    turns.next()
    assert not turns.waiting
    assert reader.got == frame(0) * (2 * FRAMES + 1) + b"\x70\x80"


def test_frames_that_wait_are_dropped_when_the_client_leaves() -> None:
    turns, reader = Turns(), Reader()
    frames = MaskedFrames(reader, turns.wait)
    frames.feed_data(frame(0) * (2 * FRAMES))
    frames.feed_eof()
    turns.next()
    assert reader.ended
    assert reader.got == frame(0) * FRAMES

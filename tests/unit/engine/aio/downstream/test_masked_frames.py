"""A client's WebSocket frames must be masked."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dragoman.aio.downstream.masked_frames import MaskedFrames
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
    frames = MaskedFrames(reader)
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
    frames = MaskedFrames(reader)
    for piece in data.draw(splits(before + bad[:10])):
        frames.feed_data(piece)
        if len(reader.got) > len(before):
            break
    assert reader.got == before + b"\x70\x80"


def test_the_end_is_passed_on() -> None:
    reader = Reader()
    MaskedFrames(reader).feed_eof()
    assert reader.ended

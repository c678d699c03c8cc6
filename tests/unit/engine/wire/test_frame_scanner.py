"""Frames are found in any bytes as a parser finds them, at any split and with any line ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.wire.frame_scanner import (
    FRAME,
    after_line_ends,
    complete_frames,
    data_of,
    next_frame,
    parse_frame,
    usual_frame,
    with_data,
    with_line_feeds,
    without_empty_lines,
)
from dragoman.wire.sse import CR, Frame
from dragoman.wire.sse_parser import Parser
from support.strategies import splits

LINES = st.sampled_from(
    [b"\n", b":x\n", b"data: a\n", b"data:b\n", b"x\n", b"event: e\n", b"id: 1\n", b"\r", b": y\r\n", b"data: c\r\n"]
)
STREAMS = st.lists(LINES).map(b"".join)


def apart(data: bytes) -> list[Frame]:
    """The frames of complete frames, one by one."""
    frames: list[Frame] = []
    at, odd = after_line_ends(data, 0), CR in data
    while at < len(data):
        line, stop, end = next_frame(data, at, odd)
        if line < 0:
            frames += parse_frame(data[at:end])
        else:
            frames.append(usual_frame(data, at, line, stop))
        at = after_line_ends(data, end)
    return frames


def parsed(data: bytes) -> list[tuple[str, bytes | None]]:
    return stated(Parser().parse(data))


def stated(frames: list[Frame]) -> list[tuple[str, bytes | None]]:
    return [(frame.event, frame.data) for frame in frames]


@given(STREAMS)
def test_complete_frames_are_read_one_by_one_as_all_at_once(lines: bytes) -> None:
    data = b"data: first\n\n" + lines + b"\n\n"
    expected = parsed(data)
    assert stated(apart(data)) == expected
    assert stated(apart(without_empty_lines(with_line_feeds(data)))) == expected


@given(STREAMS, st.data())
def test_complete_frames_are_cut_from_a_stream_at_any_split(lines: bytes, draw: st.DataObject) -> None:
    whole, held = complete_frames(b"", lines)
    assert whole + held == lines
    assert parsed(whole) == parsed(lines)[: len(parsed(whole))]
    assert not [frame for frame in Parser().parse(bytes(held)) if frame.data is not None]
    out = b""
    rest: bytes | bytearray = b""
    for piece in draw.draw(splits(lines)):
        some, rest = complete_frames(rest, piece)
        assert not some or not apart(some) or some[-1:] in (b"\n", b"\r")
        out += some
    assert out + rest == lines
    assert stated(apart(out)) == parsed(out)


@given(STREAMS)
def test_the_pattern_finds_each_frame_once(lines: bytes) -> None:
    data = lines + b"\n\n"
    found = [frame[0] for frame in FRAME.finditer(data)]
    assert b"".join(found).translate(None, b"\r\n") == data.translate(None, b"\r\n")
    assert stated([frame for piece in found for frame in parse_frame(piece)]) == parsed(data)


@pytest.mark.parametrize(
    ("frame", "places"),
    [
        (b"data: 1\n\n", (0, 7, 9)),
        (b"event: e\ndata: 1\n\n", (9, 16, 18)),
        (b"data: 1\ndata: 2\n\n", (-1, 15, 17)),
        (b"data:1\n\n", (-1, 6, 8)),
        (b": c\n\n", (-1, 3, 5)),
        (b"event: e\n\n", (-1, 8, 10)),
        (b"event: e\nid: 1\ndata: 1\n\n", (-1, 22, 24)),
        (b"event: e\ndata\n\n", (-1, 13, 15)),
    ],
)
def test_places_in_a_frame(frame: bytes, places: tuple[int, int, int]) -> None:
    other = b"data: 0\n\n"
    assert next_frame(frame + other, 0, odd=False) == places
    moved = tuple(place + len(other) if place >= 0 else place for place in places)
    assert next_frame(other + frame, len(other), odd=False) == moved
    assert next_frame(frame, 0, odd=True) == (-1, *places[1:])


@pytest.mark.parametrize("rest", [b"event: e", b"event: e\n", b"data: 1", b"data: 1\n", b": c", b"x\n"])
def test_what_has_no_blank_line_ends_with_the_bytes(rest: bytes) -> None:
    data = b"data: 0\n\n" + rest
    assert next_frame(data, 9, odd=False) == next_frame(data, 9, odd=True) == (-1, len(data), len(data))


def test_places_with_other_line_ends() -> None:
    assert next_frame(b"data: 1\r\n\r\n\r\n", 0, odd=True) == (-1, 7, 11)
    assert next_frame(b"data: 1\r\rdata: 2\r\r", 9, odd=True) == (-1, 16, 18)


@pytest.mark.parametrize(
    ("frame", "data", "edited"),
    [
        (b"data: 1\n\n", b" 1", b"data: 2\n\n"),
        (b"data:1\r\n\r\n", b"1", b"data: 2\r\n\r\n"),
        (b"\xef\xbb\xbfdata: 1\n\n", b" 1", b"\xef\xbb\xbfdata: 2\n\n"),
        (b": c\nevent: e\ndata: 1\rid: 1\n", b" 1", b": c\nevent: e\ndata: 2\rid: 1\n"),
        (b"data: 1\ndata: 1\n\n", b" 1\n 1", b"data: 1\ndata: 1\n\n"),
        (b": c\n\n", b"", b": c\n\n"),
    ],
)
def test_data_is_read_and_replaced(frame: bytes, data: bytes, edited: bytes) -> None:
    assert data_of(frame) == data
    assert with_data(frame, b" 2") == edited


def test_data_of_several_lines_keeps_its_lines() -> None:
    assert with_data(b"data: 1\r\ndata:2\r\n\r\n", b" 3\n4") == b"data: 3\r\ndata:4\r\n\r\n"

"""Frames are found in any bytes as a parser finds them, at any split and with any line ends."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.wire.frame_scanner import (
    FRAME,
    USUAL_FRAME,
    after_line_ends,
    complete_frames,
    data_of,
    event_of,
    frame_end,
    long_frame,
    parse_frame,
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
        usual = None if odd else USUAL_FRAME.match(data, at)
        assert odd or spans(long_frame(data, at)) == spans(usual)
        end = frame_end(data, at, odd)[1]
        if usual is None:
            frames += parse_frame(data[at:end])
        else:
            assert usual.end() == end
            frames.append(Frame(event_of(usual[1]), usual[2]))
        at = after_line_ends(data, end)
    return frames


def spans(usual: re.Match[bytes] | None) -> list[tuple[int, int]] | None:
    return usual and [usual.span(number) for number in range(3)]


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
    ("frame", "usual"),
    [
        (b"data: 1\n\n", (b"", b"1")),
        (b"data: \n\n", (b"", b"")),
        (b"event: e\ndata: 1\n\n", (b"event: e\n", b"1")),
        (b"event: \ndata: 1\n\n", (b"event: \n", b"1")),
        (b"data: 1\ndata: 2\n\n", None),
        (b"data:1\n\n", None),
        (b": c\n\n", None),
        (b"event: e\n\n", None),
        (b"event: e\nevent: f\ndata: 1\n\n", None),
        (b"event: e\nid: 1\ndata: 1\n\n", None),
        (b"event: e\ndata\n\n", None),
    ],
)
def test_a_frame_and_its_end(frame: bytes, usual: tuple[bytes, bytes] | None) -> None:
    other = b"data: 0\n\n"
    for data, at in ((frame + other, 0), (other + frame, len(other))):
        end = at + len(frame)
        assert frame_end(data, at, odd=False) == frame_end(data, at, odd=True) == (end - 2, end)
        found = USUAL_FRAME.match(data, at)
        assert (found.groups() if found is not None else None) == usual
        assert spans(long_frame(data, at)) == spans(found)
        assert found is None or found.end() == end


@pytest.mark.parametrize("rest", [b"event: e", b"event: e\n", b"data: 1", b"data: 1\n", b": c", b"x\n"])
def test_what_has_no_blank_line_ends_with_the_bytes(rest: bytes) -> None:
    data = b"data: 0\n\n" + rest
    assert frame_end(data, 9, odd=False) == frame_end(data, 9, odd=True) == (len(data), len(data))
    assert USUAL_FRAME.match(data, 9) is None
    assert long_frame(data, 9) is None


def test_ends_with_other_line_ends() -> None:
    assert frame_end(b"data: 1\r\n\r\n\r\n", 0, odd=True) == (7, 11)
    assert frame_end(b"data: 1\r\rdata: 2\r\r", 9, odd=True) == (16, 18)


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

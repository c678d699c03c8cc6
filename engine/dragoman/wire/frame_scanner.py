"""Finds frames in the bytes of an event stream, for stages that read or edit only some of them.

`complete_frames` cuts a stream behind its last complete frame. `USUAL_FRAME` and `long_frame` read a complete frame
that is a line of data, perhaps with an event line before it. A frame may have other lines, several lines of data, and
lines that end with CR LF or CR: `frame_end` finds its end, and `parse_frame` reads it. `FRAME`, `with_data` and
`with_edits` edit frames.
"""

from __future__ import annotations

import re
from typing import Final

from dragoman.errors import Failure, LimitExceeded
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.wire.sse import CR, Frame
from dragoman.wire.sse_parser import Parser

FRAME: Final = re.compile(rb"(?:[^\r\n]++(?:\r\n|\n|\r|\Z))++(?:\r\n|\n|\r)?")
"""A frame with its blank line, perhaps a last one without."""
USUAL_FRAME: Final = re.compile(rb"((?:event: .*+\n)?+)data: (.*+)\n\n")
"""A usual frame with its blank line: its event line, which may be empty, and its data. It is for bytes without a CR.

In the frames of a few hundred bytes that streams have, a match costs half of the searches that it stands for. It takes
five instructions for each byte.
"""
LONG: Final = 2000
"""Number of bytes from which on `long_frame` is faster than `USUAL_FRAME`, also where many frames follow."""
_USUAL_HEAD: Final = re.compile(rb"(?:event: .*+\n)?+data: ")
_BOUNDED_FRAME: Final = re.compile(rb"((?:event: .*+\n)?+)data: (?s:(.*))\n\n")
_BLANK_LINE: Final = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_LINE_ENDS: Final = re.compile(rb"[\r\n]+")
_LINE_END: Final = re.compile(rb"(\r\n|\n|\r)")
_FURTHER_EMPTY_LINES: Final = re.compile(rb"\n{3,}")
_DATA: Final = (b"data:", b"\xef\xbb\xbfdata:")
_COLON = ord(":")

Edit = tuple[int, int, bytes]
"""A replacement of bytes: start, end, new bytes."""


def complete_frames(held: bytes | bytearray, data: bytes) -> tuple[bytes, bytes | bytearray]:
    """Return the frames that `data` completes, with the blank lines behind them, and the rest.

    `held` is the rest of the last call, b"" at first. It is changed. Each byte is searched once.
    """
    start = 0
    joined: bytes | bytearray = data
    if held:
        assert isinstance(held, bytearray)
        start = len(held) - 1
        held += data
        joined = held
    end = joined.rfind(b"\n\n", start) + 2
    if CR in data:
        end = max(end, joined.rfind(b"\n\r", start) + 2, joined.rfind(b"\r\r", start) + 2)
    if end == 1:
        if held:
            return b"", held
        end = 0
    end = after_line_ends(joined, end)
    return bytes(joined[:end]), bytearray(joined[end:]) if end < len(joined) else b""


def after_line_ends(data: bytes | bytearray, at: int) -> int:
    """Return the place of the first byte from `at` on that ends no line."""
    found = _LINE_ENDS.match(data, at)
    return at if found is None else found.end()


def frame_end(data: bytes, at: int, odd: bool) -> tuple[int, int]:
    """Return the place of the blank line that ends the frame at `at`, and its end. Both are that of `data` without one.

    `odd` is True if `data` has a CR.
    """
    if odd:
        blank = _BLANK_LINE.search(data, at)
        return blank.span() if blank is not None else (len(data), len(data))
    stop = data.find(b"\n\n", at)
    return (stop, stop + 2) if stop >= 0 else (len(data), len(data))


def long_frame(data: bytes, at: int) -> re.Match[bytes] | None:
    """Return what `USUAL_FRAME.match` returns, without a step for each byte of the data."""
    head = _USUAL_HEAD.match(data, at)
    return head and _BOUNDED_FRAME.match(data, at, data.find(b"\n", head.end()) + 2)


def event_of(line: bytes) -> str:
    """Return the name in the event line that `USUAL_FRAME` has matched."""
    return line[len(b"event: ") : -1].decode("utf-8", "replace")


def parse_frame(data: bytes, limits: Limits = DEFAULT_LIMITS) -> list[Frame]:
    """Return the frames of a complete frame of any form: none for unknown fields, several if it has comments."""
    if CR in data:
        data = with_line_feeds(data)
    if data[0] == _COLON and data.find(b"\n") == len(data) - 2 and data.isascii():  # a comment
        return [Frame("", None)]
    parser = _spare_parser(limits)
    frames = parser.parse(data)
    if parser.reusable and len(_SPARE_PARSERS) < _SPARE_MAX:
        _SPARE_PARSERS.append(parser)
    return frames


_SPARE_MAX = 8
_SPARE_PARSERS: list[Parser] = []
"""Parsers of unusual frames, which a flood would make thousands of. `pop` is safe between threads."""


def _spare_parser(limits: Limits) -> Parser:
    try:
        parser = _SPARE_PARSERS.pop()
    except IndexError:
        pass
    else:
        if parser.limits is limits:
            return parser
    parser = Parser(limits, bare=True)
    parser.skip_opening()
    return parser


def with_line_feeds(data: bytes) -> bytes:
    """Return complete frames with line feeds for all line ends."""
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def without_empty_lines(data: bytes) -> bytes:
    """The bytes of whole frames without the empty lines that end none of them: a flood of these is no work."""
    return _FURTHER_EMPTY_LINES.sub(b"\n\n", data.lstrip(b"\n"))


def data_of(frame: bytes) -> bytes:
    """Return the data of a frame, with the space after the colon."""
    return b"\n".join([line.partition(b":")[2] for line in _LINE_END.split(frame)[::2] if line.startswith(_DATA)])


def with_data(frame: bytes, data: bytes) -> bytes:
    """Return a frame with other data, of as many lines as `data_of` returns. With more or fewer, it is unchanged."""
    parts = _LINE_END.split(frame)
    numbers = [number for number in range(0, len(parts), 2) if parts[number].startswith(_DATA)]
    lines = data.split(b"\n")
    if len(lines) != len(numbers):
        return frame
    for number, line in zip(numbers, lines, strict=True):
        parts[number] = parts[number][: parts[number].index(b":") + 1] + line
    return b"".join(parts)


def with_edits(data: bytes, edits: list[Edit]) -> bytes:
    """Return bytes with replacements, which are in the order of their places."""
    pieces: list[bytes] = []
    at = 0
    for begin, stop, instead in edits:
        pieces += data[at:begin], instead
        at = stop
    return b"".join((*pieces, data[at:]))


def ended(frame: bytes) -> bytes:
    """Return a last frame with the line ends that the upstream left out: clients ignore a frame without them."""
    if frame.endswith((b"\n\n", b"\n\r\n", b"\r\r")):
        return frame
    if frame.endswith(b"\r"):  # with a line feed it would be one line end
        return frame + b"\r"
    return frame + (b"\n" if frame.endswith(b"\n") else b"\n\n")


def exceeded_limit(frame: bytes, limits: Limits) -> Failure | None:
    """Return the failure for the limit that a frame exceeds first when it is read byte by byte, or None."""
    if len(frame) <= min(limits.sse_line, limits.sse_frame):
        return None
    lines = with_line_feeds(frame[: limits.sse_frame]).split(b"\n")
    if max(map(len, lines)) > limits.sse_line:
        return LimitExceeded("sse_line", limits.sse_line, upstream=True).failure
    if len(frame.rstrip(b"\r\n")) > limits.sse_frame:
        return LimitExceeded("sse_frame", limits.sse_frame, upstream=True).failure
    return None


def exceeded_so_far(held: bytes | bytearray, limits: Limits) -> Failure | None:
    """Return the failure for a limit that the beginning of a frame exceeds, or None."""
    line = len(held) - 1 - max(held.rfind(b"\n"), held.rfind(b"\r", 0, len(held) - 1))
    if line > limits.sse_line or len(held) - 2 > limits.sse_frame:
        return exceeded_limit(bytes(held), limits)
    return None

"""Whole frames are read from their bytes as from frames that were taken apart (`StreamReader`)."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.events import Event
from dragoman.dialects.shared.stream_reader import StreamReader
from dragoman.reply_context import ReplyContext
from dragoman.wire.sse_parser import Parser


class ReportedError(StreamReader):
    """Keeps the payloads that it is given."""

    __slots__ = ("payloads",)

    def __init__(self) -> None:
        super().__init__(ReplyContext("m"))
        self.payloads: list[bytes] = []

    def read(self, data: bytes, out: list[Event]) -> None:
        """See `StreamReader.read`."""
        self.payloads.append(data)


LONG = "n" * 200
ODD = (
    "data: {}\n\n",
    "event: ping\ndata: {}\n\n",
    f"event: {LONG}\ndata: 1\n\n",
    "event: a\nevent: b\ndata: 2\n\n",
    "event:tight\ndata: 3\n\n",
    "data:4\n\n",
    "data: \n\n",
    "data: 5\ndata: 6\n\n",
    "data: 7\nevent: late\n\n",
    ": data: 8\n\n",
    "id: 9\ndata: 9\n\n",
    "event: data: x\ndata: 10\n\n",
    "event: \u00e9\ndata: 11\n\n",
    "\ndata: 12\n\n",
    "data: 13\r\n\r\ndata: 14\n\n",
    "retry: 1\n\n",
)


@pytest.mark.parametrize("odd", ODD)
def test_whatever_stands_between_others(odd: str) -> None:
    data = f"data: before\n\n{odd}event: x\ndata: behind\n\n\n\n".encode()
    whole, apart = _reported(data, whole=True), _reported(data, whole=False)
    assert whole == apart
    assert (whole[0], whole[-1]) == (b"before", b"behind")


def test_an_event_line_without_its_end_is_no_frame() -> None:
    reader = ReportedError()
    reader.feed(b"data: before\n\nevent: x")
    assert reader.payloads == [b"before"]


def _reported(data: bytes, *, whole: bool) -> list[Any]:
    parser, reader = Parser(whole=whole), ReportedError()
    reader.feed(parser.feed(data))
    return reader.payloads

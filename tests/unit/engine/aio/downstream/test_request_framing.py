"""Where requests end does not depend on how their bytes are segmented."""

from __future__ import annotations

import asyncio
from unittest.mock import Mock

import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import HttpProcessingError, HttpRequestParser, RawRequestMessage

from dragoman.aio.downstream.aiohttp_internals import Message, rejected_request
from dragoman.aio.downstream.request_framing import RequestFraming

GET = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"
POST = (
    b"POST /v1/messages HTTP/1.1\r\nhost: x\r\nContent-Length:  12 \r\nx-a: content-length: 9\r\n\r\n"
    + b"\r\n\r\nGET / HT\r\n"[:12]
)


class Reads:
    """A framing, and the parser of aiohttp from which it gets the heads."""

    def __init__(self) -> None:
        loop = asyncio.new_event_loop()
        loop.close()
        self._parser = HttpRequestParser(BaseProtocol(loop, parser=None), loop, 2**16, timer=Mock())
        self.framing = RequestFraming()

    def heads(self, data: bytes) -> list[Message]:
        try:
            return [head for head, _ in self._parser.feed_data(data)[0]]
        except HttpProcessingError as error:
            return [rejected_request(error)[0]]

    def feed(self, data: bytes) -> None:
        self.framing.feed(data, self.heads(data))


def framing_of(*reads: bytes) -> RequestFraming:
    parsed = Reads()
    for data in reads:
        parsed.feed(data)
    return parsed.framing


@pytest.mark.parametrize("request_", [GET, POST, b"\r\n\r\n" + GET, POST.replace(b"Content", b"CONTENT")])
def test_a_request_is_whole_at_its_last_byte_and_not_before(request_: bytes) -> None:
    reads = Reads()
    framing = reads.framing
    for at in range(len(request_)):
        assert framing.complete == 0
        reads.feed(request_[at : at + 1])
        assert framing.partial is (at < len(request_) - 1 and bool(request_[: at + 1].strip()))
    assert framing.complete == 1


def test_empty_lines_between_requests_are_no_part_of_a_further_one() -> None:
    framing = framing_of(POST + b"\r\n", b"\r\n")
    assert (framing.complete, framing.partial) == (1, False)


@pytest.mark.parametrize(
    "field",
    [
        b"transfer-encoding: chunked\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"content-length: 2\r\ntransfer-encoding: chunked\r\n",
        b"content-length: 2\r\ncontent-length: 3\r\n",
        b"content-length: +2\r\n",
        b"content-length:\r\n",
        b"content-length: 9999999999999999\r\n",
    ],
)
def test_after_a_body_of_unknown_length_nothing_is_counted(field: bytes) -> None:
    framing = framing_of(GET, b"POST / HTTP/1.1\r\nhost: x\r\n" + field + b"\r\n", GET)
    assert (framing.complete, framing.partial) == (1, True)


def test_after_connect_nothing_is_counted() -> None:
    assert framing_of(b"CONNECT x:1 HTTP/1.1\r\nhost: x:1\r\n\r\n", GET).partial


def test_an_upgraded_connection_has_no_further_requests() -> None:
    upgrade = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
    assert framing_of(upgrade, GET).partial


def test_a_head_that_aiohttp_has_not_parsed_has_an_unknown_end() -> None:
    framing = RequestFraming()
    framing.feed(GET, ())
    assert framing.partial
    assert framing.complete == 0


def test_nothing_is_kept_of_a_head_without_an_end() -> None:
    framing = RequestFraming()
    framing.feed(b"GET / HTTP/1.1\r\n", ())
    for _ in range(40):
        framing.feed(b"x-a: b\r\n" * 1024, ())
    assert framing.partial
    assert len(framing._head_tail) < 4


@pytest.mark.parametrize(
    ("data", "whole"),
    [
        (GET, True),
        (POST, True),
        (POST[:-1], False),
        (POST + b"\r\n", False),
        (POST + b"GET", False),
        (b"\r\n\r\n" + GET, False),
        (b"\r\n\r\nPOST / HTTP/1.1\r\nhost: x\r\ncontent-length: 48\r\n\r\n", False),
        (b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", False),
        (b"CONNECT x:1 HTTP/1.1\r\nhost: x:1\r\n\r\n", False),
        (b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n", False),
    ],
)
def test_a_whole_request_is_counted_as_by_its_parts(data: bytes, whole: bool) -> None:
    head = Reads().heads(data)[0]
    assert isinstance(head, RawRequestMessage)
    expected, framing = RequestFraming(), RequestFraming()
    expected.feed(data, [head])
    assert framing.feed_whole(data, head) is whole
    if whole:
        assert (framing.complete, framing.partial) == (expected.complete, expected.partial) == (1, False)
    else:
        assert (framing.complete, framing.partial) == (0, False)


def test_a_request_that_was_begun_is_not_whole() -> None:
    reads = Reads()
    reads.feed(POST[:-1])
    head = Reads().heads(GET)[0]
    assert isinstance(head, RawRequestMessage)
    assert not reads.framing.feed_whole(GET, head)

"""A client's WebSocket frames, as the gateway reads them and as the server of `websockets` does."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from aiohttp import WSMsgType
from aiohttp._websocket.reader import WebSocketDataQueue, WebSocketReader
from aiohttp.http_websocket import WebSocketError
from hypothesis import example, given, note
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.server import ServerProtocol

from dragoman.aio.downstream.masked_frames import MaskedFrames, may_be_sent
from support.strategies import examples, splits, texts

LIMIT = 300
"""Bytes of a message."""
DIFFERENCES = {
    "limit": "aiohttp rejects a message of as many bytes as the limit, `websockets` one above it.",
    "two errors": "A frame that is too long and wrong too is closed with 1009 by one and with 1002 by the other.",
    "length": "`websockets` takes a short control frame whose length has more bytes than are needed, aiohttp does not.",
    "reserved": "aiohttp takes a reserved bit of a control frame if compression was agreed, which it never is here.",
}


@dataclass(slots=True)
class Reading:
    """The outcome: kinds and payloads of messages, pings and pongs, and the code that ends the connection, if any."""

    messages: list[tuple[str, bytes]] = field(default_factory=list)
    code: int | None = None


class _Connection:
    """The connection that a queue would pause."""

    _reading_paused = False

    def pause_reading(self) -> None:
        raise AssertionError("the queue is long enough")

    resume_reading = pause_reading


def own(pieces: Sequence[bytes]) -> Reading:
    """Read frames as a connection of the gateway does."""
    loop, reading = asyncio.new_event_loop(), Reading()
    try:
        queue = WebSocketDataQueue(cast("Any", _Connection()), 2**20, loop=loop)
        waiting: list[Callable[[], bool]] = []
        reader = WebSocketReader(queue, LIMIT + 1, False, False)
        frames = MaskedFrames(reader, lambda read, left: waiting.append(read))
        for piece in pieces:
            frames.feed_data(piece)
            while waiting:
                waiting.pop()()
        queue.feed_eof() if queue.exception() is None else None
        while reading.code is None and (queue._buffer or queue.exception()):
            try:
                message: Any = loop.run_until_complete(queue.read())
            except WebSocketError as error:
                reading.code = int(error.code)
                continue
            kind = message.type
            if kind is not WSMsgType.CLOSE:
                reading.messages.append((kind.name.lower(), bytes(message.data)))
            else:
                reading.code = (message.data or 1005) if may_be_sent(message.data) else 1002
    finally:
        loop.close()
    return reading


def judged(pieces: Sequence[bytes]) -> Reading:
    """Read frames with `websockets`."""
    protocol, reading = ServerProtocol(state=State.OPEN, max_size=LIMIT), Reading()
    for piece in pieces:
        protocol.receive_data(piece)
    parts: list[bytes] = []
    kind = ""
    for frame in protocol.events_received():
        assert isinstance(frame, Frame)
        if frame.opcode in (Opcode.PING, Opcode.PONG):
            reading.messages.append((frame.opcode.name.lower(), bytes(frame.data)))
        elif frame.opcode is not Opcode.CLOSE:
            if frame.opcode is not Opcode.CONT:
                kind, parts = frame.opcode.name.lower(), []
            parts.append(bytes(frame.data))
            if frame.fin:
                reading.messages.append((kind, b"".join(parts)))
    if protocol.close_rcvd is not None:
        reading.code = protocol.close_rcvd.code
    elif protocol.parser_exc is not None:
        assert protocol.close_sent is not None
        reading.code = protocol.close_sent.code
    return reading


_SIZES = st.sampled_from((0, 1, 2, 124, 125, 126, 127, 200, 299, 300, 301, 65535, 65536))
_CODES = st.one_of(
    st.sampled_from((0, 999, *range(1000, 1017), 1100, 2000, 2999, 3000, 3999, 4000, 4999, 5000, 65535)),
    st.integers(0, 65535),
)


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """One frame: nearly always a right one."""
    opcode = draw(st.sampled_from((0, 0, 0, 1, 1, 2, 8, 9, 10, 3, 11)))
    if opcode == 8:
        code = draw(_CODES.map(lambda code: code.to_bytes(2, "big")))
        reasons = texts.map(str.encode).map(code.__add__) | st.binary(max_size=4).map(b"\x03\xe8".__add__)
        payload = draw(st.sampled_from((b"", b"\x03")) | reasons)
    else:
        payload = draw(st.binary(max_size=6) | _SIZES.map(lambda size: b"\x81" * size))
    final = draw(st.sampled_from((0x80, 0x80, 0))) if opcode < 8 else draw(st.sampled_from((0x80,) * 9 + (0,)))
    mask = draw(st.sampled_from((0x80,) * 19 + (0,)))
    reserved = draw(st.sampled_from((0,) * 19 + (0x40, 0x20, 0x10)))
    size = len(payload)
    widths = [width for width, most in ((0, 125), (2, 65535), (8, 2**63)) if size <= most]
    width = draw(st.sampled_from(widths if opcode < 8 else widths[:1]))
    head = bytes((opcode | final | reserved, mask | {0: size, 2: 126, 8: 127}[width])) + size.to_bytes(
        width or 1, "big"
    )
    key = draw(st.binary(min_size=4, max_size=4)) if mask else b""
    covered = bytes(map(int.__xor__, payload, itertools.cycle(key))) if mask else payload
    return (head if width else head[:2]) + key + covered


_EMPTY, _TEXT = b"\x01\x80abcd", b"\x81\x81\0\0\0\0a"


@examples(4)
@given(sent=st.lists(frames(), max_size=8), data=st.data())
@example(sent=[_EMPTY, _TEXT], data=None)
@example(sent=[_EMPTY, b"\x80\x80abcd", _TEXT], data=None)
@example(sent=[b"\x88\x82\0\0\0\0\x03\xee"], data=None)
@example(sent=[b"\x88\x82\0\0\0\0\x13\x88"], data=None)
def test_frames_are_read_alike(sent: list[bytes], data: st.DataObject | None) -> None:
    raw = b"".join(sent)
    note(repr(raw))
    mine, theirs = own(data.draw(splits(raw)) if data is not None else sent), judged([raw])
    if {mine.code, theirs.code} == {1002, 1009}:  # "two errors"
        mine.code = theirs.code
    assert mine == theirs

"""A stream as text messages: one for each event, whatever the split of its bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from dragoman.aio.downstream.websocket import WebSocketStream
from dragoman.aio.stream_timers import StreamTimers
from dragoman.aio.timeouts import Timeouts
from dragoman.wire.sse import FrameBatch
from dragoman.wire.sse_parser import Parser
from support.waiting import turns


class Socket:
    """A WebSocket that records what is sent, and fails once it is `gone`."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.pings = 0
        self.gone = False
        self.blocked: asyncio.Event | None = None

    async def send_frame(self, message: bytes, opcode: web.WSMsgType) -> None:
        assert opcode is web.WSMsgType.TEXT
        if self.gone:
            raise ConnectionResetError
        self.sent.append(message)

    async def ping(self) -> None:
        self.pings += 1
        if self.blocked is not None:
            await self.blocked.wait()
        if self.gone:
            raise ConnectionResetError


def stream_to(
    socket: Socket, tail: bytes = b"}", events: list[tuple[str, bytes]] | None = None
) -> tuple[WebSocketStream, StreamTimers]:
    timers = StreamTimers(Timeouts())
    seen = events if events is not None else []
    request = make_mocked_request("GET", "/")
    sink = WebSocketStream(
        cast("web.WebSocketResponse", socket), request, timers, tail, lambda event, data: seen.append((event, data))
    )
    return sink, timers


async def batches(*frames: FrameBatch) -> AsyncGenerator[FrameBatch, None]:
    for batch in frames:
        yield batch


FRAMES = (
    b'event: response.created\ndata: {"type":"response.created"}\n\n',
    b": keep-alive\n\n",
    b'data: {"text":"\xe2\x80\xa8"}\n\n',
    b"data: [DONE]\n\n",
)


@pytest.mark.parametrize(
    "sent",
    [FRAMES, (b"".join(FRAMES),), tuple([frame] for frame in Parser().parse(b"".join(FRAMES)))],
    ids=["encoded", "in one batch", "frames"],
)
async def test_each_event_is_a_message(sent: tuple[FrameBatch, ...]) -> None:
    """Comments and `[DONE]` are no messages."""
    socket, events = Socket(), list[tuple[str, bytes]]()
    sink, timers = stream_to(socket, events=events)
    assert not sink.opened
    assert not await sink.open()
    assert sink.opened
    await sink.send_body(batches(*sent), cast("Any", None))
    await sink.end(b"")
    sink.close()
    timers.stop()
    messages = [b'{"type":"response.created"}', b'{"text":"\xe2\x80\xa8"}']
    assert socket.sent == messages
    assert events == [("response.created", messages[0]), ("", messages[1])]


async def test_the_tail_names_the_lane() -> None:
    socket = Socket()
    sink, timers = stream_to(socket, b',"stream_id":"a"}')
    await sink.write(b'data: {"a":1}\n\ndata: {"b":2} \n\ndata: [1]\n\n')
    timers.stop()
    assert [json.loads(message) for message in socket.sent] == [
        {"a": 1, "stream_id": "a"},
        {"b": 2, "stream_id": "a"},
        [1],
    ]


async def test_a_message_is_valid_utf_8() -> None:
    """A client would end the connection otherwise."""
    socket = Socket()
    sink, timers = stream_to(socket)
    await sink.write(b'data: {"a":"\xff"}\n\n')
    timers.stop()
    assert json.loads(socket.sent[0].decode()) == {"a": "\ufffd"}


async def test_a_heartbeat_is_a_ping_and_never_two_at_once() -> None:
    socket = Socket()
    socket.blocked = asyncio.Event()
    sink, timers = stream_to(socket)
    for _ in range(3):
        sink.send_heartbeat()
        await turns()
    assert socket.pings == 1
    socket.gone = True
    socket.blocked.set()
    await turns()
    sink.send_heartbeat()
    await turns()
    assert socket.pings == 2
    sink.close()
    timers.stop()


async def test_a_client_that_has_disconnected_ends_the_stream() -> None:
    socket = Socket()
    socket.gone = True
    sink, timers = stream_to(socket)
    with pytest.raises(ConnectionResetError):
        await sink.send_body(batches(*FRAMES), cast("Any", None))
    timers.stop()


async def test_the_connection_of_a_client_that_does_not_read_is_closed() -> None:
    sink, timers = stream_to(Socket())
    transport = cast("Any", sink)._request.transport
    sink.abort()
    timers.stop()
    transport.abort.assert_called_once()

"""`SlicedResponse`: a long body is written one slice per turn of the loop."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from aiohttp import HttpVersion11
from aiohttp.http import StreamWriter
from aiohttp.test_utils import make_mocked_request

from dragoman.aio.batch_slices import WRITE_SLICE
from dragoman.aio.downstream.sliced_response import SlicedResponse


class Socket:
    """A transport and its protocol in one, that notes the turn of each write."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.turns: list[int] = []
        self.transport: Any = self
        self.turn = 0
        self.ssl_context = self.peername = self.sockname = None
        self._paused = False

    def write(self, data: bytes) -> None:
        self.writes.append(bytes(data))
        self.turns.append(self.turn)

    writing_paused = False

    def is_closing(self) -> bool:
        return False

    async def _drain_helper(self) -> None:
        return

    def get_extra_info(self, name: str) -> None:
        return None


async def sent(body: bytes, *, packed: bool = False) -> tuple[Socket, SlicedResponse]:
    """Send a response. Returns what was written."""
    loop, socket = asyncio.get_running_loop(), Socket()
    writer = StreamWriter(cast("Any", socket), loop)
    request = make_mocked_request(
        "POST",
        "/",
        headers={"accept-encoding": "deflate"},
        writer=writer,
        protocol=cast("Any", socket),
        transport=socket,
        version=HttpVersion11,
    )
    response = SlicedResponse(body=body, content_type="application/json")
    if packed:
        response.enable_compression()

    def turn() -> None:
        socket.turn += 1
        handles[:] = [loop.call_soon(turn)]

    handles = [loop.call_soon(turn)]
    await response.prepare(request)
    await response.write_eof()
    handles[0].cancel()
    return socket, response


@pytest.mark.parametrize("length", [0, 5, WRITE_SLICE, WRITE_SLICE + 1, 4 * WRITE_SLICE])
async def test_a_turn_has_one_slice(length: int) -> None:
    body = b"x" * length
    socket, response = await sent(body)
    head, _, received = b"".join(socket.writes).partition(b"\r\n\r\n")
    assert received == body
    assert b"content-length: %d" % length in head.lower()
    assert len(set(socket.turns)) == len(socket.turns)
    assert max(map(len, socket.writes)) <= WRITE_SLICE + 1000
    assert response.body_length == len(b"".join(socket.writes))


async def test_a_compressed_body_is_aiohttps() -> None:
    socket, response = await sent(b"x" * 3 * WRITE_SLICE, packed=True)
    assert len(b"".join(socket.writes)) < WRITE_SLICE
    assert response.headers["content-encoding"] == "deflate"

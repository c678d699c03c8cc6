"""One upstream connection: when it is kept, when it is closed."""

from __future__ import annotations

import os
import socket

import pytest

from dragoman.aio.upstream.http11 import connection as raw
from dragoman.errors import DragomanError, UpstreamUnreachable
from support.raw_connections import HEAD, WHOLE, Bench, bench, chunk

LAST = b"0\r\n\r\n"


async def kept(made: Bench) -> bool:
    """Return whether the next request uses the first connection."""
    return await made.connect() is not None and len(made.wires) == 1


async def test_a_request_is_one_write() -> None:
    async with bench() as made:
        await made.answer(WHOLE)
        assert made.wires[0].written == [b"headbody"]


async def test_a_socket_that_its_transport_has_closed_is_not_shut_down() -> None:
    """TLS closes a connection before its protocol knows it: the descriptor may be that of another one."""
    async with bench() as made:
        connection = await made.connect()
        near = made.wires[0].near
        descriptor = near.fileno()
        one, other = socket.socketpair()
        near.close()
        with one, other, socket.socket(fileno=os.dup2(other.fileno(), descriptor)):
            connection.abort()
            one.sendall(b"still open")
            assert other.recv(100) == b"still open"


async def test_a_long_body_is_not_copied() -> None:
    body = bytes(100_000)
    async with bench() as made:
        connection = await made.connect()
        connection.send(b"head", body)
        assert made.wires[0].written == [b"head", body]
        assert made.wires[0].written[1] is body


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (b"", 15.0),
        (b"keep-alive: timeout=5, max=100\r\n", 4.0),
        (b"Keep-Alive: Timeout=600\r\n", 15.0),
        (b"keep-alive: timeout=1\r\n", 0.0),
        (b"connection: close\r\n", 0.0),
        (b"keep-alive: what\r\n", 15.0),
    ],
)
async def test_how_long_it_is_kept(header: bytes, seconds: float) -> None:
    async with bench() as made:
        answer, connection = await made.answer(WHOLE.replace(b"\r\n\r\n", b"\r\n" + header + b"\r\n"))
        assert connection.parser.keep_seconds == seconds
        assert await answer.read(9) == b"ok"
        await answer.close()
        assert made.wires[0].closed is (seconds == 0.0)


async def test_a_reply_before_its_request_was_sent_ends_the_connection() -> None:
    async with bench() as made:
        connection = await made.connect()
        made.wires[0].unsent = 1000
        connection.send(b"head", bytes(10))
        connection.data_received(WHOLE)
        await connection.wait_for_head()
        connection.release(finish=True)
        assert made.wires[0].closed


async def test_a_second_reply_ends_the_connection() -> None:
    async with bench() as made:
        answer, _ = await made.answer(WHOLE + b"HTTP/1.1 ")
        assert await answer.read(9) == b"ok"
        await answer.close()
        assert made.wires[0].closed


@pytest.mark.parametrize("end", ["finished", "flooded", "broken", "timed out", "lost"])
async def test_a_reply_that_was_left_finishes_by_itself(end: str) -> None:
    async with bench() as made:
        _, connection = await made.answer(HEAD + chunk(b"one"))
        connection.release(finish=True)
        wire = made.wires[0]
        connection.data_received(chunk(b"more"))
        assert not wire.closed
        timer = connection._drain_timer
        assert timer is not None
        if end == "finished":
            connection.data_received(LAST)
            assert timer.cancelled()
            assert await kept(made)
            return
        if end == "flooded":
            connection.data_received(chunk(bytes(70_000)))
        elif end == "broken":
            connection.data_received(b"zz\r\n")
        elif end == "lost":
            wire.lose()
        else:
            assert timer.when() - made.pool.loop.time() == pytest.approx(raw.DRAIN_SECONDS, abs=0.5)
            connection.abort()
        assert wire.closed
        assert timer.cancelled()


async def test_a_paused_reply_that_is_left_goes_on_to_its_end() -> None:
    async with bench(unread=1024) as made:
        answer, connection = await made.answer(HEAD)
        connection.data_received(chunk(bytes(2000)))
        assert made.wires[0].paused
        connection.release(finish=True)
        assert not made.wires[0].paused
        connection.data_received(LAST)
        assert await kept(made)
        assert answer.status == 200


async def test_what_fails_a_read_is_not_held_up_by_what_came() -> None:
    """Otherwise the end would not be noticed while the client does not read."""
    error = DragomanError(UpstreamUnreachable("stopping").failure)
    async with bench() as made:
        answer, connection = await made.answer(HEAD + chunk(b"one") + LAST)
        connection.fail(error)
        with pytest.raises(DragomanError) as raised:
            await answer.read(99)
        assert raised.value is error
        assert made.wires[0].closed


@pytest.mark.parametrize("phase", ["fresh", "head"])
async def test_an_end_without_an_answer(phase: str) -> None:
    async with bench() as made:
        connection = await made.connect()
        if phase == "fresh":
            made.wires[0].lose()
            connection.send(b"head", b"")
            assert made.wires[0].written == []
        else:
            connection.send(b"head", b"")
            made.wires[0].lose(ConnectionResetError(104, "Connection reset by peer"))
        with pytest.raises(
            UpstreamUnreachable, match=r"^the upstream connection failed: (Server disc|.*reset by peer)"
        ):
            await connection.wait_for_head()


async def test_header_values_are_as_in_aiohttp() -> None:
    async with bench() as made:
        answer, _ = await made.answer(
            b"HTTP/1.1 200 OK\r\nX-A: one\r\nx-a:  two \t \r\nX-Bytes: \xc3\xa9\xff\r\ncontent-length: 0\r\n\r\n"
        )
        assert answer.headers.get("x-A") == "one"
        assert [value for name, value in answer.headers.items() if name.lower() == "x-a"] == ["one", "two"]
        assert answer.headers["x-bytes"] == "é\udcff"

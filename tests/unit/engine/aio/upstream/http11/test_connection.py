"""One upstream connection: how it reads a server's bytes, when it is kept, when it is closed."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import nullcontext
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.aio.upstream.http11 import connection as raw
from dragoman.errors import DragomanError, StreamTruncated, UpstreamUnreachable
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


@given(st.lists(st.integers(0, 120), max_size=6), st.booleans())
async def test_the_split_of_the_bytes_does_not_matter(cuts: list[int], chunked: bool) -> None:
    wire = HEAD + chunk(b"one") + chunk(b"two" * 9) + b"0\r\nx-trailer: y\r\n\r\n" if chunked else WHOLE
    wire = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + wire
    at = [0, *sorted(cut for cut in cuts if cut < len(wire)), len(wire)]
    async with bench() as made:
        pieces = [wire[at[i] : at[i + 1]] for i in range(len(at) - 1) if at[i] < at[i + 1]]
        answer, _ = await made.answer(*pieces)
        assert await answer.read(1000) == (b"one" + b"two" * 9 if chunked else b"ok")
        await answer.close()
        assert await kept(made)


@given(st.lists(st.integers(0, 420), max_size=4), st.sampled_from([b"", b"zz\r\n"]))
async def test_the_split_of_a_long_read_does_not_matter(cuts: list[int], malformed: bytes) -> None:
    texts = [b"%d" % number for number in range(50)]
    wire = HEAD + b"".join(map(chunk, texts)) + (malformed or b"0\r\nx-trailer: y\r\n\r\n")
    at = [0, *sorted(cut for cut in cuts if cut < len(wire)), len(wire)]
    with patch.object(raw, "PART", 64), patch.object(raw, "_FEW", 2):
        async with bench() as made:
            pieces = [wire[at[i] : at[i + 1]] for i in range(len(at) - 1) if at[i] < at[i + 1]]
            answer, _ = await made.answer(*pieces)
            received = b""
            with pytest.raises(StreamTruncated) if malformed else nullcontext():
                async for batch in answer.batches():
                    received += batch
            assert received == b"".join(texts)
            await answer.close()
            assert await kept(made) is (not malformed)


async def test_reading_goes_on_after_a_last_part_without_body(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw, "PART", 64)
    monkeypatch.setattr(raw, "_FEW", 2)
    async with bench() as made:
        answer, connection = await made.answer(HEAD + chunk(b"one"))
        batches = answer.batches()
        assert await anext(batches) == b"one"
        connection.data_received(chunk(b"x") * 32 + b"1\r")
        assert made.wires[0].paused
        got = b""
        while len(got) < 32:
            got += await anext(batches)
        following = asyncio.ensure_future(anext(batches))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not made.wires[0].paused
        connection.data_received(b"\ny\r\n" + LAST)
        assert await following == b"y"


async def test_what_came_before_it_broke_is_given_first() -> None:
    async with bench() as made:
        answer, _ = await made.answer(HEAD + chunk(b"one") + b"zz\r\n")
        batches = answer.batches()
        assert await anext(batches) == b"one"
        with pytest.raises(StreamTruncated, match="connection broke before the end"):
            await anext(batches)
        assert made.wires[0].closed


@pytest.mark.parametrize("more", [b"5;" + b"x" * 65_000, b"0" * 65_000, b"0\r\n" + b"a: b\r\n" * 10_900])
async def test_what_is_not_body_has_a_limit(more: bytes) -> None:
    async with bench() as made:
        answer, connection = await made.answer(HEAD + chunk(b"one"))
        batches = answer.batches()
        assert await anext(batches) == b"one"
        connection.data_received(more)
        assert not made.wires[0].closed
        connection.data_received(more[-600:])
        assert made.wires[0].closed
        with pytest.raises(StreamTruncated):
            await anext(batches)


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


async def test_an_unread_reply_pauses_its_server() -> None:
    async with bench(unread=1024) as made:
        answer, connection = await made.answer(HEAD + chunk(b"a" * 600))
        assert not made.wires[0].paused
        connection.data_received(chunk(b"b" * 600))
        assert made.wires[0].paused
        batches = answer.batches()
        assert await anext(batches) == b"a" * 600 + b"b" * 600
        assert not made.wires[0].paused
        await batches.aclose()


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

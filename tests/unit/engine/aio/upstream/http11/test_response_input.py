"""The input of a connection: how it reads a server's bytes."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.aio.batch_slices import SMALL
from dragoman.aio.long_work import AT_ONCE, LITTLE, long_work
from dragoman.aio.upstream.http11 import response_input as raw
from dragoman.errors import StreamTruncated
from support.raw_connections import HEAD, WHOLE, Bench, bench, chunk

LAST = b"0\r\n\r\n"


async def kept(made: Bench) -> bool:
    """Return whether the next request uses the first connection."""
    return await made.connect() is not None and len(made.wires) == 1


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
    with patch.object(raw, "SMALL", 64), patch.object(raw, "PART", 64), patch.object(raw, "_FEW", 2):
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
    monkeypatch.setattr(raw, "SMALL", 64)
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


PIECE = 4 * SMALL


async def test_a_turn_parses_few_of_many_reads() -> None:
    """The others are parsed in later turns; a short read is parsed at once, however many wait."""
    async with bench() as made:
        many = [await made.answer(HEAD + chunk(b"one")) for _ in range(30)]
        readers = [answer.batches() for answer, _ in many]
        for reader in readers:
            assert await anext(reader) == b"one"
        parsed = 0
        for _, connection in many[:-1]:
            connection.data_received(chunk(b"x" * PIECE))
            parsed += bool(connection.parser.pieces)
        assert parsed == AT_ONCE // len(chunk(b"x" * PIECE))
        *_, (_, last) = many
        last.data_received(chunk(b"y" * (SMALL // 2)))
        assert last.parser.pieces
        assert [wire.paused for wire in made.wires] == [False] * parsed + [True] * (29 - parsed) + [False]
        got = [await anext(reader) for reader in readers]
        assert got == [b"x" * PIECE] * 29 + [b"y" * (SMALL // 2)]
        parked = [asyncio.ensure_future(anext(reader)) for reader in readers]
        await asyncio.sleep(0)
        assert not any(wire.paused for wire in made.wires), "all is read, so reading goes on"
        for task in parked:
            task.cancel()
        await asyncio.wait(parked)
        for answer, _ in many:
            await answer.close()


async def test_a_stream_that_is_always_behind_is_a_fast_one() -> None:
    """Its parts come after those of streams with little left, until once nothing had arrived."""
    async with bench() as made:
        answer, connection = await made.answer(HEAD + chunk(b"one"))
        reader = answer.batches()
        assert await anext(reader) == b"one"
        work = long_work(asyncio.get_running_loop())
        read = 0
        while connection.left <= LITTLE:
            work.add(lambda: None, 0)  # another stream waits
            connection.data_received(chunk(b"x" * PIECE))
            read += PIECE
            assert connection.left >= read
            assert await anext(reader) == b"x" * PIECE
            connection.resume_reading()
        for _ in range(2):
            work.add(lambda: None, 0)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        work.add(lambda: None, 0)
        connection.data_received(chunk(b"x" * PIECE))
        assert PIECE < connection.left < 2 * PIECE
        await answer.close()

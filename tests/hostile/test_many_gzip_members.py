"""A reply of many small members of gzip: its work is linear, and a turn of the loop expands few of them.

Each member made zlib copy all bytes behind it: 1 MiB of empty ones took 27 GB of copies in one turn of the loop.
"""

from __future__ import annotations

import asyncio
import gzip
import zlib
from typing import Any

import pytest

from dragoman.aio import decompress
from support.raw_connections import bench

EMPTY, SMALL = gzip.compress(b"", mtime=0), gzip.compress(bytes(2000), mtime=0)
ZEROED = gzip.compress(b"x", mtime=0) + b"\0"
READ = 256 * 1024
HEAD = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n"


class Meter:
    """Counts members, the bytes that zlib copies, and those that it expands to, in all and by turn of the loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.members = self.copied = self.expanded = 0
        self.most = (0, 0)
        make, meter = zlib.decompressobj, self

        class Counted:
            def __init__(self, wbits: int) -> None:
                self._inner = make(wbits)
                meter.members += 1

            def decompress(self, data: bytes, limit: int) -> bytes:
                piece = self._inner.decompress(data, limit)
                meter.copied += len(data) + len(self._inner.unused_data) + len(self._inner.unconsumed_tail)
                meter.expanded += len(piece)
                return piece

            def __getattr__(self, name: str) -> Any:
                return getattr(self._inner, name)

        monkeypatch.setattr(zlib, "decompressobj", Counted)

    async def tick(self) -> None:
        while True:
            before = self.members, self.expanded
            await asyncio.sleep(0)
            self.most = max(self.most[0], self.members - before[0]), max(self.most[1], self.expanded - before[1])


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> Meter:
    return Meter(monkeypatch)


@pytest.mark.parametrize("member", [EMPTY, SMALL, ZEROED], ids=["empty", "2 kB", "a zero behind each"])
def test_the_copies_are_linear(meter: Meter, member: bytes) -> None:
    body = member * (READ // len(member))
    found = decompress.decompressor("gzip")
    assert found is not None
    for _ in found.feed(body):
        pass
    found.finish()
    print(f"{len(body)} bytes, {meter.members} members: {meter.copied} bytes copied")
    assert meter.members == READ // len(member)
    assert meter.copied <= 30 * READ


def test_an_expanding_member_does_not_copy_what_it_did_not_read(meter: Meter) -> None:
    body = gzip.compress(bytes(64 << 20), 1)
    found = decompress.decompressor("gzip")
    assert found is not None
    assert sum(map(len, found.feed(body))) == 64 << 20
    steps = (64 << 20) // decompress.PIECE
    print(f"{len(body)} bytes, {steps} pieces: {meter.copied} bytes copied")
    assert meter.copied <= 2 * (64 << 10) * (steps + len(body) // (64 << 10) + 1)


@pytest.mark.parametrize("form", ["whole", "stream"])
@pytest.mark.parametrize("member", [EMPTY, SMALL], ids=["empty", "2 kB"])
async def test_a_turn_of_the_loop_expands_few_members(
    monkeypatch: pytest.MonkeyPatch, member: bytes, form: str
) -> None:
    expected = len(gzip.decompress(member))
    meter = Meter(monkeypatch)
    count = READ // len(member)
    body = member * count
    async with bench() as made:
        answer, _ = await made.answer(HEAD % len(body) + body)
        ticking = asyncio.create_task(meter.tick())
        await asyncio.sleep(0)
        if form == "whole":
            size = len(await answer.read(1 << 30))
        else:
            size = sum([len(data) async for data in answer.batches()])
        await asyncio.sleep(0)
        ticking.cancel()
        await answer.close()
    print(f"{meter.members} members, at most {meter.most[0]} and {meter.most[1]} bytes in a turn")
    assert meter.members == count
    assert size == count * expected
    assert meter.most[0] <= 65
    assert meter.most[1] <= 2 * decompress.PIECE


async def test_a_turn_of_the_loop_expands_a_piece_of_a_whole_reply(meter: Meter) -> None:
    body = gzip.compress(bytes(32 << 20), mtime=0)
    async with bench() as made:
        answer, _ = await made.answer(HEAD % len(body) + body)
        ticking = asyncio.create_task(meter.tick())
        await asyncio.sleep(0)
        assert len(await answer.read(1 << 30)) == 32 << 20
        await asyncio.sleep(0)
        ticking.cancel()
        await answer.close()
    print(f"at most {meter.most[1]} bytes in a turn")
    assert meter.most[1] <= 2 * decompress.PIECE

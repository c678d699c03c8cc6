"""Heads of HTTP/1.1 responses and their limits."""

from __future__ import annotations

import pytest

from dragoman.errors import UpstreamUnreachable
from support.raw_connections import WHOLE, bench


@pytest.mark.parametrize("over", [0, 1])
@pytest.mark.parametrize("size", [1, 100, 5000])
async def test_the_head_has_a_limit(over: int, size: int) -> None:
    room = 2000 - len(b"HTTP/1.1 200 OK\r\nx: \r\ncontent-length: 2\r\n\r\n")
    wire = b"HTTP/1.1 200 OK\r\nx: %b\r\ncontent-length: 2\r\n\r\nok" % (b"a" * (room + over))
    pieces = [wire[i : i + size] for i in range(0, len(wire), size)]
    async with bench(head=2000) as made:
        if not over:
            assert await (await made.answer(*pieces))[0].read(9) == b"ok"
            return
        with pytest.raises(UpstreamUnreachable, match=r"connections\.head = 2000"):
            await made.answer(*pieces)
        assert made.wires[0].closed


@pytest.mark.parametrize("together", [True, False])
async def test_interim_replies_have_a_limit(together: bool) -> None:
    interim = [b"HTTP/1.1 100 Continue\r\n\r\n"] * 17
    async with bench() as made:
        assert (await made.answer(*interim[:16], WHOLE))[0].status == 200
        with pytest.raises(UpstreamUnreachable, match="too many interim replies"):
            await made.answer(*([b"".join(interim)] if together else interim))


@pytest.mark.parametrize(
    ("wire", "reason"),
    [
        (b"SSH-2.0-OpenSSH\r\n", "not well-formed"),
        (b"HTTP/1.1 200 OK\r\nkey: sk-secret\x01\r\n\r\n", "not well-formed"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n", "Content-Length"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\n", "Content-Length"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n", "other than chunked"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n", "other than chunked"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n", "other than chunked"),
        (b"HTTP/1.1 200 OK\r\nx: a\r\n folded\r\n\r\n", "whitespace"),
        (b"HTTP/1.1 200 OK\ncontent-length: 0\n\n", "CR"),
        (b"HTTP/1.1 101 Switching\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n", "switched protocols"),
    ],
)
async def test_a_head_that_makes_no_sense(wire: bytes, reason: str) -> None:
    async with bench() as made:
        with pytest.raises(UpstreamUnreachable, match=f"^the upstream connection failed: .*{reason}") as raised:
            await made.answer(wire)
        assert "secret" not in str(raised.value)
        assert made.wires[0].closed

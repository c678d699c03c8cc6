"""A compressed reply in pieces and slices, and its errors in the upstream's name."""

from __future__ import annotations

import gzip
from collections.abc import AsyncGenerator

import pytest

from dragoman.aio.batch_slices import SLICE
from dragoman.aio.upstream.decompressed_reply import decompressed
from dragoman.errors import StreamTruncated, UpstreamProtocolError
from support.packing import packed_zstd, skippable, without_extra

EVENTS = b"data: 1\n\n" * 20_000


class Received:
    """The reads of a reply's body."""

    def __init__(self, *reads: bytes) -> None:
        self.reads = reads
        self.closed = False

    async def batches(self) -> AsyncGenerator[bytes, None]:
        try:
            for data in self.reads:
                yield data
        finally:
            self.closed = True


async def pieces(encoding: str, *reads: bytes, sliced: bool = True, limit: int | None = None) -> list[bytes]:
    received = Received(*reads)
    try:
        body = decompressed(received.batches(), encoding, sliced=sliced, limit=limit)
        return [piece async for piece in body]
    finally:
        assert received.closed


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "gzip, zstd"])
async def test_a_stream_comes_in_slices_and_a_whole_body_in_pieces(encoding: str) -> None:
    body = gzip.compress(EVENTS) if "gzip" in encoding else EVENTS
    body = packed_zstd(body) if "zstd" in encoding else body
    sliced = await pieces(encoding, body[:99], body[99:])
    assert b"".join(sliced) == EVENTS
    assert max(map(len, sliced)) <= SLICE
    whole = await pieces(encoding, body, sliced=False)
    assert b"".join(whole) == EVENTS
    assert len(whole) < 20


async def test_an_identity_is_passed_on() -> None:
    assert await pieces("Identity", b"one", b"two") == [b"one", b"two"]


async def test_a_reader_that_stops_closes_what_was_received() -> None:
    received = Received(gzip.compress(EVENTS), b"more")
    body = decompressed(received.batches(), "gzip", sliced=True)
    await anext(body)
    await body.aclose()
    assert received.closed


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("Compress ", "'compress'"),
        ("gzip, compress", "'gzip, compress'"),
        ("gzip,gzip,gzip,gzip", "'gzip,gzip,gzip,gzip'"),
        ("a\nb", r"'a\nb'"),
        ("x" * 5000, "'<5000 characters>'"),
    ],
)
async def test_an_encoding_that_cannot_be_read_is_named(encoding: str, shown: str) -> None:
    received = Received(b"x")
    body = decompressed(received.batches(), encoding, sliced=True)
    with pytest.raises(UpstreamProtocolError) as raised:
        await anext(body)
    assert str(raised.value) == (
        f"the upstream's reply is in the content-encoding {shown}, which it was not asked for; "
        "only gzip, deflate, br, zstd are understood: switch its compression off"
    )


async def test_without_the_extra_the_error_has_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    without_extra(monkeypatch)
    with pytest.raises(UpstreamProtocolError) as raised:
        await anext(decompressed(Received(b"x").batches(), "zstd", sliced=True))
    assert str(raised.value).endswith(
        "only gzip, deflate are understood: switch its compression off, or install Dragoman with the extra compression"
    )


@pytest.mark.parametrize(
    ("encoding", "body", "problem"),
    [
        ("gzip", b"no gzip", "upstream's gzip body is corrupt"),
        ("zstd", packed_zstd(EVENTS)[:-3], "upstream's zstd body was cut short"),
        ("zstd", packed_zstd(EVENTS, window_log=27), "upstream's zstd body has a window above 8 MiB"),
    ],
)
async def test_a_broken_body_is_truncated(encoding: str, body: bytes, problem: str) -> None:
    with pytest.raises(StreamTruncated, match=problem):
        await pieces(encoding, body)


async def test_the_limit_holds_between_two_encodings() -> None:
    body = packed_zstd(skippable(bytes(1000)) * 1000)
    assert await pieces("zstd, zstd", body, sliced=False, limit=2_000_000) == []
    with pytest.raises(StreamTruncated, match="expands to more than 100000 bytes"):
        await pieces("zstd, zstd", body, sliced=False, limit=100_000)

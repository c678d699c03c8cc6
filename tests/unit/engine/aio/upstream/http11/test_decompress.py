"""Compressed bodies: any split gives the same bytes, no step gives too many, and what is not whole is an error."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.aio.upstream.http11.decompress import PIECE, decompressor
from dragoman.errors import StreamTruncated, UpstreamProtocolError


def packed_gzip(data: bytes) -> bytes:
    """Gzip without the time in it: it would be another test in each process."""
    return gzip.compress(data, mtime=0)


def bare(data: bytes) -> bytes:
    """Deflate without zlib's wrapper."""
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


WAYS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("gzip", packed_gzip),
    ("x-gzip", lambda data: packed_gzip(data[:3]) + packed_gzip(data[3:])),
    ("GZIP ", lambda data: packed_gzip(data) + bytes(7)),
    ("deflate", zlib.compress),
    ("deflate", lambda data: zlib.compress(data, 0)),
    ("deflate", bare),
    ("Deflate", lambda data: zlib.compress(data) + b"\0"),
]


def expanded(name: str, pieces: Sequence[bytes]) -> bytes:
    """The body that came in these reads."""
    found = decompressor(name)
    assert found is not None
    out = b"".join(piece for data in pieces for piece in found.feed(data))
    found.finish()
    return out


@pytest.mark.parametrize(("name", "pack"), WAYS)
@given(data=st.binary(max_size=200), at=st.lists(st.integers(0, 300), max_size=4))
def test_the_split_does_not_matter(name: str, pack: Callable[[bytes], bytes], data: bytes, at: list[int]) -> None:
    packed = pack(data)
    cuts = [0, *sorted(at), len(packed)]
    assert expanded(name, [packed[a:b] for a, b in pairwise(cuts)]) == data


@pytest.mark.parametrize(("name", "pack"), WAYS)
def test_byte_by_byte(name: str, pack: Callable[[bytes], bytes]) -> None:
    packed = pack(b"a stream of words" * 9)
    assert expanded(name, [packed[i : i + 1] for i in range(len(packed))]) == b"a stream of words" * 9


@pytest.mark.parametrize(("name", "pack"), [WAYS[0], WAYS[3], WAYS[5]])
@pytest.mark.parametrize("size", [PIECE - 1, PIECE, PIECE + 1, 5 * PIECE, 5 * PIECE + 258])
def test_no_step_yields_more_than_a_piece(name: str, pack: Callable[[bytes], bytes], size: int) -> None:
    found = decompressor(name)
    assert found is not None
    sizes = [len(piece) for piece in found.feed(pack(bytes(size)))]
    found.finish()
    assert max(sizes) <= PIECE
    assert min(sizes) > 0
    assert sum(sizes) == size


@pytest.mark.parametrize("name", ["", "identity", " Identity "])
def test_a_body_as_it_is(name: str) -> None:
    assert decompressor(name) is None


@pytest.mark.parametrize("name", ["br", "zstd", "gzip, deflate", "compress"])
def test_an_unknown_encoding_is_named(name: str) -> None:
    with pytest.raises(UpstreamProtocolError, match=f"'{name}'"):
        decompressor(name)


@pytest.mark.parametrize("name", ["\udcff", "a\nb", "é"])
def test_a_name_that_cannot_be_shown_is_not(name: str) -> None:
    with pytest.raises(UpstreamProtocolError, match="'unknown'"):
        decompressor(name)


def test_a_long_name_is_shortened() -> None:
    with pytest.raises(UpstreamProtocolError) as raised:
        decompressor("x" * 5000)
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize(("name", "pack"), WAYS)
def test_a_body_cut_anywhere_is_not_whole(name: str, pack: Callable[[bytes], bytes]) -> None:
    packed = pack(b"some words").rstrip(b"\0") if "GZIP" in name or name == "Deflate" else pack(b"some words")
    members = [len(packed_gzip(b"som"))] if name == "x-gzip" else []
    for end in range(1, len(packed)):
        if end not in members:
            with pytest.raises(StreamTruncated):
                expanded(name, [packed[:end]])


def test_nothing_is_a_whole_body() -> None:
    assert expanded("gzip", []) == expanded("deflate", []) == b""


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("gzip", b"no gzip at all"),
        ("gzip", packed_gzip(b"x") + b"garbage"),
        ("gzip", packed_gzip(b"x" * 99)[:-6] + b"123456"),
        ("gzip", zlib.compress(b"x")),
        ("deflate", zlib.compress(b"x") + b"garbage"),
        ("deflate", b"\xff\xff\xff\xff"),
        ("deflate", zlib.compress(b"x" * 99)[:-4] + b"1234"),
    ],
)
def test_garbage_is_corrupt(name: str, data: bytes) -> None:
    with pytest.raises(StreamTruncated, match="corrupt"):
        expanded(name, [data])

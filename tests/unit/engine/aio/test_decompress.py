"""Compressed bodies: any split gives the same bytes, no step gives too many, and what is not whole is an error.

The bodies are made by the libraries that the gateway reads them with, of which other programs use the same code: zlib,
Google's brotli and Facebook's zstd.
"""

from __future__ import annotations

import gzip
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.aio import decompress
from dragoman.aio.decompress import CURE, PIECE, CorruptBody, UnsupportedEncoding, decompressor
from support.packing import flushed, packed_br, packed_zstd, skippable, without_extra


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
    ("x-deflate", zlib.compress),
    ("br", packed_br),
    ("zstd", packed_zstd),
    ("Zstd", lambda data: packed_zstd(data[:3]) + skippable(b"left out") + packed_zstd(data[3:])),
    ("gzip, zstd", lambda data: packed_zstd(packed_gzip(data))),
    ("deflate , identity,, X-GZip,br", lambda data: packed_br(packed_gzip(zlib.compress(data)))),
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


@pytest.mark.parametrize(("name", "pack"), [way for way in WAYS if way[0] in ("gzip", "deflate", "br", "zstd")])
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


@pytest.mark.parametrize("name", ["compress", "gzip, compress", "gzip;q=1", "gzip,gzip,gzip,gzip"])
def test_an_encoding_that_cannot_be_read_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedEncoding) as raised:
        decompressor(name)
    assert (str(raised.value), raised.value.cure) == (name, "")
    assert raised.value.readable == decompress.ACCEPTED == "gzip, deflate, br, zstd"


@pytest.mark.parametrize(
    ("name", "cure"), [("br", CURE), ("ZSTD", CURE), ("gzip, zstd", CURE), ("compress, zstd", ""), ("compress", "")]
)
def test_without_the_extra_the_error_has_the_cure(monkeypatch: pytest.MonkeyPatch, name: str, cure: str) -> None:
    without_extra(monkeypatch)
    with pytest.raises(UnsupportedEncoding) as raised:
        decompressor(name)
    assert (raised.value.readable, raised.value.cure) == ("gzip, deflate", cure)
    assert decompressor("x-gzip, deflate") is not None


@pytest.mark.parametrize(("name", "pack"), WAYS)
def test_a_body_cut_anywhere_is_not_whole(name: str, pack: Callable[[bytes], bytes]) -> None:
    packed = pack(b"some words").rstrip(b"\0") if "GZIP" in name or name == "Deflate" else pack(b"some words")
    members = {
        "x-gzip": [len(packed_gzip(b"som"))],
        "Zstd": [len(packed_zstd(b"som")), len(packed_zstd(b"som") + skippable(b"left out"))],
    }.get(name, [])
    for end in range(1, len(packed)):
        if end not in members:
            with pytest.raises(CorruptBody):
                expanded(name, [packed[:end]])


def test_nothing_is_a_whole_body() -> None:
    assert expanded("gzip", []) == expanded("deflate", []) == expanded("br", []) == expanded("zstd", []) == b""


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
        ("br", packed_br(b"x") + b"\0"),
        ("br", packed_br(b"x") * 2),
        ("br", b"\xff" * 40),
        ("zstd", b"no zstd at all"),
        ("zstd", packed_zstd(b"x") + b"\0" * 8),
        ("zstd", packed_zstd(b"x") + packed_gzip(b"x")),
        ("zstd", packed_zstd(b"x" * 99)[:-4] + b"1234"),
        ("gzip, zstd", packed_zstd(b"no gzip at all")),
        ("gzip, zstd", packed_gzip(packed_zstd(b"in the other order"))),
    ],
)
@pytest.mark.parametrize("size", [1, 10_000])
def test_garbage_is_corrupt(name: str, data: bytes, size: int) -> None:
    with pytest.raises(CorruptBody, match="corrupt"):
        expanded(name, [data[at : at + size] for at in range(0, len(data), size)])


def test_a_window_of_zstd_above_8_mib_is_refused() -> None:
    """RFC 9659: no more is to be expected, and a window is memory that each client could take."""
    assert expanded("zstd", [packed_zstd(b"x", window_log=23)]) == b"x"
    for log in (24, 27, 31):
        with pytest.raises(CorruptBody, match="its zstd body has a window above 8 MiB"):
            expanded("zstd", [packed_zstd(b"x", window_log=log)])


def test_what_a_coding_expands_to_for_the_next_one_is_limited() -> None:
    """Layers that expand to nothing in the end would have no limit."""
    empty = packed_zstd(skippable(bytes(1000)) * 20_000)
    assert len(empty) < 100_000
    found = decompressor("zstd, zstd", 1_000_000)
    assert found is not None
    with pytest.raises(CorruptBody, match="its zstd body expands to more than 1000000 bytes for its next coding"):
        deque(found.feed(empty), maxlen=0)
    assert expanded("zstd, zstd", [empty]) == b"", "without a limit"


@pytest.mark.parametrize("name", ["gzip", "br", "zstd"])
def test_what_the_sender_flushed_is_there_at_once(name: str) -> None:
    found = decompressor(name)
    assert found is not None
    events = [b"data: %d\n\n" % number for number in range(5)]
    for packed, event in zip(flushed(name, events), [*events, b""], strict=True):
        assert b"".join(found.feed(packed)) == event
    found.finish()

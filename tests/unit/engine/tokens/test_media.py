"""Images by their pixels and files by their pages; sizes are read off made-up files of each kind."""

from __future__ import annotations

import base64
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical.parts import Document, FileRef, Image, Inline, Text, Url
from dragoman.dialects import Dialect
from dragoman.tokens import media
from dragoman.tokens.media import (
    HEAD,
    PAGE,
    PDF_MOST,
    UNKNOWN_IMAGE,
    dimensions,
    document_tokens,
    image_tokens,
    inner,
    pages,
)


def encoded(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + bytes(9)


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + bytes(9)


def jpeg(width: int, height: int, metadata: int = 40) -> bytes:
    app = b"\xff\xe1" + struct.pack(">H", metadata + 2) + bytes(metadata)
    frame = b"\xff\xc2" + struct.pack(">HBHH", 17, 8, height, width)
    return b"\xff\xd8\xff\xff\xe0\x00\x04\x01\x02" + app + frame + bytes(20)


def webp(kind: bytes, width: int, height: int) -> bytes:
    if kind == b"VP8X":
        body = bytes(4) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    elif kind == b"VP8L":
        body = b"\x2f" + ((width - 1) | (height - 1) << 14).to_bytes(4, "little")
    else:
        body = bytes(3) + b"\x9d\x01\x2a" + struct.pack("<HH", width, height)
    return b"RIFF" + struct.pack("<I", len(body) + 12) + b"WEBP" + kind + struct.pack("<I", len(body)) + body


MADE = {
    "png": png(640, 480),
    "gif": gif(640, 480),
    "jpeg": jpeg(640, 480),
    "jpeg behind metadata": jpeg(640, 480, 65_000),
    "webp": webp(b"VP8 ", 640, 480),
    "webp lossless": webp(b"VP8L", 640, 480),
    "webp extended": webp(b"VP8X", 640, 480),
}


@pytest.mark.parametrize("raw", MADE.values(), ids=MADE)
def test_the_size_of_an_image_is_read_off_its_first_bytes(raw: bytes) -> None:
    assert dimensions(encoded(raw)) == (640, 480)


@pytest.mark.parametrize("raw", MADE.values(), ids=MADE)
def test_an_image_that_ends_before_its_size_has_none(raw: bytes) -> None:
    for end in (0, 1, 5, 9):
        assert dimensions(encoded(raw[:end])) is None


@pytest.mark.parametrize(
    "data", ["", "not base64 at all!", "é", "AAAA", encoded(b"BM" + bytes(60)), encoded(png(0, 9))]
)
def test_what_is_no_image_has_no_size(data: str) -> None:
    assert dimensions(data) is None


def test_pictures_that_begin_alike_have_each_its_own_size() -> None:
    for width, height in ((640, 480), (100, 200), (640, 480)):
        assert dimensions(encoded(jpeg(width, height))) == (width, height)


def test_a_size_beyond_all_reason_is_none() -> None:
    assert dimensions(encoded(png(2**31, 10))) is None


@pytest.mark.parametrize(("raw", "further"), [(png(2**31, 10), False), (b"BM", False), (b"\xff\xd8\xff\xe0", True)])
def test_only_a_jpeg_is_decoded_beyond_its_first_bytes(
    raw: bytes, further: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[int] = []

    def decoded(data: str, most: int) -> bytes:
        lengths.append(len(data))
        return base64.b64decode(data)

    monkeypatch.setattr(media, "_decoded", decoded)
    media._size_at_start.cache_clear()
    data = encoded(raw + bytes(3000))
    assert dimensions(data) is None
    assert (max(lengths) > 100) is further


def test_only_the_head_of_an_image_is_looked_at() -> None:
    behind = b"\xff\xd8" + (b"\xff\xe1\xff\xff" + bytes(65_533)) * 5 + jpeg(640, 480)[2:]
    assert dimensions(encoded(behind)) is None
    assert dimensions(encoded(behind), 2 * HEAD) == (640, 480)


@given(st.sampled_from(list(MADE.values())), st.binary(max_size=40), st.integers(0, 60))
def test_whatever_the_bytes_a_size_is_given_or_none(raw: bytes, noise: bytes, at: int) -> None:
    size = dimensions(encoded(raw[:at] + noise + raw[at:]))
    assert size is None or min(size) > 0


# --- prices -----------------------------------------------------------------------------------------------------------


def image(width: int, height: int, detail: str | None = None) -> Image:
    return Image(Inline("image/png", encoded(png(width, height))), detail=detail)


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [(256, 256, 100), (1024, 1024, 1369), (1280, 720, 1196), (1920, 1080, 2691), (4000, 1000, 1314), (1, 1, 1)],
)
def test_messages_counts_squares_of_28_pixels(width: int, height: int, tokens: int) -> None:
    assert image_tokens(image(width, height), Dialect.MESSAGES) == tokens


@pytest.mark.parametrize(
    ("width", "height", "detail", "tokens"),
    [
        (256, 256, None, 77),
        (1024, 1024, "auto", 1229),
        (1920, 1080, "high", 2448),
        (1920, 1080, "low", 303),
        (100, 100, "low", 20),
        (4032, 3024, "high", 2942),
        (4032, 3024, "original", 11868),
    ],
)
@pytest.mark.parametrize("dialect", [Dialect.CHAT, Dialect.RESPONSES])
def test_the_openai_dialects_count_squares_of_32_pixels(
    width: int, height: int, detail: str | None, tokens: int, dialect: Dialect
) -> None:
    assert image_tokens(image(width, height, detail), dialect) == tokens


@pytest.mark.parametrize("dialect", Dialect)
def test_an_image_of_unknown_size_has_a_price_of_its_own(dialect: Dialect) -> None:
    for source in (Url("https://x/a.png"), FileRef("file_1", "chat"), Inline("image/bmp", "AAAA")):
        assert image_tokens(Image(source), dialect) == UNKNOWN_IMAGE


# --- files ------------------------------------------------------------------------------------------------------------


def pdf(*objects: bytes) -> str:
    return encoded(b"%PDF-1.7\n" + b"\n".join(objects))


def test_a_pdf_has_the_pages_that_it_reports() -> None:
    kids = b" ".join(b"%d 0 R" % number for number in range(12))
    root = b"1 0 obj << /Type /Pages /Kids [%b] /Count 12 >> endobj" % kids
    assert pages(pdf(root)) == 12
    assert pages(pdf(b"<< /Count 7 /Type/Pages >>", b"<< /Type /Pages /Count 3 >>")) == 7


def test_a_pdf_that_reports_no_number_has_the_pages_that_it_shows() -> None:
    assert pages(pdf(*[b"<< /Type /Page /Parent 1 0 R >>"] * 5)) == 5


@pytest.mark.parametrize(("data", "count"), [("", 1), ("&&&", 1), (encoded(b"%PDF-" + bytes(600_000)), 10)])
def test_a_pdf_with_its_pages_packed_away_has_some_by_its_size(data: str, count: int) -> None:
    assert pages(data) == count


def test_pages_beyond_what_is_searched_count_as_those_before() -> None:
    page = b"<< /Type /Page >>" + bytes(1_048_559)
    assert pages(pdf(*[page] * 16)) in (15, 16, 17)
    assert len(page) * 16 > PDF_MOST


def test_files_count_by_what_they_are() -> None:
    assert document_tokens(Document(Inline("application/pdf", pdf(b"<< /Type /Page >>")))) == PAGE
    assert document_tokens(Document(Inline("text/csv", encoded(bytes(4000))))) == 1000
    assert document_tokens(Document(Inline("application/zip", encoded(bytes(180_000))))) == 3 * PAGE
    assert document_tokens(Document(Url("https://x/a.pdf"))) == PAGE
    assert document_tokens(Document(Text("words"))) == 0
    assert inner(Document(Text("words"))) == [Text("words")]
    assert inner(Document(Url("https://x/a.pdf"))) == []

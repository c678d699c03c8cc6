"""Tokens of images and files by the vendors' rules: an image by its pixels, a PDF by its pages.

The size of an image is read from its first bytes. Media of unknown size (a URL, a file id, an unknown format) have a
fixed price.
"""

from __future__ import annotations

import re
import struct
from binascii import a2b_base64
from functools import lru_cache
from math import ceil, sqrt

from dragoman.canonical.parts import Document, FileRef, Image, Inline, Recording, Text, Url
from dragoman.dialects import Dialect

UNKNOWN_IMAGE = 1_500
"""Tokens of an image whose size is not known (mapping §12.4)."""
PAGE = 2_500
"""Tokens of a PDF's page: its text, some 1,000, and a picture of it."""

HEAD = 256 * 1024
"""Bytes of a picture that its size is looked for in: a JPEG's stands behind its metadata."""
_FIRST = 44
"""Characters (33 bytes) that hold the size of an image of any format but JPEG, whose size may be anywhere."""
PDF_MOST = 8 * 1024 * 1024
"""Bytes of a PDF that are searched for pages. The rest is assumed to be alike."""
_SIDE_MOST = 100_000
PAGE_BYTES = 60_000
"""Assumed bytes of a page if the pages are compressed and cannot be counted."""
RECORDED_BYTES = 400
"""Assumed bytes of a recording's token, as of a form with a file (explanation/keys-and-limits.md)."""
_PAGE_MARK = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
_PAGE_COUNT = re.compile(
    rb"/Type\s*/Pages\b[^>]{0,2000}?/Count\s+(\d{1,4})|/Count\s+(\d{1,4})[^>]{0,2000}?/Type\s*/Pages\b"
)
_JPEG = b"\xff\xd8"
_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""JPEG's markers that are followed by the size."""


def image_tokens(image: Image, dialect: Dialect, head: int = HEAD) -> int:
    """An image's tokens at an upstream of `dialect`, by its first `head` bytes."""
    source = image.source
    size = dimensions(source.data, head) if type(source) is Inline else None
    if dialect.facts.image_prices == "anthropic":
        return UNKNOWN_IMAGE if size is None else _anthropic(*size)
    if image.detail == "low":
        return _openai(*(size or (512, 512)), 256)
    return UNKNOWN_IMAGE if size is None else _openai(*size, 2_500 if image.detail == "high" else 10_000)


# Both as the vendors' models of late 2026 charge; older ones make larger images smaller than these do. Screenshots are
# of few sizes.


@lru_cache(256)
def _anthropic(width: int, height: int) -> int:
    """A token for each 28 by 28 pixels, of at most 2,048 a side."""
    longer = max(width, height)
    if longer <= 2_048:
        return (width + 27) // 28 * ((height + 27) // 28)
    return max(1, width * 2_048 // longer // 28) * max(1, height * 2_048 // longer // 28)


@lru_cache(256)
def _openai(width: int, height: int, most: int) -> int:
    """1.2 tokens for each 32 by 32 pixels; an image of more than `most` such patches is made smaller first."""
    patches = (width + 31) // 32 * ((height + 31) // 32)
    if patches > most:
        scale = sqrt(most * 1024 / (width * height)) / 32
        patches = min(most, max(1, int(width * scale)) * max(1, int(height * scale)))
    return ceil(patches * 1.2)


def document_tokens(document: Document) -> int:
    """A file's tokens, without those of texts and images inside it: 0 where it holds nothing else."""
    source = document.source
    if type(source) is Inline:
        size = len(source.data) * 3 // 4
        if source.media_type.startswith("text/"):
            return size // 4
        return PAGE * (pages(source.data) if "pdf" in source.media_type else max(1, size // PAGE_BYTES))
    return PAGE if type(source) in (Url, FileRef) else 0


def recording_tokens(recording: Recording) -> int:
    """A recording's tokens by its bytes, of which a token has 400: those of a page if they are not known."""
    source = recording.source
    return len(source.data) * 3 // (4 * RECORDED_BYTES) + 1 if type(source) is Inline else PAGE


def inner(document: Document) -> list[Text | Image]:
    """The texts and images inside a file."""
    source = document.source
    if type(source) is list:
        return source
    return [source] if type(source) is Text else []


def pages(data: str) -> int:
    """Return the pages of a PDF in base64: as it states, else as found in it, else by its size. At least 1."""
    try:
        raw = _decoded(data, PDF_MOST)
    except ValueError:
        raw = b""
    stated = max((int(found[1] or found[2]) for found in _PAGE_COUNT.finditer(raw)), default=0)
    size = len(data) * 3 // 4
    found_pages = len(_PAGE_MARK.findall(raw))
    if size > PDF_MOST:
        found_pages = found_pages * size // PDF_MOST
    return max(1, stated or found_pages or size // PAGE_BYTES)


def dimensions(data: str, head: int = HEAD) -> tuple[int, int] | None:
    """Width and height of a PNG, JPEG, GIF or WebP in base64; None if its first `head` bytes do not hold them."""
    size, more = _size_at_start(data[:_FIRST])
    return _measured(data, head) if more else size


@lru_cache(256)  # screenshots of one size begin alike, and each is sent again with every request
def _size_at_start(data: str) -> tuple[tuple[int, int] | None, bool]:
    """The size in an image's first characters, and whether more of the image is needed to find it."""
    try:
        jpeg = _decoded(data, HEAD).startswith(_JPEG)
    except ValueError:
        return None, False
    size = _measured(data, HEAD)
    return size, jpeg and size is None


def _measured(data: str, head: int) -> tuple[int, int] | None:
    try:
        size = _size(_decoded(data, head))
    except (ValueError, IndexError, struct.error):
        return None
    return size if size and 0 < size[0] <= _SIDE_MOST and 0 < size[1] <= _SIDE_MOST else None


def _decoded(data: str, most: int) -> bytes:
    """The first `most` bytes. Raises ValueError for what is no base64."""
    return a2b_base64(data[: most // 3 * 4])


def _size(raw: bytes) -> tuple[int, int] | None:
    if raw.startswith(b"\x89PNG\r\n\x1a\n"):
        return struct.unpack_from(">II", raw, 16)
    if raw.startswith((b"GIF87a", b"GIF89a")):
        return struct.unpack_from("<HH", raw, 6)
    if raw.startswith(_JPEG):
        return _jpeg_size(raw)
    if raw.startswith(b"RIFF") and raw[8:12] == b"WEBP":
        return _webp_size(raw)
    return None


def _jpeg_size(raw: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(raw) and raw[at] == 0xFF:
        marker = raw[at + 1]
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", raw, at + 5)
            return width, height
        # A fill byte, a marker that stands alone, or a segment to step over.
        if marker == 0xFF:
            at += 1
        elif 0xD0 <= marker <= 0xD8 or marker == 0x01:
            at += 2
        else:
            at += 2 + int.from_bytes(raw[at + 2 : at + 4])
    return None


def _webp_size(raw: bytes) -> tuple[int, int] | None:
    kind = raw[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(raw[24:27], "little"), 1 + int.from_bytes(raw[27:30], "little")
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", raw, 21)
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", raw, 26)
        return width & 0x3FFF, height & 0x3FFF
    return None

"""Files within a request, as base64 text: clients break its lines, use its other alphabet, and name wrong types."""

from __future__ import annotations

import re
from base64 import b64decode
from typing import Final

from dragoman.canonical.parts import Inline
from dragoman.errors import ClientRequestError, Path

_IMAGES: Final = {"iVBO": "image/png", "/9j/": "image/jpeg", "R0lG": "image/gif", "UklG": "image/webp"}
"""First three bytes of an image, in base64 → its media type."""
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_PDF: Final = "JVBE"  # %PD
_SPACE: Final = dict.fromkeys(map(ord, " \t\r\n"))
_OTHER_ALPHABET: Final = {ord("-"): "+", ord("_"): "/"}
_BY_EXTENSION: Final = {
    "pdf": "application/pdf",
    "txt": "text/plain",
    "md": "text/markdown",
    "csv": "text/csv",
    "html": "text/html",
    "json": "application/json",
    "xml": "application/xml",
}


def plain_base64(data: str) -> str:
    """Return base64 in the standard alphabet, on one line and with its padding.

    It is not decoded: that is expensive, and the upstream validates it.
    """
    if "\n" in data or "\r" in data or " " in data or "\t" in data:
        data = data.translate(_SPACE)
    if "%" in data:  # percent-encoded, as part of a URL
        data = data.replace("%2B", "+").replace("%2b", "+").replace("%2F", "/").replace("%2f", "/")
        data = data.replace("%3D", "=").replace("%3d", "=")
    if "-" in data or "_" in data:
        data = data.translate(_OTHER_ALPHABET)
    return data + "=" * (-len(data) % 4)


def read_image_data(media_type: str, data: str, at: Path) -> Inline:
    """Return an image. Its first bytes decide what it is: vendors reject an image of another type than its label.

    Raises ClientRequestError, which names the field `at`, for data that has a known type by its label only and is no
    base64: clients put a text in the place of old images.
    """
    data = plain_base64(_without_head(data))
    known = _IMAGES.get(data[:4])
    if known is None:
        if _BASE64.fullmatch(data) is None:
            raise ClientRequestError(at, "expected base64")
        known = media_type.strip().lower()
        if known == "image/jpg":
            known = "image/jpeg"
    return Inline(known, data)


def read_file_data(media_type: str, data: str) -> Inline:
    """Return a file other than an image. A PDF file is recognised by its first bytes."""
    data = plain_base64(_without_head(data))
    return Inline("application/pdf" if data[:4] == _PDF else media_type.strip().lower(), data)


def type_of_data(data: str, name: str | None = None) -> str | None:
    """Return the media type of base64 without a label, by its first bytes or the extension of `name`, or None."""
    if data[:4] == _PDF:
        return "application/pdf"
    return _IMAGES.get(data[:4]) or _BY_EXTENSION.get((name or "").rpartition(".")[2].lower())


def decoded_text(data: str, at: Path) -> str:
    """Return the text in base64. Raises ClientRequestError, which names the field `at`, for other data."""
    try:
        return b64decode(data, validate=True).decode()
    except ValueError as error:
        raise ClientRequestError(at, f"expected base64 of UTF-8 text: {error}") from None


def _without_head(data: str) -> str:
    """Return the data of a data URL, which some clients send where the data alone belongs."""
    return data.partition(",")[2] if data[:5].lower() == "data:" else data

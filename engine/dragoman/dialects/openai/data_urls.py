"""Data URLs (`data:TYPE;base64,DATA`), which hold images and files in Chat and Responses."""

from __future__ import annotations

from dragoman.canonical.request import Inline
from dragoman.errors import ClientRequestError, Path

_HEADS = {f"data:{kind};base64": kind for kind in ("image/png", "image/jpeg", "image/webp", "image/gif")}
"""Common URL prefixes → media type, which need no parsing."""


def read_data_url(url: str, at: Path) -> Inline:
    """Returns the media type and the data, still in base64: decoding is expensive, and the upstream validates it.

    Raises `ClientRequestError` if the URL is malformed (mapping §4.1).
    """
    head, comma, data = url.partition(",")
    known = _HEADS.get(head)
    if known is not None and data:
        return Inline(known, data)
    head = head[5:]
    media_type, *parameters = head.split(";")
    if not comma or not data or "/" not in media_type or not parameters or parameters[-1].strip().lower() != "base64":
        raise ClientRequestError(at, "expected a data URL of the form data:<media type>;base64,<data>")
    return Inline(media_type.strip().lower(), data)


def write_data_url(source: Inline) -> str:
    """Returns the data as a data URL."""
    return f"data:{source.media_type};base64,{source.data}"

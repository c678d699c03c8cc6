"""URLs of images and files in Chat and Responses; a data URL (`data:TYPE;base64,DATA`) holds the file itself."""

from __future__ import annotations

from dragoman.canonical.request import Inline, Url
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


def is_web(url: str) -> bool:
    """True for an http(s) URL."""
    return url[:8].lower().startswith(("http://", "https://"))


def read_url(url: str, at: Path) -> Inline | Url:
    """Returns what an http(s) or data URL refers to. Raises `ClientRequestError` for any other."""
    if url[:5].lower() == "data:":
        return read_data_url(url, at)
    if is_web(url):
        return Url(url)
    raise ClientRequestError(at, "expected an http(s) or data URL")


def write_data_url(source: Inline) -> str:
    """Returns the data as a data URL."""
    return f"data:{source.media_type};base64,{source.data}"

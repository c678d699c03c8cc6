"""URLs of images and files in Chat and Responses; a data URL (`data:TYPE;base64,DATA`) holds the file itself."""

from __future__ import annotations

from dragoman.canonical.parts import Inline, Url
from dragoman.dialects.shared.inline_data import read_file_data, read_image_data, type_of_data
from dragoman.errors import ClientRequestError, Path

_HEADS = {f"data:{kind};base64": kind for kind in ("image/png", "image/jpeg", "image/webp", "image/gif")}
"""Common URL prefixes → media type, which need no parsing."""


def _split(url: str, at: Path) -> tuple[str, str]:
    """Return the media type and the data of a data URL. Raises `ClientRequestError` if it is malformed."""
    head, comma, data = url.partition(",")
    known = _HEADS.get(head)
    if known is not None and data:
        return known, data
    media_type, *parameters = head[5:].split(";")
    if not comma or not data or "/" not in media_type or not parameters or parameters[-1].strip().lower() != "base64":
        raise ClientRequestError(at, "expected a data URL of the form data:<media type>;base64,<data>")
    return media_type, data


def is_data_url(url: str) -> bool:
    """True for a data URL."""
    return url[:5].lower() == "data:"


def is_web(url: str) -> bool:
    """True for an http(s) URL."""
    return url[:8].lower().startswith(("http://", "https://"))


def read_image_url(url: str, at: Path) -> Inline | Url:
    """Return what the URL of an image refers to: http(s), a data URL, or the base64 of a known type alone.

    Raises `ClientRequestError` for any other (mapping §4.1).
    """
    if is_data_url(url):
        return read_image_data(*_split(url, at), at)
    if is_web(url):
        return Url(url)
    if (known := type_of_data(url)) is not None:
        return read_image_data(known, url, at)
    raise ClientRequestError(at, "expected an http(s) or data URL")


def read_file_url(url: str, at: Path, name: str | None = None) -> Inline | Url:
    """Return what the URL of a file refers to: http(s), a data URL, or base64 alone if its type is known.

    Base64 alone has the type that its first bytes or the extension of the file's `name` stand for. Raises
    `ClientRequestError` for any other URL.
    """
    if is_data_url(url):
        return read_file_data(*_split(url, at))
    if is_web(url):
        return Url(url)
    if (known := type_of_data(url, name)) is not None:
        return read_file_data(known, url)
    raise ClientRequestError(at, "expected a data URL of the form data:<media type>;base64,<data>")


def write_data_url(source: Inline) -> str:
    """Return the data as a data URL."""
    return f"data:{source.media_type};base64,{source.data}"

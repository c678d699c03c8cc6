"""Data URLs of images and files."""

from __future__ import annotations

import pytest

from dragoman.canonical.parts import Inline, Url
from dragoman.dialects.openai.data_urls import read_file_url, read_image_url, write_data_url
from dragoman.errors import ClientRequestError


@pytest.mark.parametrize(
    ("url", "inline"),
    [
        ("data:image/png;base64,AAAA", Inline("image/png", "AAAA")),
        ("data:application/PDF ;name=a.pdf; Base64 ,AAAA", Inline("application/pdf", "AAAA")),
        ("data:text/plain;charset=utf-8;base64,AAAA", Inline("text/plain", "AAAA")),
    ],
)
def test_type_and_data(url: str, inline: Inline) -> None:
    assert read_image_url(url, ("image_url",)) == inline
    assert read_file_url(url, ("file_data",)) == inline


def test_a_written_url_is_read() -> None:
    source = Inline("image/webp", "AAAA")
    assert read_image_url(write_data_url(source), ()) == source


@pytest.mark.parametrize(
    "url", ["data:image/png;base64,", "data:image/png;base64", "data:image/png,AAAA", "data:;base64,AAAA", "data:"]
)
def test_a_malformed_url_is_the_clients_fault(url: str) -> None:
    with pytest.raises(ClientRequestError, match="image_url: expected a data URL"):
        read_image_url(url, ("image_url",))
    with pytest.raises(ClientRequestError, match="file_data: expected a data URL"):
        read_file_url(url, ("file_data",))


@pytest.mark.parametrize("read", [read_image_url, read_file_url])
@pytest.mark.parametrize("url", ["http://a/b.png", "HTTPS://a/b.png"])
def test_an_address_is_fetched_by_the_upstream(read: object, url: str) -> None:
    assert callable(read)
    assert read(url, ("url",)) == Url(url)


def test_base64_alone_is_read_if_its_type_is_known() -> None:
    assert read_image_url("iVBORw0KGgo=", ()) == Inline("image/png", "iVBORw0KGgo=")
    assert read_file_url("JVBERi0xLjcK", ()) == Inline("application/pdf", "JVBERi0xLjcK")
    assert read_file_url("aGkh", (), "notes.TXT") == Inline("text/plain", "aGkh")


def test_base64_alone_of_an_unknown_type_is_the_clients_fault() -> None:
    with pytest.raises(ClientRequestError, match="expected an http"):
        read_image_url("aGkh", ())
    with pytest.raises(ClientRequestError, match="expected a data URL"):
        read_file_url("aGkh", (), "notes.bin")

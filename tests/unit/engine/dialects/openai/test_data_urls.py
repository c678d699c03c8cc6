"""Data URLs of images and files."""

from __future__ import annotations

import pytest

from dragoman.canonical.request import Inline
from dragoman.dialects.openai.data_urls import read_data_url, write_data_url
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
    assert read_data_url(url, ("image_url",)) == inline


def test_a_written_url_is_read() -> None:
    source = Inline("image/webp", "AAAA")
    assert read_data_url(write_data_url(source), ()) == source


@pytest.mark.parametrize(
    "url", ["data:image/png;base64,", "data:image/png;base64", "data:image/png,AAAA", "data:;base64,AAAA", "data:"]
)
def test_a_malformed_url_is_the_clients_fault(url: str) -> None:
    with pytest.raises(ClientRequestError, match="image_url: expected a data URL"):
        read_data_url(url, ("image_url",))

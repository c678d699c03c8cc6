"""The table of vendors."""

from __future__ import annotations

import pytest

from dragoman.dialects import Dialect
from dragoman_server.cli.imports.vendors import REFUSED, VENDORS, base_of
from dragoman_server.config.provider import Provider


@pytest.mark.parametrize("name", VENDORS)
def test_base_urls_are_those_of_a_provider(name: str) -> None:
    vendor = VENDORS[name]
    dialect = Dialect(vendor.dialect)
    url = (vendor.base_url or "http://host:8000") + vendor.suffix
    assert list(Provider(name, dialect, url).problems("at")) == []
    assert name not in REFUSED


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("https://h/v1/chat/completions", "https://h/v1"),
        ("https://h/v1/messages/", "https://h"),
        ("https://h/api/messages", "https://h/api"),
        ("https://h/v1/responses", "https://h/v1"),
        (" https://h/v1/ ", "https://h/v1"),
    ],
)
def test_the_path_of_an_endpoint_is_left_out(url: str, base: str) -> None:
    assert base_of(url) == base

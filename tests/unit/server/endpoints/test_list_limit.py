"""The parameter `limit` of lists."""

from __future__ import annotations

import pytest

from dragoman import ClientRequestError
from dragoman_server.endpoints.list_limit import read_limit


def test_a_limit_is_read() -> None:
    assert [read_limit(word, 20, 100) for word in (None, "1", "100")] == [20, 1, 100]


@pytest.mark.parametrize("word", ["", "0", "101", "-1", "1.5", "²", "9" * 5000])
def test_a_limit_out_of_range_is_rejected(word: str) -> None:
    with pytest.raises(ClientRequestError, match=r"limit: expected a number from 1 to 100; got "):
        read_limit(word, 20, 100)

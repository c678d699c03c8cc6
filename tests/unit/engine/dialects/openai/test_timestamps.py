"""The time of a reply."""

from __future__ import annotations

import pytest

from dragoman.dialects.openai.timestamps import read_timestamp


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(5, 5), (0, 0), (5.9, 5), (-1, None), (2**53, None), (10**30, None), (True, None), ("5", None), (None, None)],
)
def test_a_time_is_read_if_it_is_one(value: object, seconds: int | None) -> None:
    assert read_timestamp(value) == seconds

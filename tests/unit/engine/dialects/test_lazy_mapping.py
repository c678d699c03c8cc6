"""Mappings whose values are made at their first use."""

from __future__ import annotations

import pytest

from dragoman.dialects.lazy_mapping import LazyMapping


def test_a_value_is_made_once_and_only_if_it_is_used() -> None:
    made: list[int] = []

    def double(key: int) -> int:
        made.append(key)
        return 2 * key

    mapping = LazyMapping(range(3), double)
    assert (list(mapping), len(mapping), 2 in mapping, 3 in mapping) == ([0, 1, 2], 3, True, False)
    assert made == []
    assert (mapping[2], mapping[2]) == (4, 4)
    assert made == [2]
    assert dict(mapping) == {0: 0, 1: 2, 2: 4}
    with pytest.raises(KeyError):
        mapping[3]
    assert mapping.get(3) is None

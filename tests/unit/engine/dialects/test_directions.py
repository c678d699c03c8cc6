"""The nine directions and their names."""

from __future__ import annotations

import pytest

from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman.dialects.directions import DIRECTIONS, direction


def test_each_pair_of_dialects_is_a_direction() -> None:
    assert set(DIRECTIONS) == {(client, upstream) for client in CLIENT_DIALECTS for upstream in Dialect}
    assert [str(one) for one in DIRECTIONS.values() if one.passthrough] == [
        f"{name}→{name}" for name in CLIENT_DIALECTS
    ]


def test_a_direction_by_the_names_of_its_dialects() -> None:
    one = direction("messages", Dialect.CHAT)
    assert one is DIRECTIONS[Dialect.MESSAGES, Dialect.CHAT]
    assert (one.client.dialect, one.upstream.dialect, str(one)) == (Dialect.MESSAGES, Dialect.CHAT, "messages→chat")
    with pytest.raises(ValueError, match="no dialect 'openai'; there are chat, messages, responses"):
        direction("openai", "chat")

"""Endpoints that count tokens: the fields that they take, and the count in their responses."""

from __future__ import annotations

import pytest

from dragoman.dialects import COUNT_ENDPOINTS, Dialect


@pytest.mark.parametrize("dialect", [each for each in COUNT_ENDPOINTS if each.facts.names_target])
def test_only_fields_of_the_endpoint_are_sent(dialect: Dialect) -> None:
    endpoint = COUNT_ENDPOINTS[dialect]
    assert endpoint.question({"model": "m", "tools": [], "stream": True, "max_tokens": 1}, "m", "") == {
        "model": "m",
        "tools": [],
    }


@pytest.mark.parametrize("dialect", COUNT_ENDPOINTS)
def test_a_written_count_is_read(dialect: Dialect) -> None:
    endpoint = COUNT_ENDPOINTS[dialect]
    assert endpoint.read(endpoint.write(7)) == 7


@pytest.mark.parametrize("response", [None, [], {}, {"input_tokens": 0}, {"input_tokens": True}, {"input_tokens": "3"}])
def test_T60_what_is_no_count(response: object) -> None:
    assert COUNT_ENDPOINTS[Dialect.MESSAGES].read(response) is None


def test_chat_has_no_such_endpoint() -> None:
    assert set(COUNT_ENDPOINTS) == {*Dialect} - {Dialect.CHAT}

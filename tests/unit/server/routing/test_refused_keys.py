"""Refused keys: which failures count, and what ends it."""

from __future__ import annotations

import pytest

from dragoman_server.routing.refused_keys import NO_CREDIT, UNAUTHORIZED, RefusedKeys


def test_a_key_is_refused_until_it_is_accepted() -> None:
    keys = RefusedKeys()
    assert not keys.found
    keys.refuse("one", "first", NO_CREDIT)
    keys.refuse("one", "second", UNAUTHORIZED)
    assert keys.found
    assert keys.words({"one"}) == {NO_CREDIT, UNAUTHORIZED}
    assert keys.words({"two"}) == frozenset()
    keys.accept("one", "first")
    keys.accept("two", "first")
    assert keys.words({"one"}) == {UNAUTHORIZED}
    keys.accept("one", "second")
    assert not keys.found


@pytest.mark.parametrize("word", ["rate_limited", "unavailable", "refused", ""])
def test_other_failures_are_no_refusals(word: str) -> None:
    keys = RefusedKeys()
    keys.refuse("one", "", word)
    assert not keys.found


def test_a_provider_that_changes_is_forgotten() -> None:
    keys = RefusedKeys()
    keys.refuse("one", "", NO_CREDIT)
    keys.refuse("two", "", NO_CREDIT)
    keys.forget("one")
    assert keys.words({"one"}) == frozenset()
    assert keys.words({"two"}) == {NO_CREDIT}

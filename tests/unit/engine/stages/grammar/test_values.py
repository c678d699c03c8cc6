"""The checks of JSON values that all grammars use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.stages.grammar.values import (
    GrammarError,
    TextDigest,
    Unchecked,
    digest,
    members,
    parse_arguments,
    parse_object,
)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ('{"a": 1, "a": 2}', "a key twice"),
        ('{"a": {"b": NaN}}', "NaN"),
        ('{"a": 1', "not JSON"),
        ("[1]", "not a JSON object"),
        ("null", "not a JSON object"),
    ],
)
def test_an_object_is_json_without_a_key_twice(text: str, rule: str) -> None:
    with pytest.raises(GrammarError, match=rule):
        parse_object(text)


@pytest.mark.parametrize("text", ['{"a": ' + "9" * 5000 + "}", '{"a": ' * 100_000 + "1" + "}" * 100_000])
def test_what_is_too_long_or_too_deep_is_not_checked(text: str) -> None:
    with pytest.raises(Unchecked):
        parse_object(text)


def test_a_model_may_write_a_key_twice() -> None:
    text = '{"a":1,"a":{"b":2,"b":3}}'
    with pytest.raises(GrammarError, match="twice"):
        parse_object(text)
    assert parse_arguments(text) == {"a": {"b": 3}}
    with pytest.raises(GrammarError, match="not a JSON object"):
        parse_arguments("[]")


def test_members_are_required_optional_or_unknown() -> None:
    required, optional = frozenset({"a"}), frozenset({"b"})
    assert members({"a": 1, "b": 2}, required, optional, "x") == {"a": 1, "b": 2}
    for value, rule in (
        ({"b": 2}, "x without a"),
        ({"a": 1, "c": 3}, "x with unknown keys"),
        ([], "x is not an object"),
    ):
        with pytest.raises(GrammarError, match=rule):
            members(value, required, optional, "x")


@given(st.lists(st.text()), st.text())
def test_a_text_matches_its_pieces(pieces: list[str], other: str) -> None:
    found = TextDigest()
    for piece in pieces:
        found.add(piece)
    whole = "".join(pieces)
    assert found.matches(whole)
    assert found.matches(other) is (other == whole)
    assert not found.matches(None)


def test_a_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1}) != digest({"a": 1, "b": [3]})

"""Replies that are completed with the members of one that was written for them."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.dialects.shared.completed_reply import are_calls_usual, completed, has_all


@pytest.mark.parametrize(
    ("stated", "written", "whole"),
    [
        ({"a": 1, "b": None}, {"b": 2, "c": 3}, {"a": 1, "b": 2, "c": 3}),
        ({"a": "x"}, {"a": "y"}, {"a": "x"}),
        ({"a": 1.5}, {"a": 1}, {"a": 1}),
        ({"arguments": "{}{}"}, {"arguments": "{}"}, {"arguments": "{}"}),
        ([None, {"a": 1}], [{"b": 2}], [{"a": 1, "b": 2}]),
        ([{"type": "x"}, {"type": "y"}], [{"type": "y", "a": 1}], [{"type": "x"}, {"type": "y", "a": 1}]),
        ([{"type": "x"}], [{"type": "y"}], [{"type": "y"}]),
    ],
)
def test_what_is_missing_null_or_of_another_type_is_written(stated: Any, written: Any, whole: Any) -> None:
    assert completed(stated, written) == whole


def test_calls_need_an_id_of_their_own_and_an_object() -> None:
    assert are_calls_usual(["a", "b"], ["{}", "{}"], cut=False)
    assert are_calls_usual(["a"], ["{"], cut=True)
    for ids, arguments in ((["a", "a"], []), ([None], []), (["a"], ["{"]), (["a"], [{}])):
        assert not are_calls_usual(ids, arguments, cut=False)


def test_null_is_not_there() -> None:
    assert has_all({"a": 0}, "a")
    assert not has_all({"a": None}, "a")

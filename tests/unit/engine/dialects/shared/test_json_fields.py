"""Fields of a client's body: the error names the path, the expected type and the type that it has."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.dialects.shared.json_fields import (
    COUNT_MAX,
    count_of,
    drop_if_set,
    drop_unknown,
    note_unknown,
    one_of,
    optional,
    read_count,
    read_timestamp,
    reject_if_set,
    required,
    typed,
)
from dragoman.errors import ClientRequestError, Unsupported
from dragoman.losses import LossCode, Losses

BODY: dict[str, Any] = {"n": 1, "flag": True, "text": "x", "nothing": None}


def test_a_field_is_of_its_type() -> None:
    assert required(BODY, "text", str) == "x"
    assert optional(BODY, "nothing", str) is None
    assert optional(BODY, "missing", str) is None
    assert optional(BODY, "n", float) == 1
    assert one_of(BODY, "text", ("x", "y")) == "x"


@pytest.mark.parametrize(
    ("kind", "key", "message"),
    [
        (int, "flag", "a[0].flag: expected an integer, got a boolean"),
        (str, "n", "a[0].n: expected a string, got an integer"),
        (dict, "nothing", "a[0].nothing: expected an object, got null"),
        (list, "missing", "a[0].missing: is required (an array)"),
    ],
)
def test_the_error_names_field_and_type(kind: type, key: str, message: str) -> None:
    with pytest.raises(ClientRequestError) as caught:
        required(BODY, key, kind, ("a", 0))
    assert str(caught.value) == message


def test_an_integer_is_a_number_and_a_boolean_is_none() -> None:
    assert typed(3, float, ("n",)) == 3
    with pytest.raises(ClientRequestError, match="expected a number, got a boolean"):
        typed(True, float, ("n",))


def test_words_that_are_not_allowed() -> None:
    with pytest.raises(ClientRequestError, match="expected one of a, b; got 'x'"):
        one_of(BODY, "text", ("a", "b"))


def test_fields_that_are_rejected_or_dropped_if_set() -> None:
    losses = Losses()
    for key in ("nothing", "missing"):
        reject_if_set(BODY, key, "not here")
        drop_if_set(BODY, key, LossCode.UNKNOWN_FIELD, losses)
    assert not losses
    with pytest.raises(Unsupported, match="not here"):
        reject_if_set(BODY, "n", "not here")
    drop_if_set(BODY, "n", LossCode.UNKNOWN_FIELD, losses, ("a",))
    assert [(row.path, row.code) for row in losses.rows] == [("a.n", LossCode.UNKNOWN_FIELD)]


def test_fields_of_other_dialects_have_their_own_code_at_the_top_only() -> None:
    losses = Losses()
    drop_unknown({"top_k": 1, "novelty": 1, "n": 1}, frozenset(["n"]), losses)
    drop_unknown({"top_k": 1}, frozenset(["n"]), losses, ("a",))
    assert [row.code for row in losses.rows] == [
        LossCode.LEAKED_FIELD,
        LossCode.UNKNOWN_FIELD,
        LossCode.UNKNOWN_FIELD,
    ]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(5, 5), (0, 0), (5.9, 5), (-1, None), (2**53, None), (10**30, None), (True, None), ("5", None), (None, None)],
)
def test_a_time_is_read_if_it_is_one(value: object, seconds: int | None) -> None:
    assert read_timestamp(value) == seconds


def test_each_unknown_field_with_a_value_is_a_loss() -> None:
    losses = Losses()
    note_unknown({"role": "user", "novelty": 0, "other": [1]}, frozenset(["role"]), ("messages", 2), losses)
    assert [(row.code, row.path) for row in losses.rows] == [
        (LossCode.UNKNOWN_FIELD, "messages[2].novelty"),
        (LossCode.UNKNOWN_FIELD, "messages[2].other"),
    ]


def test_empty_fields_of_a_replayed_reply_are_none() -> None:
    losses = Losses()
    note_unknown({"audio": None, "annotations": [], "refusal": "", "x": {}}, frozenset(), (), losses)
    assert not losses


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0),
        (COUNT_MAX, COUNT_MAX),
        (COUNT_MAX + 1, None),
        (2**63, None),
        (2**64, None),
        (10**400, None),
        (1e30, None),
        (-1, None),
        (True, None),
        ("7", 7),
        (7.0, 7),
        ("7.5", None),
        ("-7", None),
        (None, None),
    ],
)
def test_a_count_is_one_that_stores_can_hold(value: Any, expected: int | None) -> None:
    assert count_of(value) == expected
    assert read_count({"n": value}, "n") == expected
    assert read_count([value], "n") is None

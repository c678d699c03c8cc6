from __future__ import annotations

from typing import Any

import pytest

from dragoman.dialects.generate.stream.partial_arguments import PartialArguments
from dragoman.dialects.shared.streamed_arguments import ReplyBudget
from dragoman.errors import LimitExceeded, UpstreamProtocolError
from dragoman.limits import DEFAULT_LIMITS, Limits


def build(*pieces: tuple[str, Any], limits: Limits = DEFAULT_LIMITS) -> dict[str, Any]:
    arguments = PartialArguments("cook", ReplyBudget(limits))
    for path, value in pieces:
        kind = {str: "stringValue", bool: "boolValue", float: "numberValue"}.get(type(value), "nullValue")
        arguments.add([{"jsonPath": path, kind: value, "willContinue": True}])
    return arguments.whole({"given": 1})


def test_all_values() -> None:
    assert build(
        ("$.r.items[0].n", "16"),
        ("$.r.items[0].n", " oz"),
        ("$.r.items[0].n", ""),
        ("$.r.items[1].q", 0.5),
        ("$.r['a b']", True),
        ('$["c.d"]', None),
        ("$.list[0]", "x"),
        ("$.list[1]", "y"),
    ) == {
        "given": 1,
        "r": {"items": [{"n": "16 oz"}, {"q": 0.5}], "a b": True},
        "c.d": None,
        "list": ["x", "y"],
    }


@pytest.mark.parametrize(
    "pieces",
    [
        [("a", "x")],
        [("$", "x")],
        [("$[0]", "x")],
        [("$..a", "x")],
        [("$.a[5]", "x")],  # a hole
        [("$.a", "x"), ("$.a.b", "x")],
        [("$.a.b", "x"), ("$.a[0]", "x")],
        [("$.a", 0.5), ("$.a", "x")],
        [("$.a.b", "x"), ("$.a", 0.5)],
        [("$.a", "x"), ("$.a", True)],
        [("$" + ".a" * 101, "x")],
    ],
)
def test_pieces_that_do_not_fit(pieces: list[tuple[str, Any]]) -> None:
    with pytest.raises(UpstreamProtocolError, match="cook"):
        build(*pieces)


@pytest.mark.parametrize("pieces", [{}, ["x"], [{"stringValue": "x"}], [{"jsonPath": "$.a", "stringValue": 1}]])
def test_malformed_pieces(pieces: Any) -> None:
    with pytest.raises(UpstreamProtocolError):
        PartialArguments("cook", ReplyBudget(DEFAULT_LIMITS)).add(pieces)


def test_their_size_is_limited() -> None:
    with pytest.raises(LimitExceeded):
        build(("$.a", "x" * 50), ("$.a", "x" * 50), limits=Limits(tool_arguments=100))

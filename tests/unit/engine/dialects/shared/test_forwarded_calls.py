"""The calls of a forwarded stream."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.dialects.shared.forwarded_calls import ForwardedCalls
from dragoman.limits import DEFAULT_LIMITS


@pytest.mark.parametrize(
    ("call_id", "name"), [("", "read"), (None, "read"), ("call_2", ""), ("call_1", "read"), (1, 2)]
)
def test_a_call_needs_a_name_and_an_id_of_its_own(call_id: Any, name: Any) -> None:
    calls = ForwardedCalls()
    assert calls.start(0, "call_1", "read")
    assert not calls.start(1, call_id, name)


@pytest.mark.parametrize(
    ("pieces", "verdicts"),
    [
        (["", None, '{"f"', ":1}"], ["plain"] * 4),
        (["{}"], ["unsure"]),
        (["{}", " \n"], ["unsure", "plain"]),
        (["{}", '{"f":1}'], ["unsure", "odd"]),
        (["null"], ["odd"]),
        (['"{'], ["odd"]),
        ([{"f": 1}], ["odd"]),
    ],
)
def test_fragments_that_clients_would_misread(pieces: list[Any], verdicts: list[str]) -> None:
    calls = ForwardedCalls()
    calls.start(0, "call_1", "read")
    assert [calls.add(0, piece) for piece in pieces] == verdicts


def test_calls_are_whole_once_their_arguments_are_an_object() -> None:
    calls = ForwardedCalls()
    calls.start(0, "call_1", "read")
    calls.start(1, "call_2", "patch", custom=True)
    calls.add(1, "text")
    calls.add(0, '{"f"')
    assert not ForwardedCalls.are_whole(calls)
    calls.add(0, ":1}")
    assert calls.are_whole()


def test_calls_beyond_the_limit_are_no_longer_kept() -> None:
    calls = ForwardedCalls()
    for number in range(DEFAULT_LIMITS.blocks + 1):
        assert not calls.lost
        assert calls.start(number, f"call_{number}", "read")
    assert calls.lost
    assert len(calls.by_key) == DEFAULT_LIMITS.blocks


@pytest.mark.parametrize("pieces", [["{}"], ["{}", " "], ['{"f"', ":1}"], [""]])
def test_no_fragment_of_what_was_forwarded_is_kept_back(pieces: list[str]) -> None:
    calls = ForwardedCalls()
    calls.start(0, "call_1", "read")
    for piece in pieces:
        calls.add(0, piece)
    fragments = calls.by_key[0].fragments()
    assert "".join(fragments) == "".join(pieces)
    assert "{}" not in [fragment.strip() for fragment in fragments]


def test_arguments_beyond_the_limit_are_no_longer_kept() -> None:
    calls = ForwardedCalls()
    calls.start(0, "call_1", "read")
    assert calls.add(0, "{" * (DEFAULT_LIMITS.tool_arguments + 1)) == "plain"
    assert calls.lost

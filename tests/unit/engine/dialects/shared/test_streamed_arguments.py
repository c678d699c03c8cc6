"""Arguments of a streamed call: complete or not, limited, and checked at the end."""

from __future__ import annotations

import json

import pytest

from dragoman.dialects.shared.streamed_arguments import Arguments, ReplyBudget
from dragoman.errors import LimitExceeded, UpstreamProtocolError
from dragoman.limits import Limits


def arguments(*fragments: str, limit: int = 1000) -> Arguments:
    made = Arguments(ReplyBudget(Limits(tool_arguments=limit)), "f")
    for fragment in fragments:
        made.add(fragment)
    return made


OBJECT = json.dumps({"a": ["}", '"', "\\", {"b": "{"}], "c": "\\\\"})


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_they_are_complete_at_the_last_brace_and_not_before(size: int) -> None:
    made = arguments()
    fragments = [OBJECT[at : at + size] for at in range(0, len(OBJECT), size)]
    complete = []
    for fragment in fragments:
        made.add(fragment)
        complete.append(made.is_whole())
    assert complete == [False] * (len(fragments) - 1) + [True]
    assert made.text() == OBJECT


@pytest.mark.parametrize("text", ["", "  ", "[]", "null", '{"a":}', '"{}"', "{}]"])
def test_what_is_no_object_is_never_complete(text: str) -> None:
    assert not arguments(text).is_whole()


@pytest.mark.parametrize("text", ['{"a":', "nope", "[]", "null"])
def test_a_call_ends_with_an_object(text: str) -> None:
    with pytest.raises(UpstreamProtocolError, match="'f'"):
        arguments(text).check()
    for good in ("", " \n", " {} "):
        arguments(good).check()


def test_calls_share_one_limit() -> None:
    budget = ReplyBudget(Limits(tool_arguments=4))
    first, second = Arguments(budget), Arguments(budget)
    first.add("123")
    assert not second.add_all("45", ["4", "5"])
    assert not second
    assert second.add_all("4", ["4"])
    with pytest.raises(LimitExceeded):
        first.add("5")


def test_T71_halves_of_a_surrogate_pair_are_one_character() -> None:
    high, low = "👋".encode("utf-16-be", "surrogatepass")[:2], "👋".encode("utf-16-be", "surrogatepass")[2:]
    halves = [half.decode("utf-16-be", "surrogatepass") for half in (high, low)]
    assert arguments('{"a":"', *halves, '"}').text() == '{"a":"👋"}'

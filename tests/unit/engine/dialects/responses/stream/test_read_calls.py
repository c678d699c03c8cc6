"""Calls of a Responses stream, however a server streams their arguments."""

from __future__ import annotations

import pytest

from dragoman.canonical.events import (
    BlockEnd,
    BlockStart,
    Delta,
    End,
)
from support.responses_bodies import BARE, WHOLE, body
from support.responses_frames import (
    Json,
    added,
    at,
    call,
    created,
    done,
    ended,
    read,
)

CALL = [BlockStart(0, "tool", "call_a", "f"), Delta(0, '{"a":1}'), BlockEnd(0)]


def test_T71_surrogate_halves_in_arguments_are_those_of_the_complete_text() -> None:
    raw = '{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\\"a\\":\\"\\ud83d"}'
    whole = call(arguments='{"a":"😀"}')
    rest = '{"type":"response.function_call_arguments.delta","output_index":0,"delta":"\\ude00"}'
    received = read(created(), added(0, **BARE), raw, rest, done(0, **whole), ended(whole))
    assert received[4:] == [Delta(0, '"}'), BlockEnd(0), *received[-2:]]
    assert isinstance(received[-1], End)


@pytest.mark.parametrize(
    "stream",
    [
        [added(0, **BARE), at(0, "function_call_arguments.done", arguments='{"a":1}', name="f"), ended(WHOLE)],
        [added(0, **BARE), at(0, "function_call_arguments.done", arguments='{"a":1}'), ended()],
        [added(0, **BARE), done(0, **WHOLE), ended(WHOLE)],
        [added(0, **WHOLE), done(0, **WHOLE), ended(WHOLE)],
        [added(0, **BARE), ended(WHOLE)],
        [added(0, **BARE | {"name": ""}), done(0, **WHOLE), ended(WHOLE)],
        [added(0, **BARE | {"name": None}), ended(WHOLE)],
        [done(0, **call(arguments={"a": 1})), ended()],
        [done(0, **WHOLE), ended(WHOLE)],
        [ended(WHOLE)],
    ],
)
def test_T04_arguments_are_emitted_once_wherever_they_stand(stream: list[Json]) -> None:
    assert body(*stream) == CALL


def test_T04_the_missing_end_of_the_arguments_is_one_delta() -> None:
    fragment = at(0, "function_call_arguments.delta", delta='{"a"')
    received = body(
        added(0, **BARE), fragment, at(0, "function_call_arguments.done", arguments='{"a":1}'), ended(WHOLE)
    )
    assert received == [CALL[0], Delta(0, '{"a"'), Delta(0, ":1}"), BlockEnd(0)]


def test_fragments_before_the_name_are_kept_and_spacing_may_differ() -> None:
    fragment = at(0, "function_call_arguments.delta", delta='{"a": 1}')
    received = body(added(0, **BARE | {"name": ""}), fragment, done(0, **WHOLE), ended(WHOLE))
    assert received == [CALL[0], Delta(0, '{"a": 1}'), BlockEnd(0)]


def test_a_missing_call_id_is_minted_the_same_every_time() -> None:
    nameless = call() | {"call_id": None}
    first = body(done(0, **nameless), done(1, **nameless), ended())
    ids = [event.call_id for event in first if isinstance(event, BlockStart)]
    assert ids == ["call_u_0", "call_u_1"]
    assert first == body(done(0, **nameless), done(1, **nameless), ended())

"""Texts of a Responses stream, wherever they stand."""

from __future__ import annotations

import pytest

from dragoman.canonical.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    Delta,
    Logprobs,
)
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from support.responses_bodies import HELLO, TEXT, body
from support.responses_frames import (
    Json,
    added,
    at,
    created,
    done,
    ended,
    message,
    opens,
    read,
    says,
    text_part,
)


@pytest.mark.parametrize(
    "stream",
    [
        [*says(0, "Hello"), done(0, **HELLO), ended(HELLO)],
        [added(0, **message()), *says(0, "Hello"), at(0, "output_text.done", text="Hello"), ended()],
        [added(0, **message()), at(0, "output_text.done", text="Hello"), done(0, **message()), ended()],
        [added(0, **message()), at(0, "content_part.done", part=text_part("Hello")), ended()],
        [at(0, "content_part.added", part=text_part("Hello")), at(0, "content_part.done", part=text_part()), ended()],
        [*opens(0), *says(0, "Hello"), ended(HELLO)],
        [*opens(0), ended(HELLO)],
        [done(0, **HELLO), ended()],
        [ended(HELLO)],
    ],
)
def test_a_text_is_emitted_once_wherever_it_stands(stream: list[Json]) -> None:
    assert body(*stream) == TEXT


def test_what_the_deltas_left_out_is_added() -> None:
    received = body(*opens(0), *says(0, "Hel"), done(0, **HELLO), ended(HELLO))
    assert received == [BlockStart(0, BlockKind.TEXT), Delta(0, "Hel"), Delta(0, "lo"), BlockEnd(0)]


def test_a_text_that_was_changed_behind_its_deltas_stays_as_it_was_shown() -> None:
    context = ReplyContext("m")
    received = body(*opens(0), *says(0, "Hex"), done(0, **HELLO), ended(), context=context)
    assert received == [BlockStart(0, BlockKind.TEXT), Delta(0, "Hex"), BlockEnd(0)]
    assert context.losses.counts == {LossCode.UNKNOWN_EVENT: 1}


def test_T71_surrogate_halves_in_two_deltas_are_not_a_missing_text() -> None:
    raw = '{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"\\ud83d"}'
    stream: list[Json | str] = [
        *opens(0),
        raw,
        raw.replace("ud83d", "ude00"),
        done(0, **message(text_part("😀"))),
        ended(),
    ]
    received = read(created(), *stream)
    assert received[2:5] == [Delta(0, "\ud83d"), Delta(0, "\ude00"), BlockEnd(0)]


def test_log_probabilities_that_come_only_at_the_end() -> None:
    tokens = [{"token": "Hello", "logprob": -1.0}]
    context = ReplyContext("m", logprobs=True)
    whole = message(text_part("Hello", logprobs=tokens))
    assert body(done(0, **whole), ended(), context=context)[2] == Logprobs(0, tokens)

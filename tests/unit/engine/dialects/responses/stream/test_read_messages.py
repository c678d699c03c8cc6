"""Texts of a Responses stream, wherever they stand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical.events import (
    BlockEnd,
    BlockStart,
    Delta,
    Event,
    Logprobs,
)
from dragoman.dialects.responses.stream.item_state import ItemTable
from dragoman.dialects.responses.stream.read_items import item_added, part_done
from dragoman.dialects.responses.stream.read_messages import end_part, text_delta
from dragoman.errors import UpstreamProtocolError
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
    text_part,
    writes,
)


@pytest.mark.parametrize(
    "stream",
    [
        [*writes(0, "Hello"), done(0, **HELLO), ended(HELLO)],
        [added(0, **message()), *writes(0, "Hello"), at(0, "output_text.done", text="Hello"), ended()],
        [added(0, **message()), at(0, "output_text.done", text="Hello"), done(0, **message()), ended()],
        [added(0, **message()), at(0, "content_part.done", part=text_part("Hello")), ended()],
        [at(0, "content_part.added", part=text_part("Hello")), at(0, "content_part.done", part=text_part()), ended()],
        [*opens(0), *writes(0, "Hello"), ended(HELLO)],
        [*opens(0), ended(HELLO)],
        [done(0, **HELLO), ended()],
        [ended(HELLO)],
    ],
)
def test_a_text_is_emitted_once_wherever_it_stands(stream: list[Json]) -> None:
    assert body(*stream) == TEXT


def test_what_the_deltas_left_out_is_added() -> None:
    received = body(*opens(0), *writes(0, "Hel"), done(0, **HELLO), ended(HELLO))
    assert received == [BlockStart(0, "text"), Delta(0, "Hel"), Delta(0, "lo"), BlockEnd(0)]


def test_a_text_that_was_changed_behind_its_deltas_stays_as_it_was_shown() -> None:
    context = ReplyContext("m")
    received = body(*opens(0), *writes(0, "Hex"), done(0, **HELLO), ended(), context=context)
    assert received == [BlockStart(0, "text"), Delta(0, "Hex"), BlockEnd(0)]
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


_WORDS = ("", "Hel", "Hello", "Hello!", "other")
_PARTS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(("output_text", "refusal", "output_audio", 1)),
        "text": st.sampled_from((*_WORDS, None, 1)),
        "refusal": st.sampled_from(_WORDS),
        "annotations": st.sampled_from(([], None, "x", [1], [{"type": "url_citation", "url": "u"}])),
        "logprobs": st.sampled_from(([], None, 1, [{"token": "Hello", "logprob": -1.0}])),
    },
)


@given(st.lists(st.sampled_from(_WORDS), max_size=2), _PARTS, st.booleans())
def test_a_part_that_only_repeats_its_text_is_ended_as_any_other(texts: list[str], raw: Json, logprobs: bool) -> None:
    ended: list[object] = []
    for end in (part_done, _end_part):
        table, out = ItemTable(context := ReplyContext("m", logprobs=logprobs)), list[Event]()
        item_added(table, added(0, **message()), out)
        for delta in writes(0, *texts):
            text_delta(table, delta, out)
        try:
            end(table, at(0, "content_part.done", part=raw), out)
        except UpstreamProtocolError as error:
            ended.append(str(error))
        ended.append((out, context.losses.rows, [part.open for part in table.items[0].parts.values()]))
    assert ended[: len(ended) // 2] == ended[len(ended) // 2 :]


def _end_part(table: ItemTable, event: Json, out: list[Event]) -> None:
    end_part(table, table.items[0], 0, event["part"], out)

"""Law: where the network cuts a stream, and how stages are batched, changes nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import Dialect, Direction, Knobs
from dragoman.dialects.all_codecs import CODECS
from dragoman.reply_context import ReplyContext
from dragoman.stages.base import Stage
from dragoman.stages.stop_sequences import StopCutter
from dragoman.wire.sse_parser import Parser
from support import canonical
from support.directions import ALL, DIALECTS, profiles, stream_through, translated, upstream_streams
from support.mutations import mutated_streams
from support.strategies import Shape, event_streams, splits

STOPS = ("STOP", "ll", "日本", "\n\n")


@pytest.mark.few
@pytest.mark.parametrize("row", ALL, ids=str)
@given(data=st.data())
def test_any_split_of_the_bytes_makes_the_same_bytes_and_losses(row: Direction, data: st.DataObject) -> None:
    upstream = data.draw(upstream_streams(row.upstream.dialect))
    raw = upstream.data
    if not row.passthrough:
        raw = data.draw(st.one_of(st.just(raw), mutated_streams(raw)))
    options: dict[str, Any] = {"profile": data.draw(profiles)}
    stops: tuple[str, ...] = ()
    if not row.passthrough:
        options["knobs"] = Knobs(
            block_order=data.draw(st.sampled_from(("auto", "interleave", "sequential"))),
            reasoning_field=data.draw(st.sampled_from(("reasoning_content", "both", "off"))),
            reasoning_surface=data.draw(st.sampled_from(("reasoning_text", "summary"))),
        )
        stops = data.draw(st.sampled_from(((), STOPS)))

    def run(pieces: list[bytes]) -> tuple[bytes, dict[Any, int], Any]:
        translation = translated(row, **options)
        translation.context.stops = stops
        out = stream_through(translation, pieces)
        if stops:  # what is lost behind a cut depends on how much of it had come
            return out, {}, None
        return out, dict(translation.losses.counts), translation.context.usage

    whole = run([raw])
    assert run(data.draw(splits(raw))) == whole
    assert run([raw[at : at + 1] for at in range(len(raw))]) == whole


# --- stages on their own ----------------------------------------------------------------------------------------------


def run_stage(stage: Stage[Any, Any], batches: Iterable[list[Any]]) -> list[Any]:
    out: list[Any] = []
    for batch in batches:
        out += stage.feed(batch)
        if stage.done:
            break
    return out if stage.done else out + stage.finish()


def cut(draw: Callable[[Any], Any], items: list[Any]) -> list[list[Any]]:
    points = sorted(draw(st.lists(st.integers(0, len(items)), max_size=8)))
    edges = [0, *points, len(items)]
    return [items[start:end] for start, end in itertools.pairwise(edges)]


def check_batches(data: st.DataObject, make: Callable[[], Stage[Any, Any]], items: list[Any]) -> list[Any]:
    whole = run_stage(make(), [items])
    assert run_stage(make(), cut(data.draw, items)) == whole
    assert run_stage(make(), [[item] for item in items]) == whole
    return whole


@pytest.mark.parametrize("dialect", CODECS, ids=str)
@given(data=st.data())
def test_readers_do_not_see_batches(dialect: Dialect, data: st.DataObject) -> None:
    raw = data.draw(upstream_streams(dialect)).data
    raw = data.draw(st.one_of(st.just(raw), mutated_streams(raw)))
    parser = Parser()
    frames = parser.parse(raw) + parser.finish()
    events = check_batches(data, lambda: CODECS[dialect].reader(ReplyContext("m")), frames)
    canonical.check(events)  # whatever came, the events are grammatical


WRITABLE = {
    Dialect.CHAT: Shape(errors=True),
    Dialect.MESSAGES: Shape(errors=True),
    Dialect.RESPONSES: Shape(errors=True, custom_tools=True, namespaces=True, searches=True),
}


@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
@given(data=st.data())
def test_writers_do_not_see_batches(dialect: Dialect, data: st.DataObject) -> None:
    events = data.draw(event_streams(WRITABLE[dialect]))
    check_batches(data, lambda: CODECS[dialect].writer(ReplyContext("m", include_usage=True)), events)


@given(data=st.data())
def test_the_stop_cutter_does_not_see_batches_or_fragments(data: st.DataObject) -> None:
    events = data.draw(event_streams(Shape(errors=True)))
    stops = tuple(data.draw(st.lists(st.sampled_from((*STOPS, "S", "TO", "a")), min_size=1, max_size=3)))
    out = check_batches(data, lambda: StopCutter(ReplyContext("m"), stops), events)
    result = canonical.check(out)
    for kind, text in result.blocks:
        assert kind != "text" or not any(stop in text for stop in stops)

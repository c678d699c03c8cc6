"""Law: whatever an upstream sends, the client gets a stream of its own dialect that ends, and ends honestly."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from dragoman import Dialect, Direction
from dragoman.canonical.events import CUTS, BlockStart, Delta, Error, Finish
from oracles.grammar import sse
from support.directions import (
    CROSS,
    PASSTHROUGH,
    error_of,
    judge,
    profiles,
    stream_through,
    translated,
    upstream_streams,
)
from support.mutations import frames_of, mutated_streams
from support.strategies import splits
from support.upstreams import Upstream


@pytest.mark.few
@pytest.mark.parametrize("row", CROSS, ids=str)
@given(data=st.data())
def test_legal_streams_become_grammatical_streams_and_end_cleanly(row: Direction, data: st.DataObject) -> None:
    upstream = data.draw(upstream_streams(row.upstream.dialect))
    profile = "compatible" if upstream.notes.get("needs_last_seen") else data.draw(profiles)
    translation = translated(row, profile=profile)
    out = stream_through(translation, data.draw(splits(upstream.data)))
    note(out.decode())
    assert judge(row.client.dialect, out).error is None
    assert translation.context.failure is None


@pytest.mark.few
@pytest.mark.parametrize("row", CROSS, ids=str)
@given(data=st.data())
def test_mutated_streams_become_grammatical_streams_or_end_in_an_error(row: Direction, data: st.DataObject) -> None:
    upstream = data.draw(upstream_streams(row.upstream.dialect))
    broken = data.draw(mutated_streams(upstream.data))
    note(repr(broken))
    translation = translated(row, profile=data.draw(profiles))
    out = stream_through(translation, data.draw(splits(broken)))
    note(out.decode())
    result = judge(row.client.dialect, out)
    # The engine knows how it ended what it ended.
    assert (translation.context.failure is None) is (result.error is None)


@pytest.mark.few
@pytest.mark.parametrize("row", CROSS, ids=str)
@given(data=st.data())
def test_a_cut_stream_never_ends_cleanly(row: Direction, data: st.DataObject) -> None:
    upstream = data.draw(upstream_streams(row.upstream.dialect, quirks=False))
    frames = frames_of(upstream.data)
    end = terminal(row, frames)
    kept = b"".join(frames[:end])
    cut = data.draw(st.integers(0, len(kept)))
    out = stream_through(translated(row), data.draw(splits(kept[:cut])))
    assert judge(row.client.dialect, out).error is not None


def _without_numbers(data: bytes) -> list[Any]:
    """Return the data of the events without their numbers, and without ids."""
    return [_stripped(json.loads(each.data)) for each in sse.split(data) if each.data and each.data != b"[DONE]"]


def _stripped(value: Any) -> Any:
    if isinstance(value, list):
        return [_stripped(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: _stripped(each) for key, each in value.items() if key not in ("sequence_number", "id", "item_id")}


@pytest.mark.parametrize("row", PASSTHROUGH, ids=str)
@given(data=st.data())
def test_passed_through_streams_are_whole_or_end_in_an_error(row: Direction, data: st.DataObject) -> None:
    upstream = data.draw(upstream_streams(row.upstream.dialect))
    broken = data.draw(st.one_of(st.just(upstream.data), mutated_streams(upstream.data)))
    translation = translated(row)
    out = stream_through(translation, data.draw(splits(broken)))
    note(repr(out))
    if out == broken or (broken.endswith(b"\r") and out == broken + b"\n"):  # the terminal frame's last line end
        return
    # Either nothing follows what is forwarded, or an error of the dialect does, or an end that was repaired or written.
    if not broken.startswith(out):
        frames = sse.split(out)
        ends = [frame for frame in frames if TERMINAL[row.client.dialect].search(frame.data or b"")]
        assert ends or error_of(row.client.dialect, frames[-1])


def _is_repaired(upstream: Upstream) -> bool:
    """True if the arguments of a call are `{}` or come without deltas, or a call or its end is corrected."""
    texts: dict[int, str] = {each.index: "" for each in upstream.events if isinstance(each, BlockStart)}
    calls = {each.index for each in upstream.events if isinstance(each, BlockStart) and each.kind == "tool"}
    for each in upstream.events:
        if isinstance(each, Delta):
            texts[each.index] = texts.get(each.index, "") + each.text
    whole = bool(calls) and b"function_call_arguments.delta" not in upstream.data
    odd = bool(upstream.notes.get("stop_for_calls") or upstream.notes.get("untyped")) and bool(calls)
    return (
        odd
        or any(texts[index].strip() in ("", "{}") for index in calls)
        or (b"function_call" in upstream.data and whole)
    )


def _finished_items(data: bytes) -> list[Any]:
    events = [event for event in _without_numbers(data) if event.get("type") == "response.output_item.done"]
    return [event["item"] for event in events]


@pytest.mark.parametrize("row", PASSTHROUGH, ids=str)
@given(data=st.data())
def test_legal_streams_pass_through_byte_by_byte(row: Direction, data: st.DataObject) -> None:
    upstream = data.draw(upstream_streams(row.upstream.dialect))
    out = stream_through(translated(row), data.draw(splits(upstream.data)))
    # An empty object waits for the next event, and a call without a delta gets one.
    if row.client.dialect is Dialect.CHAT and _is_repaired(upstream) and not upstream.notes.get("ids_repeated"):
        assert joined_calls(out) == joined_calls(upstream.data)
    elif row.client.dialect is Dialect.RESPONSES and _is_repaired(upstream):
        meant = _finished_items(upstream.data)
        assert _finished_items(out)[: len(meant)] == meant
    elif upstream.notes.get("no_sequence") or upstream.notes.get("no_item_ids"):  # numbers and ids are put in
        meant = _without_numbers(upstream.data)
        last = len(meant) - 1  # which gets items that it lacks
        assert _without_numbers(out)[:last] == meant[:last]
    elif upstream.notes.get("empty_output") and not isinstance(upstream.events[-1], Error):
        frames = frames_of(upstream.data)  # what was streamed is put into the last event
        assert out.startswith(b"".join(frames[: terminal(row, frames)]))
    elif upstream.notes.get("done_mark"):  # no part of Responses, and nothing is read behind its terminal event
        assert upstream.data.startswith(out)
        rest = sse.split(upstream.data[len(out) :])
        assert [item.data for item in rest if item.data is not None] == [b"[DONE]"]
    elif upstream.notes.get("hidden"):  # the events of an item that only the terminal event has are inserted before it
        kept = b"".join(frames_of(upstream.data)[:-1])
        assert out.startswith(kept)
        assert out == upstream.data or b"response.output_item.added" in out[len(kept) :]
    elif upstream.notes.get("ids_repeated"):  # the calls are written again
        starts = [each for each in upstream.events if isinstance(each, BlockStart) and each.kind == "tool"]
        texts = [each for each in upstream.events if isinstance(each, Delta)]
        meant = [(it.call_id, it.name, "".join(d.text for d in texts if d.index == it.index)) for it in starts]
        assert joined_calls(out) == meant
    elif any(isinstance(each, Finish) and each.stop.reason in CUTS for each in upstream.events):
        # An event between the end of a call that was cut and the reason lets the rest be written again.
        failed = isinstance(upstream.events[-1], Error)
        assert failed or error_of(row.client.dialect, sse.split(out)[-1]) is None
    elif b"\r" in upstream.data:  # a frame that was held has other line ends
        assert out.splitlines() == upstream.data.splitlines()
    else:
        assert out == upstream.data


@pytest.mark.parametrize("row", PASSTHROUGH, ids=str)
@given(data=st.data())
def test_a_cut_stream_that_is_passed_through_ends_in_an_error(row: Direction, data: st.DataObject) -> None:
    upstream = data.draw(upstream_streams(row.upstream.dialect, quirks=False))
    frames = frames_of(upstream.data)
    kept = b"".join(frames[: terminal(row, frames)])
    out = stream_through(translated(row), data.draw(splits(kept[: data.draw(st.integers(0, len(kept)))])))
    assert error_of(row.client.dialect, sse.split(out)[-1])


def joined_calls(out: bytes) -> list[tuple[str, str, str]]:
    """The id, name and arguments of the calls of a Chat stream. SDKs join all fragments by their index."""
    found: dict[int, list[str]] = {}
    for frame in sse.split(out):
        payload = json.loads(frame.data) if frame.data and frame.data != b"[DONE]" else {}
        for choice in payload.get("choices", ()):
            for call in choice["delta"].get("tool_calls") or ():
                held = found.setdefault(call["index"], ["", "", ""])
                pieces = call.get("id"), call["function"].get("name"), call["function"].get("arguments")
                held[:] = [old + (new or "") for old, new in zip(held, pieces, strict=True)]
    return [(held[0], held[1], held[2]) for held in found.values()]


def terminal(row: Direction, frames: list[bytes]) -> int:
    """Where the frame stands without which a stream of the upstream's dialect is not whole."""
    return [at for at, frame in enumerate(frames) if TERMINAL[row.upstream.dialect].search(frame)][-1]


TERMINAL = {
    Dialect.CHAT: re.compile(rb'"finish_reason": ?"'),
    Dialect.MESSAGES: re.compile(rb'"type": ?"message_stop"'),
    Dialect.RESPONSES: re.compile(rb'"type": ?"response\.(completed|incomplete|done)"'),
    Dialect.GENERATE: re.compile(rb'"finishReason": ?"'),
}

"""Items of a Responses stream that are cut, or that no client knows."""

from __future__ import annotations

import pytest

from dragoman.canonical.events import (
    BlockEnd,
    Event,
    Finish,
    Stop,
    StopReason,
    Usage,
)
from dragoman.dialects.responses.stream.item_state import ItemTable
from dragoman.dialects.responses.stream.read_items import (
    complete_output,
    end_items,
    item_added,
    item_done,
    repeats_items,
)
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from support.responses_bodies import BARE, HELLO, TEXT, WHOLE, body
from support.responses_frames import (
    Json,
    added,
    at,
    created,
    cut,
    done,
    ended,
    message,
    opens,
    read,
    reasoned,
    text_part,
    writes,
)


def test_a_cut_leaves_what_is_open_unfinished() -> None:
    stream = [*opens(0), *writes(0, "Hel"), added(1, **BARE), added(2, **reasoned())]
    *received, finish, _ = read(created(), *stream, cut("max_output_tokens"))
    assert received[-3:] == [BlockEnd(0, complete=False), BlockEnd(1, complete=False), BlockEnd(2, complete=False)]
    assert finish == Finish(Stop(StopReason.LENGTH, "max_output_tokens"), Usage(12, 4, 0, 7, 0))


def test_T22_what_the_last_snapshot_of_a_cut_reply_has_in_progress_is_unfinished() -> None:
    held = WHOLE | {"status": "in_progress"}
    assert read(created(), added(0, **BARE), cut("max_output_tokens", held))[3] == BlockEnd(0, complete=False)
    assert read(created(), added(0, **BARE), ended(held))[3] == BlockEnd(0)


def test_T24_unknown_events_items_and_parts_are_left_out_wholly_with_a_row_each() -> None:
    context = ReplyContext("m")
    stream: list[Json] = [
        {"type": "codex.rate_limits", "x": 1},
        {"type": "response.audio.delta", "delta": "UklG"},
        added(0, type="novelty_call", id="n_1"),
        at(0, "novelty_call.searching"),
        at(0, "output_text.delta", delta="inner"),
        done(0, type="novelty_call", id="n_1"),
        added(1, **message()),
        at(1, "content_part.added", 0, part={"type": "output_audio", "data": ""}),
        at(1, "output_text.delta", 1, delta="Hello"),
        done(1, **message({"type": "output_audio", "data": ""}, text_part("Hello"))),
    ]
    assert body(*stream, ended(), context=context) == TEXT
    assert [row.path for row in context.losses.rows] == [
        "codex.rate_limits",
        "response.audio.delta",
        "output[0]",
        "output[1].content[0]",
        "output",
    ]


def test_a_phase_and_the_extras_of_calls_are_one_row_each() -> None:
    context = ReplyContext("m")
    text = HELLO | {"phase": "commentary"}
    call = WHOLE | {"caller": {"type": "program", "caller_id": "p"}, "async": True}
    body(added(0, **text | {"content": []}), done(0, **text), added(1, **call), ended(text, call), context=context)
    assert context.losses.counts == {LossCode.PHASE: 1, LossCode.CALL_META: 2, LossCode.REPLY_REPAIRED: 2}


def test_a_last_snapshot_that_repeats_the_items_changes_nothing() -> None:
    table, out = ItemTable(ReplyContext("m")), list[Event]()
    for number, item in enumerate((HELLO, WHOLE)):
        item_done(table, done(number, **item), out)
    before = list(out)
    assert repeats_items(table, [HELLO, WHOLE])
    complete_output(table, [HELLO, WHOLE], out, cut=False)
    end_items(table, out, cut=False)
    assert out == before


@pytest.mark.parametrize(
    "output", [None, [], [HELLO], [WHOLE, HELLO], [HELLO, WHOLE, HELLO], [HELLO, WHOLE | {"id": "b"}], [HELLO, 1]]
)
def test_any_other_last_snapshot_is_read(output: object) -> None:
    table, out = ItemTable(ReplyContext("m")), list[Event]()
    for number, item in enumerate((HELLO, WHOLE)):
        item_done(table, done(number, **item), out)
    assert not repeats_items(table, output)


def test_a_last_snapshot_with_an_item_that_is_open_is_read() -> None:
    table = ItemTable(ReplyContext("m"))
    item_added(table, added(0, **HELLO), [])
    assert not repeats_items(table, [HELLO])

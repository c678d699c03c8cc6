"""Responses streams of servers that leave out, repeat or rename events (streams §9)."""

from __future__ import annotations

import pytest

from dragoman.canonical.events import (
    Error,
    Finish,
    Start,
    Stop,
    StopReason,
)
from dragoman.dialects.responses.stream.reader import ResponsesReader
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from support.responses_bodies import HELLO, TEXT, WHOLE
from support.responses_frames import (
    Json,
    created,
    cut,
    done,
    ended,
    frames,
    message,
    opens,
    read,
    refusal_part,
    response,
    writes,
)


@pytest.mark.parametrize(
    ("first", "start"),
    [
        ({"type": "response.in_progress", "response": response()}, Start("resp_u", "m", None, 5)),
        ({"type": "response.queued", "response": response("queued")}, Start("resp_u", "m", None, 5)),
        (done(0, **HELLO), Start("", "")),
        (ended(HELLO), Start("resp_u", "m", None, 5)),
    ],
)
def test_a_stream_without_created_starts_at_its_first_event(first: Json, start: Start) -> None:
    assert read(first, ended(HELLO)) == [start, *TEXT, *read(created(), ended(HELLO))[-2:]]


@pytest.mark.parametrize(
    ("terminal", "reason", "rows"),
    [
        (cut("content_filter"), StopReason.FILTERED, 0),
        (cut("max_messages", HELLO), StopReason.END, 1),
        (cut("steered", HELLO), StopReason.END, 1),
        (cut("novelty", HELLO), StopReason.END, 1),
        (cut(None), StopReason.POLICY_CUT, 1),
        (ended(incomplete_details={"reason": "max_output_tokens"}), StopReason.LENGTH, 0),
        ({**cut("max_output_tokens"), "type": "response.completed"}, StopReason.LENGTH, 0),
        ({**ended(), "type": "response.done"}, StopReason.END, 0),
        ({**cut("max_output_tokens"), "type": "response.done"}, StopReason.LENGTH, 0),
        ({**ended(), "type": "response.incomplete"}, StopReason.POLICY_CUT, 1),
        ({"type": "response.completed", "response": response("in_progress")}, StopReason.END, 0),
        ({"type": "response.done", "response": response("completed", [HELLO]) | {"status": None}}, StopReason.END, 1),
    ],
)
def test_T22_T25_every_terminal(terminal: Json, reason: StopReason, rows: int) -> None:
    context = ReplyContext("m")
    finish = read(created(), terminal, context=context)[-2]
    assert isinstance(finish, Finish)
    assert finish.stop.reason is reason
    assert context.losses.counts.get(LossCode.STOP_UNKNOWN, 0) == rows


def test_a_call_beside_a_refusal_is_a_call_and_counts_may_be_missing() -> None:
    terminal = ended(message(refusal_part("No")), WHOLE, usage={})
    assert read(created(), terminal)[-2] == Finish(Stop(StopReason.TOOL_CALLS, "completed"), None)


def test_done_marks_mean_nothing() -> None:
    assert read(created(), "[DONE]", *opens(0), *writes(0, "Hello"), done(0, **HELLO), ended(), "[DONE]")[1:4] == TEXT


def _opening(name: str, number: int, response: str, after: str = "") -> str:
    return f'{{"type":"response.{name}","sequence_number":{number},"response":{response}{after}}}'


@pytest.mark.parametrize(
    ("second", "fault"),
    [
        (_opening("in_progress", 1, '{"id":"r","model":"m"}'), None),
        (_opening("in_progress", 1, '{"id":"r","model":"other"}'), None),
        (_opening("in_progress", 1, '{"id":"r","model":"m"}', ',"x":{"id":"r","model":"m"}'), None),
        (_opening("queued", 1, '{"id":"r","model":"m"}'), None),
        ('{"type":"response.in_progress","sequence_number":{"id":"r","model":"m"}}', None),
        (_opening("created", 1, '{"id":"r","model":"m"}'), "upstream sent response.created twice"),
        (_opening("in_progress", 1, '{"id":"r","model":"m"}', ',"error":{"message":"lost"}'), "lost"),
        (_opening("in_progress", 1, '{"id":"r","model":"m"'), "upstream sent a stream frame that is not JSON"),
        (
            '{"type":"response.in_progress","sequence_number":01,"response":{"id":"r","model":"m"}}',
            "upstream sent a stream frame that is not JSON",
        ),
    ],
)
def test_an_event_after_created_that_repeats_its_response_or_does_not(second: str, fault: str | None) -> None:
    reader = ResponsesReader(ReplyContext("m"))
    start, *rest = reader.feed(frames(_opening("created", 0, '{"id":"r","model":"m"}'), second))
    assert start == Start("r", "m")
    assert [event.failure.message for event in rest if isinstance(event, Error)] == ([fault] if fault else [])
    assert reader.phase == ("DONE" if fault else "CREATED")


def test_an_error_in_created_is_read_when_in_progress_repeats_it() -> None:
    first, second = (
        _opening(name, 0, '{"id":"r"}', ',"error":{"message":"lost"}') for name in ("created", "in_progress")
    )
    assert isinstance(read(first, second)[1], Error)

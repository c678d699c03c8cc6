"""Responses streams of servers that leave out, repeat or rename events (streams §9)."""

from __future__ import annotations

import pytest

from dragoman.canonical.events import (
    Finish,
    Start,
    Stop,
    StopReason,
)
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from support.responses_bodies import HELLO, TEXT, WHOLE
from support.responses_frames import (
    Json,
    created,
    cut,
    done,
    ended,
    message,
    opens,
    read,
    refusal_part,
    response,
    says,
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
        (cut("max_messages"), StopReason.POLICY_CUT, 0),
        (cut("steered"), StopReason.POLICY_CUT, 0),
        (cut("novelty"), StopReason.POLICY_CUT, 1),
        (cut(None), StopReason.POLICY_CUT, 1),
        (ended(incomplete_details={"reason": "max_output_tokens"}), StopReason.LENGTH, 0),
        ({**cut("max_output_tokens"), "type": "response.completed"}, StopReason.LENGTH, 0),
        ({**ended(), "type": "response.done"}, StopReason.END, 0),
        ({**cut("max_output_tokens"), "type": "response.done"}, StopReason.LENGTH, 0),
        ({**ended(), "type": "response.incomplete"}, StopReason.POLICY_CUT, 1),
        ({"type": "response.completed", "response": response("in_progress")}, StopReason.END, 0),
        ({"type": "response.done", "response": response() | {"status": None}}, StopReason.END, 1),
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
    assert read(created(), "[DONE]", *opens(0), *says(0, "Hello"), done(0, **HELLO), ended(), "[DONE]")[1:4] == TEXT

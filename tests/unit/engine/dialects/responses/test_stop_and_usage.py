"""Status, stop reasons and counts of Responses (mapping §9.2 to §9.4)."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.events import RefusalInfo, Stop, StopReason, Usage
from dragoman.dialects.responses.stop_and_usage import (
    read_usage,
    refusal_wording,
    resolve_stop_reason,
    write_status,
    write_usage,
)
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses

REFUSED = Stop(StopReason.FILTERED, "refusal")


@pytest.mark.parametrize(
    ("status", "reason", "stop", "codes"),
    [
        ("completed", None, Stop(StopReason.TOOL_CALLS, "completed"), []),
        ("incomplete", "max_output_tokens", Stop(StopReason.LENGTH, "max_output_tokens"), []),
        ("incomplete", "length", Stop(StopReason.LENGTH, "length"), [LossCode.REPLY_REPAIRED]),
        ("incomplete", "content_filter", Stop(StopReason.FILTERED, "content_filter"), []),
        ("incomplete", "novelty", Stop(StopReason.TOOL_CALLS, "novelty"), [LossCode.STOP_UNKNOWN]),
        ("incomplete", None, Stop(StopReason.POLICY_CUT, None), [LossCode.STOP_UNKNOWN]),
        ("novelty", None, Stop(StopReason.TOOL_CALLS, "novelty"), [LossCode.STOP_UNKNOWN]),
    ],
)
def test_a_known_reason_of_an_incomplete_response_takes_precedence_over_calls(
    status: str, reason: str | None, stop: Stop, codes: list[LossCode]
) -> None:
    losses = Losses()
    response = {"incomplete_details": {"reason": reason} if reason else None}
    assert resolve_stop_reason(response, status, calls=True, refusal=False, shown=True, losses=losses) == stop
    assert list(losses.counts) == codes


def test_a_completed_response_without_a_call() -> None:
    for refusal, reason in ((False, StopReason.END), (True, StopReason.REFUSAL)):
        stop = resolve_stop_reason({}, "completed", calls=False, refusal=refusal, shown=True, losses=Losses())
        assert stop.reason is reason


def test_a_refusal_completes_a_response_unless_something_was_shown() -> None:
    assert write_status(REFUSED, None, Knobs(), shown=False) == ("completed", None)
    assert write_status(REFUSED, None, Knobs(), shown=True) == ("incomplete", "content_filter")
    assert write_status(REFUSED, None, Knobs(refusal_terminal="native"), shown=False)[0] == "incomplete"
    assert write_status(Stop(StopReason.PAUSED), None, Knobs(), shown=True) == ("incomplete", "max_output_tokens")


def test_the_wording_of_a_refusal() -> None:
    info = RefusalInfo("No.", "cyber")
    assert refusal_wording(REFUSED, info, shown=True, refused=False) == "No."
    assert refusal_wording(REFUSED, info, shown=True, refused=True) is None
    assert refusal_wording(REFUSED, None, shown=True, refused=False) is None
    assert refusal_wording(REFUSED, None, shown=False, refused=False)
    assert refusal_wording(Stop(StopReason.END), info, shown=False, refused=False) is None


@pytest.mark.parametrize("counts", [None, [], {}, {"input_tokens": -1}, {"input_tokens": True, "output_tokens": "x"}])
def test_what_is_no_count(counts: Any) -> None:
    assert read_usage(counts) is None


def test_T31_written_counts_are_read() -> None:
    usage = Usage(12, 4, 2, 7, 3)
    losses = Losses()
    assert read_usage(write_usage(usage, losses)) == usage
    assert not losses
    assert write_usage(None, losses) is None
    written = write_usage(Usage(12), losses)
    assert written is not None
    assert (written["output_tokens"], written["total_tokens"]) == (0, 12)
    assert losses.counts == {LossCode.USAGE_ESTIMATED: 2}

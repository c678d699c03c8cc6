"""Messages' words: stop reasons, usage, refusal details, citations."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.canonical.events import RefusalInfo, StopReason, Usage
from dragoman.canonical.service_report import ServiceReport
from dragoman.dialects.messages import stop_and_usage
from support.messages_frames import written_usage

READ_STOP = {
    "end_turn": StopReason.END,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "tool_use": StopReason.TOOL_CALLS,
    "max_tokens": StopReason.LENGTH,
    "model_context_window_exceeded": StopReason.CONTEXT,
    "refusal": StopReason.FILTERED,
    "pause_turn": StopReason.PAUSED,
    "compaction": StopReason.POLICY_CUT,
}


@pytest.mark.parametrize(("native", "reason"), READ_STOP.items())
def test_stop_reasons_are_read(native: str, reason: StopReason) -> None:
    assert stop_and_usage.read_stop(native) is reason


@pytest.mark.parametrize("native", [None, "novel", "OTHER", ""])
def test_unknown_stop_reasons_are_not_guessed(native: str | None) -> None:
    assert stop_and_usage.read_stop(native) is None


def test_every_canonical_reason_has_a_word_of_the_dialect() -> None:
    written = {reason: stop_and_usage.write_stop(reason) for reason in StopReason}
    assert set(written.values()) <= set(READ_STOP)
    assert written[StopReason.POLICY_CUT] == "max_tokens"
    assert written[StopReason.REFUSAL] == written[StopReason.FILTERED] == "refusal"
    assert all(stop_and_usage.read_stop(word) is reason for reason, word in written.items() if reason not in ODD)


ODD = {StopReason.REFUSAL, StopReason.POLICY_CUT}


def test_T31_input_total_adds_the_cache() -> None:
    usage = stop_and_usage.read_usage(
        {
            "input_tokens": 10,
            "cache_read_input_tokens": 100,
            "cache_creation_input_tokens": 7,
            "output_tokens": 5,
            "output_tokens_details": {"thinking_tokens": 2},
        }
    )
    assert usage == Usage(117, 100, 7, 5, 2)


def test_T31_cached_tokens_are_not_counted_twice() -> None:
    assert stop_and_usage.write_usage(Usage(117, 100, 7, 5, 2)) == {
        "input_tokens": 10,
        "cache_creation_input_tokens": 7,
        "cache_read_input_tokens": 100,
        "output_tokens": 5,
        "output_tokens_details": {"thinking_tokens": 2},
        "server_tool_use": None,
    }


def test_T31_input_tokens_never_negative() -> None:
    assert stop_and_usage.write_usage(Usage(input_total=5, cache_read=9))["input_tokens"] == 0


@pytest.mark.parametrize(
    ("obj", "usage"),
    [
        ({"output_tokens": 3}, Usage(output_total=3)),
        ({"input_tokens": 4, "cache_read_input_tokens": None}, Usage(input_total=4)),
        ({"input_tokens": "x", "output_tokens": True}, Usage()),
        ({}, Usage()),
        (None, None),
        ([1], None),
    ],
)
def test_unsaid_counts_stay_none(obj: Any, usage: Usage | None) -> None:
    assert stop_and_usage.read_usage(obj) == usage


def test_usage_of_an_upstream_that_is_silent_has_the_required_keys() -> None:
    assert stop_and_usage.write_usage(Usage()) == written_usage()


def test_usage_survives_a_round_trip() -> None:
    usage = Usage(50, 20, 0, 9, 0)
    assert stop_and_usage.read_usage(stop_and_usage.write_usage(usage)) == usage


def test_stop_details() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "No."}
    info = stop_and_usage.read_stop_details(details)
    assert info == RefusalInfo("No.", "cyber")
    assert stop_and_usage.write_stop_details(info, "other words") == details
    assert stop_and_usage.write_stop_details(None) == {"type": "refusal", "category": None, "explanation": None}
    assert stop_and_usage.write_stop_details(None, "I can't.")["explanation"] == "I can't."


@pytest.mark.parametrize("obj", [None, "refusal", {"type": "other"}, {}])
def test_other_stop_details_mean_nothing(obj: Any) -> None:
    assert stop_and_usage.read_stop_details(obj) is None


@pytest.mark.parametrize(
    ("creation", "expected"),
    [
        ({"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 4}, 4),
        ({"ephemeral_5m_input_tokens": 7}, None),
        ({"ephemeral_1h_input_tokens": "x"}, None),
        ([], None),
        (None, None),
    ],
)
def test_cache_writes_for_an_hour_are_counted_apart(creation: Any, expected: int | None) -> None:
    counts = {"input_tokens": 1, "cache_creation_input_tokens": 7, "cache_creation": creation, "output_tokens": 2}
    usage = stop_and_usage.read_usage(counts)
    assert usage == Usage(8, None, 7, 2, None, expected)
    assert Usage(output_total=5).merged_onto(usage) == Usage(8, None, 7, 5, None, expected)


@pytest.mark.parametrize(
    ("service", "written"),
    [
        (None, None),
        (ServiceReport("default"), None),
        (ServiceReport(searches=0), {"web_fetch_requests": 0, "web_search_requests": 0}),
        (ServiceReport(calls={"web_fetch": 2, "mcp": 1}), {"web_fetch_requests": 2, "web_search_requests": 0}),
    ],
)
def test_calls_of_the_upstreams_tools_are_written(service: ServiceReport | None, written: Any) -> None:
    assert stop_and_usage.write_usage(Usage(1), service)["server_tool_use"] == written


def entry(kind: str, given: int, made: int, **more: Any) -> dict[str, Any]:
    counts = {"input_tokens": given, "output_tokens": made, "cache_creation_input_tokens": 0}
    return {"type": kind, **counts, "cache_read_input_tokens": 0, **more}


def test_a_compaction_is_added_with_its_cache() -> None:
    """`BetaUsage.iterations`: its tokens are not in the counts at the top."""
    compaction = entry("compaction", 1000, 30, cache_read_input_tokens=500, cache_creation_input_tokens=40)
    compaction["cache_creation"] = {"ephemeral_1h_input_tokens": 40, "ephemeral_5m_input_tokens": 0}
    top = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 3}
    usage = stop_and_usage.read_usage({**top, "iterations": [compaction, entry("message", 10, 5)]})
    own = (("", Usage(1540, 500, 40, 30, None, 40)),)
    assert usage == Usage(10 + 3 + 1540, 503, 40, 35, None, 40, other_models=own)


def test_an_advisor_is_added_and_named() -> None:
    advisor = entry("advisor_message", 800, 60, model="opus")
    top = {"input_tokens": 10, "output_tokens": 5}
    usage = stop_and_usage.read_usage({**top, "iterations": [entry("message", 10, 5), advisor]})
    assert usage == Usage(810, 0, 0, 65, other_models=(("opus", Usage(800, 0, 0, 60)),))


def test_a_fallback_is_counted_once_and_named() -> None:
    """The declined attempt is a `message` entry that the counts at the top leave out."""
    top = {"input_tokens": 20, "output_tokens": 7}
    served = entry("fallback_message", 20, 7, model="sonnet")
    usage = stop_and_usage.read_usage({**top, "iterations": [entry("message", 20, 1, model="opus"), served]})
    assert usage == Usage(20, output_total=7, other_models=(("sonnet", Usage(20, output_total=7)),))


@pytest.mark.parametrize("odd", [3, "x", {}, [None, 4, {"type": []}, {"type": "compaction"}, {"type": "novel"}]])
def test_odd_iterations_change_nothing(odd: Any) -> None:
    top = {"input_tokens": 20, "output_tokens": 7}
    assert stop_and_usage.read_usage({**top, "iterations": odd}) == Usage(20, output_total=7)


def test_unknown_totals_stay_unknown_beside_iterations() -> None:
    counts = {"input_tokens": 20, "iterations": [entry("compaction", 5, 3)]}
    usage = stop_and_usage.read_usage(counts)
    assert usage == Usage(25, 0, 0, other_models=(("", Usage(5, 0, 0, 3)),))


def test_thinking_above_the_output_is_added_to_it() -> None:
    counts = {"input_tokens": 1, "output_tokens": 4, "output_tokens_details": {"thinking_tokens": 9}}
    assert stop_and_usage.read_usage(counts) == Usage(1, None, None, 13, 9)

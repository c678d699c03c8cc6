"""Stop reasons, usage and the small shared pieces of the chat dialect."""

from __future__ import annotations

import pytest

from dragoman.canonical.events import Stop, StopReason, Usage
from dragoman.canonical.request import Json
from dragoman.dialects.chat.stop_and_usage import (
    read_finish_reason,
    read_usage,
    resolve_stop_reason,
    write_finish_reason,
    write_usage,
)
from dragoman.errors import UpstreamProtocolError
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses


@pytest.mark.parametrize(
    ("native", "reason"),
    [
        ("stop", StopReason.END),
        ("length", StopReason.LENGTH),
        ("tool_calls", StopReason.TOOL_CALLS),
        ("function_call", StopReason.TOOL_CALLS),
        ("content_filter", StopReason.FILTERED),
        ("novelty", None),
        ("", None),
        (None, None),
    ],
)
def test_finish_is_read(native: str | None, reason: StopReason | None) -> None:
    assert read_finish_reason(native) is reason


@pytest.mark.parametrize(
    ("stop", "finish"),
    [
        (Stop(StopReason.END), "stop"),
        (Stop(StopReason.STOP_SEQUENCE, "stop_sequence", "X"), "stop"),
        (Stop(StopReason.TOOL_CALLS), "tool_calls"),
        (Stop(StopReason.LENGTH), "length"),
        (Stop(StopReason.CONTEXT), "length"),
        (Stop(StopReason.REFUSAL, "stop"), "stop"),
        (Stop(StopReason.FILTERED, "content_filter"), "content_filter"),
        (Stop(StopReason.FILTERED, "refusal"), "stop"),
        (Stop(StopReason.PAUSED, "pause_turn"), "length"),
        (Stop(StopReason.POLICY_CUT), "length"),
    ],
)
def test_finish_is_written(stop: Stop, finish: str) -> None:
    assert write_finish_reason(stop, None, Knobs()) == finish


def test_every_reason_has_a_finish() -> None:
    assert {write_finish_reason(Stop(reason), None, Knobs()) for reason in StopReason} <= {
        "stop",
        "length",
        "tool_calls",
        "content_filter",
    }


def test_messages_refusal_is_a_filter_when_native_or_after_text() -> None:
    stop = Stop(StopReason.FILTERED, "refusal")
    assert write_finish_reason(stop, None, Knobs(refusal_terminal="native")) == "content_filter"
    assert write_finish_reason(stop, None, Knobs(), shown=True) == "content_filter"


@pytest.mark.parametrize(
    ("native", "calls", "refusal", "reason", "code"),
    [
        ("stop", True, False, StopReason.TOOL_CALLS, LossCode.FINISH_FIXED),
        ("stop", False, True, StopReason.REFUSAL, None),
        ("stop", False, False, StopReason.END, None),
        ("tool_calls", False, False, StopReason.END, LossCode.FINISH_FIXED),
        ("length", True, False, StopReason.LENGTH, None),
        ("content_filter", True, False, StopReason.FILTERED, None),
        ("novelty", False, False, StopReason.END, LossCode.STOP_UNKNOWN),
        (None, True, False, StopReason.TOOL_CALLS, LossCode.STOP_UNKNOWN),
    ],
)
def test_content_decides_where_word_and_content_disagree(
    native: str | None, calls: bool, refusal: bool, reason: StopReason, code: LossCode | None
) -> None:
    losses = Losses()
    stop = resolve_stop_reason(native, calls=calls, refusal=refusal, shown=True, losses=losses)
    assert (stop.reason, stop.native) == (reason, native)
    assert [row.code for row in losses.rows] == ([code] if code else [])


def test_neither_word_nor_content_is_no_reply() -> None:
    with pytest.raises(UpstreamProtocolError):
        resolve_stop_reason(None, calls=False, refusal=False, shown=False, losses=Losses())


def test_T31_usage_keeps_cache_inside_the_prompt() -> None:
    wire = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 5, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 7},
    }
    usage = read_usage(wire)
    assert usage == Usage(100, 60, 5, 20, 7)
    assert write_usage(usage) == {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 5},
        "completion_tokens_details": {"reasoning_tokens": 7},
    }


@pytest.mark.parametrize("key", ["cached_tokens", "prompt_cache_hit_tokens"])
def test_T31_what_kimi_and_deepseek_count_as_cached_is_read_from_the_cache(key: str) -> None:
    """Kimi counts it next to the totals (earendil-works/pi#8119, NousResearch/hermes-agent#66105), DeepSeek as hits
    (mozilla-ai/any-llm#816); both within `prompt_tokens`."""
    wire = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120, key: 60}
    assert read_usage(wire) == Usage(100, 60, None, 20, None)
    details = {"cached_tokens": 7}
    assert read_usage({**wire, "prompt_tokens_details": details}) == Usage(100, 7, None, 20, None)
    assert read_usage({**wire, "prompt_tokens_details": {"cached_tokens": None}}) == Usage(100, 60, None, 20, None)
    assert read_usage({**wire, key: -1}) == Usage(100, None, None, 20, None)


def test_unknown_counts_stay_unknown() -> None:
    assert read_usage({"prompt_tokens": 3, "completion_tokens": 4}) == Usage(3, None, None, 4, None)
    assert write_usage(Usage(3, None, None, 4, None)) == {
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "total_tokens": 7,
    }
    assert write_usage(Usage(3, 0, None, 4, 0))["prompt_tokens_details"] == {"cached_tokens": 0}


@pytest.mark.parametrize("given", [100, 3])
@pytest.mark.parametrize("key", ["cache_write_tokens", "cache_creation_tokens"])
def test_litellm_states_what_a_cache_keeps_for_an_hour(key: str, given: int) -> None:
    by_time = {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 30}
    details = {"cached_tokens": 5, key: 40, "cache_creation_token_details": by_time}
    wire = {"prompt_tokens": given, "completion_tokens": 2, "prompt_tokens_details": details}
    # Below its parts, the count of the input leaves them out.
    assert read_usage(wire) == Usage(100 if given == 100 else 48, 5, 40, 2, None, 30)
    without = read_usage({**wire, "prompt_tokens_details": {**details, key: 0}})
    assert without is not None
    assert (without.cache_write, without.cache_write_1h) == (0, None)
    for odd in (None, [1], {"ephemeral_1h_input_tokens": -1}):
        found = read_usage({**wire, "prompt_tokens_details": {**details, "cache_creation_token_details": odd}})
        assert found is not None
        assert (found.cache_write, found.cache_write_1h) == (40, None)


@pytest.mark.parametrize("obj", [None, {}, {"cost": 1}, [], {"prompt_tokens": None}, {"prompt_tokens": "x"}])
def test_no_usage_is_none(obj: Json | None) -> None:
    assert read_usage(obj) is None

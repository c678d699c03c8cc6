"""Group D: usage and cache arithmetic."""

from __future__ import annotations

import pytest

from dragoman import direction
from regressions.wire import (
    CHAT,
    DONE,
    MESSAGES,
    ROLE,
    answer,
    begin,
    block,
    chat_reply,
    chunk,
    delta,
    end,
    events_of,
    stop,
    whole,
)
from support.directions import Json, stream_through, translated
from support.messages_frames import written_full_usage

CACHED = {
    "prompt_tokens": 1000,
    "completion_tokens": 20,
    "total_tokens": 1020,
    "prompt_tokens_details": {"cached_tokens": 900, "cache_write_tokens": 50},
    "completion_tokens_details": {"reasoning_tokens": 5},
}
SPLIT = {
    "input_tokens": 50,
    "output_tokens": 20,
    "cache_read_input_tokens": 900,
    "cache_creation_input_tokens": 50,
}


def test_T30_the_meter_shows_an_estimate_until_the_upstream_reports() -> None:
    """`message_start.usage.input_tokens` is 0: context meter dead, auto-compact off (sgl-project/sglang#20678,
    BerriAI/litellm#41406, router-for-me/CLIProxyAPI#1700, raine/claude-code-proxy#86)."""
    frames = [ROLE, chunk({"content": "Hi"}), chunk({}, "stop"), chunk(None, usage=CACHED), DONE]
    held, out = answer(MESSAGES, CHAT, *frames, messages=[{"role": "user", "content": "word " * 400}])
    first = events_of(out)[0]["message"]["usage"]
    assert 400 < first["input_tokens"] < 1000
    # The final numbers are authoritative.
    assert held.usage is not None
    assert held.usage["input_tokens"] == 50
    assert held.usage["output_tokens"] == 20


def test_T30_without_any_counts_the_meter_still_moves() -> None:
    """A server that never counts must not reset the meter to 0."""
    held, _ = answer(MESSAGES, CHAT, ROLE, chunk({"content": "Hi there, all"}), chunk({}, "stop"), DONE)
    assert held.usage is not None
    assert held.usage["input_tokens"] > 0
    assert held.usage["output_tokens"] > 0


def test_T31_cached_tokens_are_not_counted_twice_towards_messages() -> None:
    """Cached tokens counted twice going to Anthropic (ogx-ai/ogx#6415, diegosouzapw/OmniRoute#12862)."""
    frames = [ROLE, chunk({"content": "Hi"}), chunk({}, "stop"), chunk(None, usage=CACHED), DONE]
    held, _ = answer(MESSAGES, CHAT, *frames)
    expected = written_full_usage(**SPLIT, output_tokens_details={"thinking_tokens": 5})
    assert held.usage == expected
    assert whole(MESSAGES, CHAT, chat_reply(content="Hi", usage=CACHED))["usage"] == expected


def test_T31_the_prompt_includes_the_cache_towards_chat() -> None:
    """Prompt tokens exclude the cache, the total includes it (Portkey-AI/gateway#1754); cached input under-reported
    (future-agi/future-agi#1122)."""
    frames = [begin(**SPLIT), block(0, type="text", text=""), delta(0, "text", "Hi"), stop(0)]
    held, _ = answer(CHAT, MESSAGES, *frames, end("end_turn", output_tokens=20))
    assert held.usage == {
        "prompt_tokens": 1000,
        "completion_tokens": 20,
        "total_tokens": 1020,
        "prompt_tokens_details": {"cached_tokens": 900, "cache_write_tokens": 50},
    }


def test_T31_counts_that_come_twice_overwrite_and_never_add() -> None:
    """The counts of `message_delta` are cumulative."""
    frames = [begin(**SPLIT), block(0, type="text", text=""), delta(0, "text", "Hi"), stop(0)]
    held, _ = answer(CHAT, MESSAGES, *frames, end("end_turn", **SPLIT))
    assert held.usage is not None
    assert held.usage["prompt_tokens"] == 1000
    assert held.usage["completion_tokens"] == 20


@pytest.mark.parametrize("first", [{}, {"cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}])
def test_T31_a_cache_that_is_counted_at_the_end_only_is_not_added(first: Json) -> None:
    """The input of `message_start` includes the cache of `message_delta` (maximhq/bifrost#5354, #5510,
    jeremychone/rust-genai#258). A delta that counts the rest is right by itself."""
    frames = [
        begin(input_tokens=3602, output_tokens=0, **first),
        block(0, type="text", text=""),
        delta(0, "text", "Hi"),
    ]
    for counts in ({"cache_read_input_tokens": 3000}, {"cache_read_input_tokens": 3000, "input_tokens": 602}):
        last = end("end_turn", output_tokens=20, **counts)
        held, _ = answer(CHAT, MESSAGES, *frames, stop(0), last)
        assert held.usage is not None
        assert (held.usage["prompt_tokens"], held.usage["prompt_tokens_details"]["cached_tokens"]) == (3602, 3000)
        forwarded = translated(direction(MESSAGES, MESSAGES))
        stream_through(forwarded, [*frames, stop(0), last])
        usage = forwarded.usage
        assert usage is not None
        assert (usage.input_total, usage.cache_read) == (3602, 3000)


def test_T31_a_cache_larger_than_the_prompt_never_makes_a_negative_count() -> None:
    """Some servers count the cache apart from the prompt: it is added."""
    odd = {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}
    usage = {**odd, "prompt_tokens_details": {"cached_tokens": 900}}
    written = whole(MESSAGES, CHAT, chat_reply(content="Hi", usage=usage))["usage"]
    assert (written["input_tokens"], written["cache_read_input_tokens"]) == (10, 900)


def test_T31_a_negative_count_counts_as_unknown() -> None:
    """A broken counter must not make an impossible answer."""
    usage = {"prompt_tokens": 10, "completion_tokens": -1, "total_tokens": 9}
    written = whole(MESSAGES, CHAT, chat_reply(content="Hi", usage=usage))["usage"]
    assert written == written_full_usage(input_tokens=10)

"""Group D with Responses on either side: usage and cache arithmetic."""

from __future__ import annotations

import json

import pytest

from dragoman import LossCode, direction
from oracles.grammar.responses import check_usage
from regressions.dialect_bodies import RESPONSES, assistant_turn, from_responses, new_directions, replied, to_responses
from regressions.wire import CHAT, MESSAGES, answer, events_of, whole
from support.directions import Json, judge, stream_through, translated
from support.messages_frames import written_full_usage

HI = ("text", "Hi there, all of you")
SPENT: dict[str, Json] = {
    CHAT: {
        "prompt_tokens": 1000,
        "completion_tokens": 20,
        "total_tokens": 1020,
        "prompt_tokens_details": {"cached_tokens": 900, "cache_write_tokens": 50},
        "completion_tokens_details": {"reasoning_tokens": 5},
    },
    MESSAGES: {
        "input_tokens": 50,
        "output_tokens": 20,
        "cache_read_input_tokens": 900,
        "cache_creation_input_tokens": 50,
        "output_tokens_details": {"thinking_tokens": 5},
    },
    RESPONSES: {
        "input_tokens": 1000,
        "input_tokens_details": {"cached_tokens": 900, "cache_write_tokens": 50},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 1020,
    },
}
"""One spending as each dialect counts it: in Messages the cache stands next to the input, elsewhere within."""
WRITTEN = {**SPENT, MESSAGES: written_full_usage(**SPENT[MESSAGES])}
"""That spending as it is written here: in Messages with each key of the API's schema."""


@new_directions
def test_T31_one_spending_is_the_same_in_every_dialect(client: str, upstream: str) -> None:
    """Prompt tokens exclude the cache, the total includes it (Portkey-AI/gateway#1754); cached tokens counted twice
    (ogx-ai/ogx#6415, diegosouzapw/OmniRoute#12862) or under-reported (future-agi/future-agi#1122)."""
    held, _ = answer(client, upstream, *assistant_turn(upstream, HI, usage=SPENT[upstream]))
    assert held.usage == WRITTEN[client]
    assert whole(client, upstream, replied(upstream, HI, usage=SPENT[upstream]))["usage"] == WRITTEN[client]


@from_responses
def test_T31_a_cache_larger_than_the_input_never_makes_a_negative_count(client: str) -> None:
    """Servers that count the cache apart from the input (ogx-ai/ogx#6415)."""
    odd = {**SPENT[RESPONSES], "input_tokens": 10, "total_tokens": 30}
    usage = whole(client, RESPONSES, replied(RESPONSES, HI, usage=odd))["usage"]
    assert all(count >= 0 for count in usage.values() if type(count) is int)


@to_responses
def test_T31_a_total_is_the_sum_of_its_parts(upstream: str) -> None:
    """Whatever the upstream states of it (Portkey-AI/gateway#1754)."""
    odd = {**SPENT[upstream], **({"total_tokens": 7} if upstream == CHAT else {})}
    usage = check_usage(whole(RESPONSES, upstream, replied(upstream, HI, usage=odd))["usage"])
    assert usage["total_tokens"] == 1020


@new_directions
def test_T31_a_negative_count_counts_as_unknown(client: str, upstream: str) -> None:
    """A broken counter must not make an impossible answer (diegosouzapw/OmniRoute#12862)."""
    key = {CHAT: "completion_tokens", MESSAGES: "output_tokens", RESPONSES: "output_tokens"}
    usage = whole(client, upstream, replied(upstream, HI, usage={**SPENT[upstream], key[upstream]: -1}))["usage"]
    assert usage[key[client]] == 0
    if client == RESPONSES:
        assert check_usage(usage)["input_tokens"] == 1000


def test_T30_the_meter_of_a_messages_client_shows_an_estimate_until_a_response_ends() -> None:
    """`message_start.usage.input_tokens` is 0: context meter dead, auto-compact off (sgl-project/sglang#20678,
    BerriAI/litellm#41406, router-for-me/CLIProxyAPI#1700). A Responses upstream reports its counts at the very end."""
    frames = assistant_turn(RESPONSES, HI, usage=SPENT[RESPONSES])
    held, out = answer(MESSAGES, RESPONSES, *frames, messages=[{"role": "user", "content": "word " * 400}])
    assert 400 < events_of(out)[0]["message"]["usage"]["input_tokens"] < 1000
    assert held.usage == WRITTEN[MESSAGES]  # the final numbers are authoritative (raine/claude-code-proxy#86)


@from_responses
def test_T30_a_response_without_counts_does_not_reset_the_meter(client: str) -> None:
    """A server that never counts (raine/claude-code-proxy#86)."""
    events = [json.loads(frame.split(b"data: ")[1]) for frame in assistant_turn(RESPONSES, HI)]
    events[-1]["response"]["usage"] = None
    frames = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events]
    translation = translated(direction(client, RESPONSES))
    held = judge(client, stream_through(translation, frames))
    assert translation.losses.counts == {LossCode.USAGE_ESTIMATED: 1}
    if client == MESSAGES:
        assert held.usage is not None
        assert min(held.usage["input_tokens"], held.usage["output_tokens"]) > 0
    else:
        assert held.usage is None


@pytest.mark.parametrize("surface", ["stream", "whole"])
@to_responses
def test_T30_codex_gets_the_counts_that_drive_its_compaction(upstream: str, surface: str) -> None:
    """With wrong or missing counts it never compacts, or always (BerriAI/litellm#41406)."""
    if surface == "stream":
        _, out = answer(RESPONSES, upstream, *assistant_turn(upstream, HI, usage=SPENT[upstream]))
        usage = events_of(out)[-1]["response"]["usage"]
    else:
        usage = whole(RESPONSES, upstream, replied(upstream, HI, usage=SPENT[upstream]))["usage"]
    assert check_usage(usage)["total_tokens"] == 1020


def test_T30_unknown_counts_are_null_and_never_zero_for_responses_clients() -> None:
    """An upstream that never counts: zeros would report Codex that its context is empty (sgl-project/sglang#20678)."""
    frames = [frame for frame in assistant_turn(CHAT, HI) if b'"usage": {' not in frame]
    held, out = answer(RESPONSES, CHAT, *frames)
    assert held.finish == "completed"
    assert events_of(out)[-1]["response"]["usage"] is None


def test_T30_counts_on_the_finish_chunk_are_found_for_responses_clients() -> None:
    """Several servers put them there (raine/claude-code-proxy#86)."""
    *stated, finish, _, done = assistant_turn(CHAT, HI)
    payload = json.loads(finish.removeprefix(b"data: ")) | {"usage": SPENT[CHAT]}
    held, _ = answer(
        RESPONSES, CHAT, *stated, b"data: " + json.dumps(payload).encode() + b"\n\n", done, profile="compatible"
    )
    assert held.usage == SPENT[RESPONSES]

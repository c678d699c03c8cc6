"""Group C with Responses on either side: the life cycle of a stream."""

from __future__ import annotations

import json

import pytest

from dragoman import LossCode, direction
from dragoman.stages.passthrough import Passthrough
from oracles.grammar import sse
from regressions.dialect_bodies import (
    RESPONSES,
    assistant_turn,
    broken_off,
    every_direction,
    finished,
    from_responses,
    new_directions,
    replied,
    to_responses,
)
from regressions.wire import (
    CHAT,
    DONE,
    MESSAGES,
    answer,
    chunk,
    events_of,
    whole,
)
from support import responses_frames as emitted
from support.directions import error_of, judge, stream_through, translated
from support.responses_samples import numbered

HI = ("text", "Hi there")
CALL = ("call", "call_a", "read", '{"f":"a"}')
LAST = {CHAT: DONE, MESSAGES: b'"message_stop"}\n\n', RESPONSES: b"\n\n"}
FINISH = {CHAT: "stop", MESSAGES: "end_turn", RESPONSES: "completed"}
CUT = {CHAT: "length", MESSAGES: "max_tokens"}


@every_direction
def test_T23_a_cut_stream_is_an_error_to_retry_in_every_direction(client: str, upstream: str) -> None:
    """A cut becomes an error typed as a bad request (router-for-me/CLIProxyAPI#3055), or a long run ends without
    `response.completed` though HTTP 200 (router-for-me/CLIProxyAPI#4760, farion1231/cc-switch#2750)."""
    out = stream_through(translated(direction(client, upstream)), broken_off(upstream))
    error = error_of(client, sse.split(out)[-1])
    assert error is not None
    assert error.get("type", "server_error") in ("api_error", "server_error", "error")
    if client == RESPONSES:
        assert error["code"] == "server_error"  # Codex retries this one
        if upstream != RESPONSES:  # what passes through is kept as far as it was done
            (item,) = events_of(out)[-1]["response"]["output"]
            assert (item["status"], item["content"][0]["text"]) == ("incomplete", "Hi")
    assert "ended" in error["message"]


@from_responses
def test_T24_events_that_no_one_knows_are_passed_over_and_counted(client: str) -> None:
    """`codex.rate_limits` ended the stream early (router-for-me/CLIProxyAPI#3798)."""
    novelty = b'event: codex.rate_limits\ndata: {"type":"codex.rate_limits","plan_type":"x","rate_limits":{}}\n\n'
    unnamed = b'data: {"rate_limits":{}}\n\n'
    frames = assistant_turn(RESPONSES, HI, CALL)
    noisy = [piece for frame in frames for piece in (novelty, frame)]
    translation = translated(direction(client, RESPONSES))
    held = judge(client, stream_through(translation, [unnamed, *noisy]))
    assert (held.text, len(held.calls), held.error) == ("Hi there", 1, None)
    assert translation.losses.counts[LossCode.UNKNOWN_EVENT] == len(frames) + 1


def test_T24_codex_gets_its_own_events_when_passed_through() -> None:
    """Unknown events must pass or be skipped, never end the stream (router-for-me/CLIProxyAPI#3798)."""
    novelty = b'event: codex.rate_limits\ndata: {"type":"codex.rate_limits","plan_type":"x"}\n\n'
    frames = [novelty, *assistant_turn(RESPONSES, HI)[:-1], novelty, *assistant_turn(RESPONSES, HI)[-1:]]
    assert stream_through(translated(direction(RESPONSES, RESPONSES)), frames) == b"".join(frames)


@to_responses
def test_T24_the_other_dialects_unknown_events_never_reach_a_responses_client(upstream: str) -> None:
    """A stranger in the stream breaks typed clients (router-for-me/CLIProxyAPI#3798)."""
    frame = b'event: x\ndata: {"object":"rate_limits","type":"x_limits","plan":"x"}\n\n'
    frames = [piece for stated in assistant_turn(upstream, HI) for piece in (frame, stated)]
    held, out = answer(RESPONSES, upstream, *frames)
    assert (held.text, held.finish) == ("Hi there", "completed")
    assert b"limits" not in out


@from_responses
def test_T24_items_and_parts_of_unknown_kinds_end_nothing(client: str) -> None:
    """Likewise one level deeper (router-for-me/CLIProxyAPI#3798)."""
    strange = {"type": "dream_call", "id": "dc_1", "status": "completed"}
    frames = [
        emitted.created(),
        emitted.added(0, **strange),
        emitted.at(0, "dream_call.delta", delta="z"),
        emitted.done(0, **strange),
    ]
    frames += [*emitted.opens(1), *emitted.writes(1, "Hi"), *emitted.closes(1, "Hi")]
    vision = {"type": "vision", "seen": "z"}
    odd = emitted.message(vision) | {"id": "msg_odd"}
    frames += [emitted.added(2, **odd | {"content": [], "status": "in_progress"})]
    frames += [emitted.at(2, f"content_part.{what}", part=vision) for what in ("added", "done")] + [
        emitted.done(2, **odd)
    ]
    last = emitted.ended(strange, emitted.message(emitted.text_part("Hi")), odd)
    held, _ = answer(client, RESPONSES, *numbered(*frames, last))
    assert (held.text, held.finish) == ("Hi", FINISH[client])


def alias(status: str) -> list[bytes]:
    """A stream that ends in the alias `response.done`."""
    *stated, last = [json.loads(frame.split(b"data: ")[1]) for frame in assistant_turn(RESPONSES, HI)]
    last["type"] = "response.done"
    last["response"] |= {"status": status}
    if status == "incomplete":
        last["response"]["incomplete_details"] = {"reason": "max_output_tokens"}
    return numbered(*stated, last)


@from_responses
@pytest.mark.parametrize("status", ["completed", "incomplete"])
def test_T25_response_done_is_an_end_as_good_as_any(client: str, status: str) -> None:
    """The collector misses the alias `response.done` and drops a finished answer as 408
    (jlcodes99/cockpit-tools#2328)."""
    machine = translated(direction(client, RESPONSES)).stream_machine()
    out = b"".join(machine.feed(frame) for frame in alias(status))
    assert machine.done
    held = judge(client, out)
    assert (held.text, held.error) == ("Hi there", None)
    assert held.finish == (FINISH[client] if status == "completed" else CUT[client])
    assert held.usage is not None


@pytest.mark.parametrize("status", ["completed", "incomplete"])
def test_T25_the_alias_passes_through_and_is_the_end(status: str) -> None:
    """Likewise where nothing is translated: the counts are taken and nothing is waited for
    (jlcodes99/cockpit-tools#2328)."""
    stage = translated(direction(RESPONSES, RESPONSES)).stages()
    assert isinstance(stage, Passthrough)
    frames = alias(status)
    assert b"".join(stage.feed(frame) for frame in frames) == b"".join(frames)
    assert stage.done
    assert stage.finish() == b""
    assert stage.observer.complete
    assert stage.observer.usage is not None


@every_direction
def test_T26_the_body_ends_with_the_terminal_event_in_every_direction(client: str, upstream: str) -> None:
    """The client waits for the socket to close, tools start 76 s late (earendil-works/pi#5592)."""
    machine = translated(direction(client, upstream)).stream_machine()
    frames = assistant_turn(upstream, HI, CALL)
    out = b"".join(machine.feed(frame) for frame in frames)
    assert machine.done  # the driver stops reading the upstream here, whatever its connection does
    assert out.endswith(LAST[client])
    if client == RESPONSES:
        assert events_of(out)[-1]["type"] == "response.completed"
    assert not machine.feed(frames[1])
    assert not machine.finish()


@from_responses
def test_T27_every_clean_stream_has_a_finish_reason(client: str) -> None:
    """No `finish_reason` chunk: strict clients retry for ever (anomalyco/opencode#43882, anomalyco/opencode#43379),
    even where the upstream's last event has no status that is known."""
    for status in ("completed", None, "done"):
        last = emitted.ended(emitted.message(emitted.text_part("Hi there")))
        last["response"]["status"] = status
        held, _ = answer(client, RESPONSES, *assistant_turn(RESPONSES, HI)[:-1], *numbered(last))
        assert held.finish == FINISH[client]


@new_directions
def test_T27_nothing_follows_the_end(client: str, upstream: str) -> None:
    """Content after the finish reason makes the client throw (anomalyco/opencode#43040)."""
    frames = assistant_turn(upstream, HI)
    out = stream_through(translated(direction(client, upstream)), [*frames, *frames])
    held = judge(client, out)
    assert (held.text, held.error) == ("Hi there", None)


def test_T27_late_content_stands_before_the_end_of_a_response() -> None:
    """Chat servers that go on after their `finish_reason` (anomalyco/opencode#43040)."""
    *stated, finish, usage, done = assistant_turn(CHAT, HI)
    held, out = answer(RESPONSES, CHAT, *stated, finish, chunk({"content": "!"}), usage, done)
    assert (held.text, held.finish) == ("Hi there!", "completed")
    assert events_of(out)[-1]["type"] == "response.completed"


def test_T28_an_empty_finish_reason_is_none_for_responses_clients() -> None:
    """`finish_reason: ""` instead of null breaks typed parsers (sgl-project/sglang#3912)."""
    held, _ = answer(RESPONSES, CHAT, chunk({"role": "assistant"}, ""), chunk({"content": "Hi"}, ""), *finished(CHAT))
    assert (held.text, held.finish) == ("Hi", "completed")


@from_responses
@pytest.mark.parametrize("odd", ["", None])
def test_T28_no_empty_reason_is_written_for_a_responses_upstream(client: str, odd: str | None) -> None:
    """Likewise for statuses that are empty or absent, streamed and whole (sgl-project/sglang#3912)."""
    reply = replied(RESPONSES, HI) | {"status": odd, "incomplete_details": {"reason": odd}}
    got = whole(client, RESPONSES, reply)
    reason = got["choices"][0]["finish_reason"] if client == CHAT else got["stop_reason"]
    assert reason == FINISH[client]
    _, out = answer(client, RESPONSES, *assistant_turn(RESPONSES, HI))
    assert b'"finish_reason":""' not in out
    assert b'"stop_reason":""' not in out


@to_responses
def test_T28_a_snapshot_has_nulls_where_there_is_nothing(upstream: str) -> None:
    """Typed parsers want null and not an empty string or a missing key (sgl-project/sglang#3912)."""
    _, out = answer(RESPONSES, upstream, *assistant_turn(upstream, HI))
    first, last = (events_of(out)[at]["response"] for at in (0, -1))
    for snapshot in (first, last, whole(RESPONSES, upstream, replied(upstream, HI))):
        assert (snapshot["error"], snapshot["incomplete_details"]) == (None, None)
    assert (first["status"], last["status"], first["usage"]) == ("in_progress", "completed", None)

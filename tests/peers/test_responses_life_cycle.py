"""Group C with Responses on either side: the life cycle of a stream."""

from __future__ import annotations

import json

import pytest

from dragoman import Code, DragomanError, direction
from dragoman.passthrough import Passthrough
from grammar import sse
from peers.spoken import (
    RESPONSES,
    begins,
    conversation,
    every_direction,
    finished,
    from_responses,
    new_directions,
    offered,
    replied,
    says,
    spoken,
    starts,
    to_responses,
)
from peers.wire import (
    CHAT,
    DONE,
    MESSAGES,
    ROLE,
    answer,
    begin,
    calls,
    chunk,
    delta,
    end,
    event,
    events_of,
    send,
    start_call,
    stop,
    tool,
    whole,
)
from support import responses_frames as told
from support.directions import Json, error_of, judge, stream_through, translated
from support.responses_samples import numbered

HI = ("text", "Hi there")
CALL = ("call", "call_a", "read", '{"f":"a"}')
LAST = {CHAT: DONE, MESSAGES: b'"message_stop"}\n\n', RESPONSES: b"\n\n"}
FINISH = {CHAT: "stop", MESSAGES: "end_turn", RESPONSES: "completed"}
CUT = {CHAT: "length", MESSAGES: "max_tokens"}
BROKEN: dict[str, list[bytes]] = {
    CHAT: [b'data: {"error":{"message":"overloaded","type":"server_error","code":"server_is_overloaded"}}\n\n'],
    MESSAGES: [event("error", error={"type": "overloaded_error", "message": "overloaded"})],
    RESPONSES: numbered(
        {
            "type": "response.failed",
            "response": told.response("failed", error={"code": "server_is_overloaded", "message": "overloaded"}),
        }
    ),
}


def cut(upstream: str) -> list[bytes]:
    """A stream that stops in the middle of a text."""
    return [*begins(upstream), *starts(upstream, 0, [HI]), *says(upstream, 0, [HI], "Hi")]


@to_responses
def test_T20_completed_always_comes(upstream: str) -> None:
    """The client waits for an end that never comes (tombii/better-ccflare#307, apache/apisix#13583): also a reply of
    nothing at all is completed."""
    held, out = answer(RESPONSES, upstream, *begins(upstream), *finished(upstream))
    assert (held.finish, held.blocks) == ("completed", [])
    assert sse.split(out)[-1].event == "response.completed"
    held, out = answer(RESPONSES, upstream)
    assert held.error is not None
    assert sse.split(out)[-1].event == "response.failed"


def test_T20_a_stop_reason_alone_completes_nothing() -> None:
    """`stop_reason` came, `message_stop` never (tombii/better-ccflare#307)."""
    frames = [begin(), *starts(MESSAGES, 0, [HI]), stop(0), end("end_turn").split(b"event: message_stop")[0]]
    held, out = answer(RESPONSES, MESSAGES, *frames)
    assert held.error is not None
    assert b"response.completed" not in out


@from_responses
def test_T20_items_that_are_all_done_complete_nothing(client: str) -> None:
    """The same of a Responses upstream: every item came whole, its terminal event never did
    (tombii/better-ccflare#307)."""
    held, _ = answer(client, RESPONSES, *spoken(RESPONSES, HI, CALL)[:-1])
    assert held.error is not None
    assert held.finish is None


@to_responses
def test_T21_the_choice_of_a_compaction_is_not_sent_without_tools(upstream: str) -> None:
    """`tool_choice` sent without tools is refused (apache/apisix#13583); Codex compacts with `tools: []` and
    `tool_choice: "auto"`."""
    body, _ = send(RESPONSES, upstream, tools=[], tool_choice="auto", parallel_tool_calls=True)
    assert not {"tool_choice", "tools", "parallel_tool_calls"} & body.keys()


def test_T21_no_choice_goes_to_a_responses_upstream_without_tools() -> None:
    """The same of the other clients (apache/apisix#13583)."""
    for client, choice in ((CHAT, "auto"), (MESSAGES, {"type": "auto"})):
        body, _ = send(client, RESPONSES, tools=[], tool_choice=choice)
        assert not {"tool_choice", "tools"} & body.keys()


@new_directions
def test_T22_an_error_in_mid_stream_is_the_last_word(client: str, upstream: str) -> None:
    """An upstream error ends as a success with empty content (BerriAI/litellm#20347), or in a shape that clients do
    not parse (BerriAI/litellm#41826)."""
    held, out = answer(client, upstream, *cut(upstream), *BROKEN[upstream])
    assert held.error is not None
    assert "overloaded" in held.error["message"]
    assert held.error.get("code", "server_is_overloaded") == "server_is_overloaded"
    assert held.error.get("type", "overloaded_error") in ("overloaded_error", "service_unavailable_error")
    for mark in (b"response.completed", b"response.output_item.done", b"message_stop", b"content_block_stop", DONE):
        assert mark not in out
    assert error_of(client, sse.split(out)[-1])


@from_responses
@pytest.mark.parametrize("form", ["nested", "flat", "failed", "done"])
def test_T22_every_form_of_an_error_is_one(client: str, form: str) -> None:
    """Errors that a gateway did not know for errors (BerriAI/litellm#20347)."""
    error = {"code": "server_is_overloaded", "message": "overloaded"}
    last = {
        "nested": {"type": "error", "error": {"type": "server_error", "param": None, **error}},
        "flat": {"type": "error", "param": None, **error},
        "failed": {"type": "response.failed", "response": told.response("failed", error=error)},
        "done": {"type": "response.done", "response": told.response("failed", error=error)},
    }[form]
    held, _ = answer(client, RESPONSES, *cut(RESPONSES), *numbered(last))
    assert held.error is not None
    assert "overloaded" in held.error["message"]
    if form != "nested":
        with pytest.raises(DragomanError, match="overloaded"):
            whole(client, RESPONSES, last.get("response", {"error": error}))


@to_responses
def test_T22_truncated_answers_do_not_reach_codex_as_clean_ones(upstream: str) -> None:
    """Truncated answers reach Codex as clean 200s (ollama/ollama#18332)."""
    last = chunk({}, "length") + DONE if upstream == CHAT else stop(0) + end("max_tokens")
    held, _ = answer(RESPONSES, upstream, *cut(upstream), last)
    assert held.finish == "incomplete/max_output_tokens"
    if upstream == CHAT:
        reply = replied(CHAT, HI)
        reply["choices"][0]["finish_reason"] = "length"
    else:
        reply = {**replied(MESSAGES, HI), "stop_reason": "max_tokens"}
    got = whole(RESPONSES, upstream, reply)
    assert (got["status"], got["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})


@from_responses
def test_T22_incomplete_is_a_cut_for_the_other_clients(client: str) -> None:
    """The same of a Responses upstream (ollama/ollama#18332)."""
    message = told.message(told.text_part("Hi"), status="incomplete")
    held, _ = answer(client, RESPONSES, *cut(RESPONSES), *numbered(told.cut("max_output_tokens", message)))
    assert held.finish == CUT[client]


@to_responses
@pytest.mark.parametrize("reason", ["cut", "length", "calls"])
def test_T22_a_call_that_was_cut_is_never_told_as_done(upstream: str, reason: str) -> None:
    """Codex runs every call whose item is done, even if the stream then breaks (ollama/ollama#18332)."""
    frames = [ROLE, calls(start_call(0, "call_a", "read", '{"f":"a'))]
    last = {"cut": b"", "length": chunk({}, "length") + DONE, "calls": chunk({}, "tool_calls") + DONE}[reason]
    if upstream == MESSAGES:
        frames = [begin(), tool(0, "call_a", "read"), delta(0, "input_json", '{"f":"a')]
        last = {"cut": b"", "length": stop(0) + end("max_tokens"), "calls": stop(0) + end("tool_use")}[reason]
    held, out = answer(RESPONSES, upstream, *frames, last)
    assert (held.error is None) == (reason == "length")
    done = [p["item"] for p in events_of(out) if p["type"] == "response.output_item.done"]
    assert [item["status"] for item in done if item["type"] == "function_call"] in ([], ["incomplete"])
    assert b"response.function_call_arguments.done" not in out


@every_direction
def test_T23_a_cut_stream_is_an_error_to_retry_in_every_direction(client: str, upstream: str) -> None:
    """A cut becomes an error typed as a bad request (router-for-me/CLIProxyAPI#3055), or a long run ends without
    `response.completed` though HTTP 200 (router-for-me/CLIProxyAPI#4760, farion1231/cc-switch#2750)."""
    out = stream_through(translated(direction(client, upstream)), cut(upstream))
    error = error_of(client, sse.split(out)[-1])
    assert error is not None
    assert error.get("type", "server_error") in ("api_error", "server_error", "error")
    if client == RESPONSES:
        assert error["code"] == "server_error"  # Codex retries this one
    assert "ended" in error["message"]


@from_responses
def test_T24_events_that_nobody_knows_are_passed_over_and_counted(client: str) -> None:
    """`codex.rate_limits` ended the stream early (router-for-me/CLIProxyAPI#3798)."""
    novelty = b'event: codex.rate_limits\ndata: {"type":"codex.rate_limits","plan_type":"x","rate_limits":{}}\n\n'
    unnamed = b'data: {"rate_limits":{}}\n\n'
    frames = spoken(RESPONSES, HI, CALL)
    noisy = [piece for frame in frames for piece in (novelty, frame)]
    translation = translated(direction(client, RESPONSES))
    held = judge(client, stream_through(translation, [unnamed, *noisy]))
    assert (held.text, len(held.calls), held.error) == ("Hi there", 1, None)
    assert translation.losses.counts[Code.UNKNOWN_EVENT] == len(frames) + 1


def test_T24_codex_gets_its_own_events_when_passed_through() -> None:
    """Unknown events must pass or be skipped, never end the stream (router-for-me/CLIProxyAPI#3798)."""
    novelty = b'event: codex.rate_limits\ndata: {"type":"codex.rate_limits","plan_type":"x"}\n\n'
    frames = [novelty, *spoken(RESPONSES, HI)[:-1], novelty, *spoken(RESPONSES, HI)[-1:]]
    assert stream_through(translated(direction(RESPONSES, RESPONSES)), frames) == b"".join(frames)


@to_responses
def test_T24_the_other_dialects_unknown_events_never_reach_a_responses_client(upstream: str) -> None:
    """A stranger in the stream breaks typed clients (router-for-me/CLIProxyAPI#3798)."""
    frame = b'event: x\ndata: {"object":"rate_limits","type":"x_limits","plan":"x"}\n\n'
    frames = [piece for said in spoken(upstream, HI) for piece in (frame, said)]
    held, out = answer(RESPONSES, upstream, *frames)
    assert (held.text, held.finish) == ("Hi there", "completed")
    assert b"limits" not in out


@from_responses
def test_T24_items_and_parts_of_unknown_kinds_end_nothing(client: str) -> None:
    """The same one level deeper (router-for-me/CLIProxyAPI#3798)."""
    strange = {"type": "dream_call", "id": "dc_1", "status": "completed"}
    frames = [
        told.created(),
        told.added(0, **strange),
        told.at(0, "dream_call.delta", delta="z"),
        told.done(0, **strange),
    ]
    frames += [*told.opens(1), *told.says(1, "Hi"), *told.closes(1, "Hi")]
    held, _ = answer(client, RESPONSES, *numbered(*frames, told.ended(strange, told.message(told.text_part("Hi")))))
    assert (held.text, held.finish) == ("Hi", FINISH[client])


def alias(status: str) -> list[bytes]:
    """A stream that ends in the alias `response.done`."""
    *said, last = [json.loads(frame.split(b"data: ")[1]) for frame in spoken(RESPONSES, HI)]
    last["type"] = "response.done"
    last["response"] |= {"status": status}
    if status == "incomplete":
        last["response"]["incomplete_details"] = {"reason": "max_output_tokens"}
    return numbered(*said, last)


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
    """The same where nothing is translated: the counts are taken and nothing is waited for
    (jlcodes99/cockpit-tools#2328)."""
    (stage,) = translated(direction(RESPONSES, RESPONSES)).stages()
    frames = alias(status)
    assert b"".join(stage.feed(frame) for frame in frames) == b"".join(frames)
    assert stage.done
    assert stage.finish() == b""
    assert isinstance(stage, Passthrough)
    assert stage.observer.complete
    assert stage.observer.usage is not None


@every_direction
def test_T26_the_body_ends_with_the_terminal_event_in_every_direction(client: str, upstream: str) -> None:
    """The client waits for the socket to close, tools start 76 s late (earendil-works/pi#5592)."""
    machine = translated(direction(client, upstream)).stream_machine()
    frames = spoken(upstream, HI, CALL)
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
        last = told.ended(told.message(told.text_part("Hi there")))
        last["response"]["status"] = status
        held, _ = answer(client, RESPONSES, *spoken(RESPONSES, HI)[:-1], *numbered(last))
        assert held.finish == FINISH[client]


@new_directions
def test_T27_nothing_follows_the_end(client: str, upstream: str) -> None:
    """Content after the finish reason makes the client throw (anomalyco/opencode#43040)."""
    frames = spoken(upstream, HI)
    out = stream_through(translated(direction(client, upstream)), [*frames, *frames])
    held = judge(client, out)
    assert (held.text, held.error) == ("Hi there", None)


def test_T27_late_content_stands_before_the_end_of_a_response() -> None:
    """Chat servers that go on after their `finish_reason` (anomalyco/opencode#43040)."""
    *said, finish, usage, done = spoken(CHAT, HI)
    held, out = answer(RESPONSES, CHAT, *said, finish, chunk({"content": "!"}), usage, done)
    assert (held.text, held.finish) == ("Hi there!", "completed")
    assert events_of(out)[-1]["type"] == "response.completed"


def test_T28_an_empty_finish_reason_is_none_for_responses_clients() -> None:
    """`finish_reason: ""` instead of null breaks typed parsers (sgl-project/sglang#3912)."""
    held, _ = answer(RESPONSES, CHAT, chunk({"role": "assistant"}, ""), chunk({"content": "Hi"}, ""), *finished(CHAT))
    assert (held.text, held.finish) == ("Hi", "completed")


@from_responses
@pytest.mark.parametrize("odd", ["", None])
def test_T28_no_empty_reason_is_written_for_a_responses_upstream(client: str, odd: str | None) -> None:
    """The same of statuses that are empty or absent, streamed and whole (sgl-project/sglang#3912)."""
    reply = replied(RESPONSES, HI) | {"status": odd, "incomplete_details": {"reason": odd}}
    got = whole(client, RESPONSES, reply)
    reason = got["choices"][0]["finish_reason"] if client == CHAT else got["stop_reason"]
    assert reason == FINISH[client]
    _, out = answer(client, RESPONSES, *spoken(RESPONSES, HI))
    assert b'"finish_reason":""' not in out
    assert b'"stop_reason":""' not in out


@to_responses
def test_T28_a_snapshot_has_nulls_where_there_is_nothing(upstream: str) -> None:
    """Typed parsers want null and not an empty string or a missing key (sgl-project/sglang#3912)."""
    _, out = answer(RESPONSES, upstream, *spoken(upstream, HI))
    first, last = (events_of(out)[at]["response"] for at in (0, -1))
    for snapshot in (first, last, whole(RESPONSES, upstream, replied(upstream, HI))):
        assert (snapshot["error"], snapshot["incomplete_details"]) == (None, None)
    assert (first["status"], last["status"], first["usage"]) == ("in_progress", "completed", None)

"""Group C with Responses on either side: what is an end and what is not."""

from __future__ import annotations

import pytest

from dragoman import DragomanError
from oracles.grammar import sse
from regressions.dialect_bodies import (
    RESPONSES,
    assistant_turn,
    begins,
    broken_off,
    finished,
    from_responses,
    new_directions,
    replied,
    starts,
    to_responses,
)
from regressions.wire import (
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
from support import responses_frames as emitted
from support.directions import Json, error_of
from support.responses_samples import numbered

HI = ("text", "Hi there")
CALL = ("call", "call_a", "read", '{"f":"a"}')
CUT = {CHAT: "length", MESSAGES: "max_tokens"}
BROKEN: dict[str, list[bytes]] = {
    CHAT: [b'data: {"error":{"message":"overloaded","type":"server_error","code":"server_is_overloaded"}}\n\n'],
    MESSAGES: [event("error", error={"type": "overloaded_error", "message": "overloaded"})],
    RESPONSES: numbered(
        {
            "type": "response.failed",
            "response": emitted.response("failed", error={"code": "server_is_overloaded", "message": "overloaded"}),
        }
    ),
}


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
    """Likewise for a Responses upstream: every item came whole, its terminal event never did
    (tombii/better-ccflare#307)."""
    held, _ = answer(client, RESPONSES, *assistant_turn(RESPONSES, HI, CALL)[:-1])
    assert held.error is not None
    assert held.finish is None


@to_responses
def test_T21_the_choice_of_a_compaction_is_not_sent_without_tools(upstream: str) -> None:
    """`tool_choice` sent without tools is refused (apache/apisix#13583); Codex compacts with `tools: []` and
    `tool_choice: "auto"`."""
    body, _ = send(RESPONSES, upstream, tools=[], tool_choice="auto", parallel_tool_calls=True)
    assert not {"tool_choice", "tools", "parallel_tool_calls"} & body.keys()


def test_T21_no_choice_goes_to_a_responses_upstream_without_tools() -> None:
    """Likewise for the other clients (apache/apisix#13583)."""
    for client, choice in ((CHAT, "auto"), (MESSAGES, {"type": "auto"})):
        body, _ = send(client, RESPONSES, tools=[], tool_choice=choice)
        assert not {"tool_choice", "tools"} & body.keys()
    hosted = {"type": "web_search_20250305", "name": "web_search"}
    body, _ = send(MESSAGES, RESPONSES, tools=[hosted], tool_choice={"type": "auto"})
    assert not {"tool_choice", "tools"} & body.keys()


@new_directions
def test_T22_an_error_in_mid_stream_is_the_last_word(client: str, upstream: str) -> None:
    """An upstream error ends as a success with empty content (BerriAI/litellm#20347), or in a shape that clients do
    not parse (BerriAI/litellm#41826)."""
    held, out = answer(client, upstream, *broken_off(upstream), *BROKEN[upstream])
    assert held.error is not None
    assert "overloaded" in held.error["message"]
    assert held.error.get("code") in (None, "server_error" if client == RESPONSES else "server_is_overloaded")
    assert held.error.get("type", "overloaded_error") in ("overloaded_error", "service_unavailable_error")
    for mark in (b"response.completed", b"response.output_item.done", b"message_stop", b"content_block_stop", DONE):
        assert mark not in out
    assert error_of(client, sse.split(out)[-1])


@from_responses
@pytest.mark.parametrize("form", ["nested", "flat", "failed", "done", "cancelled"])
def test_T22_every_form_of_an_error_is_one(client: str, form: str) -> None:
    """Errors that a gateway did not know for errors (BerriAI/litellm#20347)."""
    error = {"code": "server_is_overloaded", "message": "overloaded"}
    forms: dict[str, Json] = {
        "nested": {"type": "error", "error": {"type": "server_error", "param": None, **error}},
        "flat": {"type": "error", "param": None, **error},
        "failed": {"type": "response.failed", "response": emitted.response("failed", error=error)},
        "done": {"type": "response.done", "response": emitted.response("failed", error=error)},
        "cancelled": {"type": "response.cancelled", "response": emitted.response("cancelled")},
    }
    last = forms[form]
    words = "cancelled" if form == "cancelled" else "overloaded"
    held, _ = answer(client, RESPONSES, *broken_off(RESPONSES), *numbered(last))
    assert held.error is not None
    assert words in held.error["message"]
    if form != "nested":
        with pytest.raises(DragomanError, match=words):
            whole(client, RESPONSES, last.get("response", {"error": error}))


@pytest.mark.parametrize(
    ("upstream", "word", "reason"),
    [
        (CHAT, "length", "max_output_tokens"),
        (CHAT, "content_filter", "content_filter"),
        (MESSAGES, "max_tokens", "max_output_tokens"),
        (MESSAGES, "model_context_window_exceeded", "max_output_tokens"),
        (MESSAGES, "refusal", "content_filter"),
    ],
)
def test_T22_truncated_answers_do_not_reach_codex_as_clean_ones(upstream: str, word: str, reason: str) -> None:
    """Truncated answers reach Codex as clean 200s (ollama/ollama#18332)."""
    last = chunk({}, word) + DONE if upstream == CHAT else stop(0) + end(word)
    held, _ = answer(RESPONSES, upstream, *broken_off(upstream), last)
    assert held.finish == f"incomplete/{reason}"
    if upstream == CHAT:
        reply = replied(CHAT, HI)
        reply["choices"][0]["finish_reason"] = word
    else:
        reply = {**replied(MESSAGES, HI), "stop_reason": word}
    got = whole(RESPONSES, upstream, reply)
    assert (got["status"], got["incomplete_details"]) == ("incomplete", {"reason": reason})


@from_responses
def test_T22_incomplete_is_a_cut_for_the_other_clients(client: str) -> None:
    """Likewise for a Responses upstream (ollama/ollama#18332)."""
    message = emitted.message(emitted.text_part("Hi"), status="incomplete")
    held, _ = answer(client, RESPONSES, *broken_off(RESPONSES), *numbered(emitted.cut("max_output_tokens", message)))
    assert held.finish == CUT[client]


@to_responses
@pytest.mark.parametrize("reason", ["cut", "length", "calls"])
def test_T22_a_call_that_was_cut_is_never_reported_as_done(upstream: str, reason: str) -> None:
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

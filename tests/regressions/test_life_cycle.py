"""Group C: the life cycle of a stream."""

from __future__ import annotations

import pytest

from dragoman import LossCode, Translation, direction
from oracles.grammar import sse
from regressions.wire import (
    CHAT,
    DONE,
    MESSAGES,
    ROLE,
    USAGE,
    answer,
    begin,
    block,
    calls,
    chat_reply,
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
from support.directions import error_of, stream_through, translated

every_direction = pytest.mark.parametrize(
    ("client", "upstream"), [(CHAT, MESSAGES), (MESSAGES, CHAT), (CHAT, CHAT), (MESSAGES, MESSAGES)]
)

TEXT = [begin(), block(0, type="text", text=""), delta(0, "text", "Hi")]
WHOLE_CHAT = [ROLE, chunk({"content": "Hi"}), chunk({}, "stop"), chunk(None, usage=USAGE), DONE]


def test_T20_a_stop_reason_without_message_stop_never_leaves_the_client_waiting() -> None:
    """`stop_reason` came, `message_stop` never: the client waits 300 s (tombii/better-ccflare#307)."""
    cut = end("end_turn").split(b"event: message_stop")[0]
    held, _ = answer(CHAT, MESSAGES, *TEXT, stop(0), cut)
    assert held.error is not None
    translation = translated(direction(MESSAGES, MESSAGES))
    out = stream_through(translation, [*TEXT, stop(0), cut])
    assert error_of(MESSAGES, sse.split(out)[-1])


def test_T20_done_before_any_block_still_ends_the_message() -> None:
    """`[DONE]` before any block: no `message_stop`, the client hangs (apache/apisix#13583)."""
    held, out = answer(MESSAGES, CHAT, ROLE, chunk({}, "stop"), DONE)
    assert held.error is None
    assert held.finish == "end_turn"
    assert out.endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')
    machine = translated(direction(MESSAGES, CHAT)).stream_machine()
    machine.feed(ROLE + chunk({}, "stop") + DONE)
    assert machine.done  # whatever becomes of the connection
    held, _ = answer(MESSAGES, CHAT, DONE)
    assert held.error is not None


def test_T21_a_tool_choice_without_tools_is_not_sent() -> None:
    """`tool_choice` sent without tools is refused by the upstream (apache/apisix#13583)."""
    body, _ = send(MESSAGES, CHAT, tool_choice={"type": "auto"})
    assert "tool_choice" not in body
    body, _ = send(CHAT, MESSAGES, tool_choice="auto", tools=[])
    assert "tool_choice" not in body
    assert "tools" not in body


def test_T22_an_error_in_mid_stream_is_never_a_success() -> None:
    """An upstream error ends as a success with empty content (BerriAI/litellm#20347)."""
    broken = b'data: {"error":{"message":"overloaded","type":"server_error","code":"server_is_overloaded"}}\n\n'
    held, out = answer(MESSAGES, CHAT, ROLE, chunk({"content": "Hi"}), broken)
    assert held.error is not None
    assert held.error["type"] == "overloaded_error"
    assert b"message_stop" not in out
    assert b"message_delta" not in out


@pytest.mark.parametrize("finish", [None, "stop", "error"])
def test_T22_an_error_beside_a_choice_is_one(finish: str | None) -> None:
    """Routers put it into a chunk like any other (BerriAI/litellm#20347), with whichever reason."""
    broken = chunk({"content": ""}, finish, error={"code": 502, "message": "overloaded"})
    held, out = answer(MESSAGES, CHAT, ROLE, chunk({"content": "Hi"}), broken, chunk(None, usage=USAGE), DONE)
    assert held.error is not None
    assert "overloaded" in held.error["message"]
    assert b"message_stop" not in out


def test_T22_the_error_frame_has_the_shape_that_clients_parse() -> None:
    """An error frame not in the shape Anthropic clients parse (BerriAI/litellm#41826)."""
    _, out = answer(MESSAGES, CHAT, ROLE, b'data: {"error":{"message":"bad luck","type":"server_error"}}\n\n')
    last = sse.split(out)[-1]
    assert last.event == "error"
    (payload,) = events_of(out)[-1:]
    assert payload["type"] == "error"
    assert payload["error"]["type"] == "api_error"
    assert "bad luck" in payload["error"]["message"]
    error = event("error", error={"type": "overloaded_error", "message": "busy"})
    held, out = answer(CHAT, MESSAGES, *TEXT, error)
    assert held.error is not None
    assert DONE not in out


def test_T22_a_truncated_answer_is_not_a_clean_one() -> None:
    """Truncated answers reach the client as clean 200s (ollama/ollama#18332)."""
    held, _ = answer(MESSAGES, CHAT, ROLE, chunk({"content": "Hi"}))
    assert held.error is not None
    fragment = calls(start_call(0, "call_a", "read", '{"f":"a'))
    held, out = answer(MESSAGES, CHAT, ROLE, fragment, chunk({}, "tool_calls"), DONE)
    assert held.error is not None
    assert b"content_block_stop" not in out
    frames = [begin(), tool(0, "t", "read"), delta(0, "input_json", '{"f":"a'), stop(0), end("tool_use")]
    held, _ = answer(CHAT, MESSAGES, *frames)
    assert held.error is not None
    assert held.finish is None


@every_direction
def test_T23_a_cut_stream_is_an_error_that_clients_retry(client: str, upstream: str) -> None:
    """A stream cut after partial text becomes an error typed as a bad request (router-for-me/CLIProxyAPI#3055), or
    no error at all (router-for-me/CLIProxyAPI#4760, farion1231/cc-switch#2750)."""
    frames = TEXT if upstream == MESSAGES else WHOLE_CHAT[:2]
    out = stream_through(translated(direction(client, upstream)), frames)
    error = error_of(client, sse.split(out)[-1])
    assert error is not None
    assert error["type"] in ("api_error", "server_error")


def test_T24_unknown_events_are_passed_over_and_counted() -> None:
    """An unknown event ended the stream early (router-for-me/CLIProxyAPI#3798)."""
    novelty = event("codex.rate_limits", plan="x")
    translation = translated(direction(CHAT, MESSAGES))
    dream = [block(1, type="dream"), event("content_block_delta", index=1, delta={"type": "dream_delta"}), stop(1)]
    out = stream_through(translation, [novelty, *TEXT, novelty, stop(0), *dream, novelty, end("end_turn")])
    assert b'"content":"Hi"' in out
    assert out.endswith(DONE)
    assert translation.losses.counts[LossCode.UNKNOWN_EVENT] == 4
    other = b'event: x\ndata: {"object":"rate_limits","plan":"x"}\n\n'
    held, _ = answer(MESSAGES, CHAT, other, *WHOLE_CHAT[:2], other, *WHOLE_CHAT[2:])
    assert (held.text, held.finish, held.error) == ("Hi", "end_turn", None)


@every_direction
def test_T26_the_body_ends_with_the_terminal_event(client: str, upstream: str) -> None:
    """The client waits for the socket to close, tools start 76 s late (earendil-works/pi#5592)."""
    frames = [*TEXT, stop(0), end("end_turn")] if upstream == MESSAGES else WHOLE_CHAT
    translation: Translation = translated(direction(client, upstream))
    machine = translation.stream_machine()
    out = b"".join(machine.feed(frame) for frame in frames)
    assert machine.done  # the driver stops reading the upstream here, whatever its connection does
    assert out.endswith(DONE if client == CHAT else b'"message_stop"}\n\n')
    assert not machine.feed(frames[1])


def test_T27_every_clean_stream_has_a_finish_reason() -> None:
    """No `finish_reason` chunk: strict clients retry for ever (anomalyco/opencode#43882, anomalyco/opencode#43379)."""
    held, _ = answer(CHAT, MESSAGES, *TEXT, stop(0), end(None))
    assert held.error is not None
    held, _ = answer(MESSAGES, CHAT, ROLE, chunk({"content": "Hi"}), DONE)
    assert held.error is not None


def test_T27_nothing_follows_the_finish_reason_but_usage() -> None:
    """Content after the finish reason makes the client throw (anomalyco/opencode#43040)."""
    late = chunk({"content": " there"})
    held, out = answer(MESSAGES, CHAT, *WHOLE_CHAT[:3], late, *WHOLE_CHAT[3:])
    assert held.error is None
    assert held.text == "Hi there"
    assert [payload["type"] for payload in events_of(out)][-2:] == ["message_delta", "message_stop"]
    reason, mark, last = end("end_turn").partition(b"event: message_stop")
    late_block = [block(1, type="text", text=""), delta(1, "text", " there"), stop(1)]
    held, out = answer(CHAT, MESSAGES, *TEXT, stop(0), reason, *late_block, mark + last)
    assert held.error is not None
    assert b" there" not in out


def test_T28_an_empty_finish_reason_is_none_and_none_is_written() -> None:
    """`finish_reason: ""` instead of null breaks typed parsers (sgl-project/sglang#3912)."""
    stated = [chunk({"role": "assistant"}, ""), chunk({"content": "Hi"}, ""), chunk({"content": " there"}, "")]
    held, _ = answer(MESSAGES, CHAT, *stated, *WHOLE_CHAT[2:])
    assert (held.blocks, held.finish) == ([("text", "Hi there")], "end_turn")
    _, out = answer(CHAT, MESSAGES, *TEXT, stop(0), end("end_turn"))
    reasons = [choice["finish_reason"] for payload in events_of(out) for choice in payload["choices"]]
    assert reasons == [None, None, "stop"]


def test_T28_whole_replies_never_have_an_empty_reason() -> None:
    """Likewise for whole replies."""
    assert whole(MESSAGES, CHAT, chat_reply("", content="Hi"))["stop_reason"] == "end_turn"

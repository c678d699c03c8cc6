"""Group B: thinking, signatures, reasoning."""

from __future__ import annotations

import json

from dragoman import LossCode, direction, translate
from regressions.wire import (
    CHAT,
    DONE,
    MESSAGES,
    ROLE,
    answer,
    begin,
    block,
    calls,
    chat_reply,
    chunk,
    delta,
    end,
    events_of,
    more_call,
    send,
    start_call,
    stop,
    tool,
    whole,
)

SIGNED = {"type": "thinking", "thinking": "Größer  than\n", "signature": "EqQBCkYIBxgCKkD/+==", "novelty": [1.0, 1e3]}
LOOP = [
    {"role": "user", "content": "x"},
    {"role": "assistant", "content": [SIGNED, {"type": "tool_use", "id": "t", "name": "read", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "y"}]},
]


def test_T10_signed_thinking_passes_through_byte_by_byte() -> None:
    """ "Invalid signature in thinking block" on turn two: the block was touched on its way
    (router-for-me/CLIProxyAPI#2172, sifxprime/krouter#11, lbjlaq/Antigravity-Manager#3478)."""
    raw = json.dumps({"max_tokens": 5, "model": "alias", "messages": LOOP}, indent=1).encode()
    row = direction(MESSAGES, MESSAGES)
    assert translate(row, raw).body == raw
    renamed = translate(row, raw, upstream_model="claude-opus-5-5").body
    assert renamed == raw.replace(b'"alias"', b'"claude-opus-5-5"')
    frames = begin(), block(0, type="thinking", thinking="", signature=""), delta(0, "thinking", "Größer")
    stream = b"".join((*frames, delta(0, "signature", "EqQBCkYI/+=="), stop(0), end("end_turn")))
    machine = translate(row, raw).stream_machine()
    assert machine.feed(stream) + machine.finish() == stream


def test_T10_no_signature_is_ever_made_up() -> None:
    """Every thinking block stamped with a constant signature (sifxprime/krouter#11)."""
    held, _ = answer(MESSAGES, CHAT, ROLE, chunk({"reasoning_content": "Hm"}), chunk({}, "stop"), DONE)
    assert held.reasoning == "Hm"
    assert not any(held.signatures)
    (thinking,) = whole(MESSAGES, CHAT, chat_reply(reasoning_content="Hm"))["content"]
    assert thinking == {"type": "thinking", "thinking": "Hm", "signature": ""}


def test_T11_foreign_thinking_is_left_out_when_a_session_changes_its_provider() -> None:
    """The session moves between a real and a compatible provider and gets a 400 (ding113/claude-code-hub#518)."""
    for content in ("y", [{"type": "text", "text": "y"}]):
        history = [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": content, "reasoning_content": "another server's thoughts"},
            {"role": "user", "content": "z"},
        ]
        body, translation = send(CHAT, MESSAGES, messages=history)
        assert "thoughts" not in json.dumps(body)
        assert translation.losses.counts[LossCode.REASONING_UNSIGNED] == 1
    body, translation = send(MESSAGES, CHAT, messages=LOOP)
    assert "EqQB" not in json.dumps(body)
    assert "than" not in json.dumps(body)
    assert translation.losses.counts


def test_T12_a_second_run_of_reasoning_gets_a_block_of_its_own() -> None:
    """ "Content block is not a thinking block" (musistudio/claude-code-router#1725, BerriAI/litellm#32357)."""
    stated = [{"reasoning_content": "one"}, {"content": "A"}, {"reasoning_content": "two"}, {"content": "B"}]
    held, _ = answer(MESSAGES, CHAT, ROLE, *map(chunk, stated), chunk({}, "stop"), DONE)
    assert held.blocks == [("reasoning", "one"), ("text", "A"), ("reasoning", "two"), ("text", "B")]


def test_T12_reasoning_before_calls_does_not_touch_their_arguments() -> None:
    """Reasoning then tool calls corrupt the argument deltas (musistudio/claude-code-router#1397)."""
    frames = [ROLE, chunk({"reasoning_content": "Hm"}), calls(start_call(0, "call_a", "read"))]
    frames += [calls(more_call(0, '{"f":')), chunk({"reasoning_content": "!"}), calls(more_call(0, '"a"}'))]
    held, _ = answer(MESSAGES, CHAT, *frames, chunk({}, "tool_calls"), DONE)
    assert [call.arguments for call in held.calls] == ['{"f":"a"}']
    assert held.reasoning == "Hm!"


def test_T12_thinking_deltas_use_the_field_that_clients_read() -> None:
    """The delta used another field, and the client dropped the whole turn (nielspeter/claude-code-proxy#17)."""
    _, out = answer(MESSAGES, CHAT, ROLE, chunk({"reasoning_content": "Hm"}), chunk({}, "stop"), DONE)
    starts = [payload["content_block"] for payload in events_of(out) if payload["type"] == "content_block_start"]
    deltas = [payload["delta"] for payload in events_of(out) if payload["type"] == "content_block_delta"]
    assert starts == [{"type": "thinking", "thinking": "", "signature": ""}]
    assert deltas == [{"type": "thinking_delta", "thinking": "Hm"}]


def test_T12_reasoning_of_chat_clients_comes_in_the_field_that_they_read() -> None:
    """Likewise for Chat clients (nielspeter/claude-code-proxy#17)."""
    frames = [begin(), block(0, type="thinking", thinking="", signature=""), delta(0, "thinking", "Hm"), stop(0)]
    _, out = answer(CHAT, MESSAGES, *frames, end("end_turn"))
    deltas = [choice["delta"] for payload in events_of(out) for choice in payload["choices"]]
    assert deltas[1:-1] == [{"reasoning_content": "Hm"}]


def test_T13_there_is_one_message_start_however_often_the_role_comes() -> None:
    """A duplicate `message_start`, or one repeated for ever (BerriAI/litellm#33224,
    LuthienResearch/luthien-proxy#59)."""
    frames = [ROLE, ROLE, chunk({"role": "assistant", "content": "A"}), chunk({"role": "assistant", "content": "B"})]
    held, out = answer(MESSAGES, CHAT, *frames, chunk({}, "stop"), DONE)
    assert held.text == "AB"
    assert out.count(b"event: message_start") == 1


def test_T13_a_repeated_message_start_of_the_upstream_ends_the_stream() -> None:
    """The loop of LuthienResearch/luthien-proxy#59 must not go on on our side."""
    held, out = answer(CHAT, MESSAGES, *[begin()] * 5)
    assert held.error is not None
    assert out.count(b'"role":"assistant"') == 1


def test_T14_reasoning_never_leaks_into_the_answer_and_comes_once() -> None:
    """A reasoning summary leaks into the answer, deltas doubled (diegosouzapw/OmniRoute#5786)."""
    twice = {"reasoning_content": "Hm", "reasoning": "Hm", "reasoning_details": [{"type": "t", "text": "Hm"}]}
    held, _ = answer(MESSAGES, CHAT, ROLE, chunk(twice), chunk({"content": "Yes"}), chunk({}, "stop"), DONE)
    assert held.blocks == [("reasoning", "Hm"), ("text", "Yes")]
    frames = [begin(), block(0, type="thinking", thinking="", signature=""), delta(0, "thinking", "Hm"), stop(0)]
    frames += [block(1, type="text", text=""), delta(1, "text", "Yes"), stop(1), end("end_turn")]
    held, _ = answer(CHAT, MESSAGES, *frames)
    assert (held.reasoning, held.text) == ("Hm", "Yes")


def test_T14_reasoning_is_returned_in_whole_replies_too() -> None:
    """The Messages endpoint stopped returning reasoning (ggml-org/llama.cpp#18542)."""
    kinds = [
        part["type"] for part in whole(MESSAGES, CHAT, chat_reply(reasoning_content="Hm", content="Yes"))["content"]
    ]
    assert kinds == ["thinking", "text"]


def test_T15_reasoning_of_tool_turns_goes_back_to_the_server_that_wants_it() -> None:
    """The upstream demands `reasoning_content` back on tool turns; the bridge lost it (anthropics/claude-code#37485,
    lidge-jun/opencodex#994)."""
    replayed = [
        {"role": "user", "content": "x"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm", "signature": ""},
                {"type": "tool_use", "id": "t", "name": "read", "input": {}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "y"}]},
    ]
    body, _ = send(MESSAGES, CHAT, messages=replayed, profile="compatible")
    assert body["messages"][1]["reasoning_content"] == "Hm"
    assert body["messages"][1]["tool_calls"][0]["id"] == "t"
    body, translation = send(MESSAGES, CHAT, messages=replayed)
    assert "reasoning_content" not in body["messages"][1]
    assert translation.losses.counts


def test_T12_a_call_right_after_thinking_is_a_block_of_its_own() -> None:
    """Blocks of a Messages upstream keep their kinds towards Chat clients as well."""
    frames = [begin(), block(0, type="thinking", thinking=""), delta(0, "thinking", "Hm"), stop(0)]
    frames += [tool(1, "t", "read"), delta(1, "input_json", "{}"), stop(1), end("tool_use")]
    held, _ = answer(CHAT, MESSAGES, *frames)
    assert held.reasoning == "Hm"
    assert [call.arguments for call in held.calls] == ["{}"]

"""Group A: tool-call indexes and interleaving."""

from __future__ import annotations

import json

import pytest

from dragoman import DragomanError, LossCode
from oracles.grammar import Call
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
from support.messages_frames import written_call

THREE = [
    Call("call_a", "read", '{"f":"a"}'),
    Call("call_b", "read", '{"f":"b"}'),
    Call("call_c", "list", '{"d":"/"}'),
]
FINISH = [chunk({}, "tool_calls"), DONE]


def test_T01_arguments_of_interleaved_calls_stay_with_their_call() -> None:
    """Arguments land in another call (praxis-proxy/ai#266, Shelpuk-AI-Technology-Consulting/kitty-bridge#116)."""
    frames = [ROLE, *(calls(start_call(n, call.id, call.name)) for n, call in enumerate(THREE))]
    for at in range(0, 9, 3):
        frames += [calls(more_call(n, call.arguments[at : at + 3])) for n, call in reversed(list(enumerate(THREE)))]
    held, _ = answer(MESSAGES, CHAT, *frames, *FINISH)
    assert held.calls == THREE
    assert held.finish == "tool_use"


def test_T01_parallel_calls_of_a_messages_upstream_count_from_zero() -> None:
    """All parallel calls carry index 0, or the block's index (maximhq/bifrost#1961, BerriAI/litellm#5231,
    ai-dynamo/dynamo#4723)."""
    frames = [begin(), block(0, type="text", text=""), delta(0, "text", "Let me look."), stop(0)]
    for n, call in enumerate(THREE, start=1):
        frames += [tool(n, call.id, call.name), delta(n, "input_json", call.arguments), stop(n)]
    held, out = answer(CHAT, MESSAGES, *frames, end("tool_use"))
    assert held.calls == THREE
    assert held.text == "Let me look."
    indexes = [
        fragment["index"]
        for payload in events_of(out)
        for choice in payload["choices"]
        for fragment in choice["delta"].get("tool_calls", [])
        if "id" in fragment
    ]
    assert indexes == [0, 1, 2]


def test_T01_two_calls_in_one_chunk_are_two_blocks() -> None:
    """Two calls share one block, and a stop comes for a block never opened (icebear0828/codex-proxy#610)."""
    both = calls(start_call(0, "call_a", "read", '{"f":"a"}'), start_call(1, "call_b", "read", '{"f":"b"}'))
    held, _ = answer(MESSAGES, CHAT, ROLE, both, *FINISH)
    assert held.calls == THREE[:2]
    assert held.order == ["tool", "tool"]


def test_T02_a_delta_of_a_block_that_never_started_is_an_error_of_the_upstream() -> None:
    """ "Content block not found", then the client falls back to non-streaming (Wei-Shaw/sub2api#4294,
    router-for-me/CLIProxyAPI#3720)."""
    held, out = answer(CHAT, MESSAGES, begin(), delta(3, "input_json", "{}"), end("tool_use"))
    assert held.error is not None
    assert b'"tool_calls"' not in out


def test_T02_a_late_fragment_of_an_early_call_reaches_its_own_block() -> None:
    """The running counter is used for the block instead of a map (Wei-Shaw/sub2api#4294)."""
    frames = [ROLE, chunk({"content": "Hm"}), calls(start_call(0, "call_a", "read", '{"f":'))]
    frames += [calls(start_call(1, "call_b", "read", '{"f":"b"}')), calls(more_call(0, '"a"}'))]
    held, _ = answer(MESSAGES, CHAT, *frames, *FINISH)
    assert held.calls == THREE[:2]
    assert held.order == ["text", "tool", "tool"]


def test_T03_opening_the_second_call_does_not_close_the_first() -> None:
    """A later fragment goes to a closed block (headroomlabs-ai/headroom#2890)."""
    frames = [calls(start_call(0, "call_a", "read")), calls(start_call(1, "call_b", "read"))]
    frames += [calls(more_call(1, '{"f":"b"}')), calls(more_call(0, '{"f":"a"}'))]
    held, _ = answer(MESSAGES, CHAT, ROLE, *frames, *FINISH)
    assert held.calls == THREE[:2]


def test_T04_arguments_that_come_whole_with_the_name_are_sent() -> None:
    """The tool's name arrives, its arguments never do (BerriAI/litellm#25836, BerriAI/litellm#25561)."""
    held, out = answer(MESSAGES, CHAT, ROLE, calls(start_call(0, "call_a", "read", '{"f":"a"}')), *FINISH)
    assert held.calls == THREE[:1]
    assert b"input_json_delta" in out


def test_T04_input_that_comes_whole_in_the_block_start_is_sent() -> None:
    """Likewise for a Messages upstream that sends no fragments at all."""
    held, _ = answer(CHAT, MESSAGES, begin(), tool(0, "call_a", "read", {"f": "a"}), stop(0), end("tool_use"))
    assert held.parsed_calls() == [("call_a", "read", {"f": "a"})]


def test_T04_a_call_without_arguments_is_an_empty_object_for_chat_clients() -> None:
    """Clients parse the string, and an empty one is no JSON (BerriAI/litellm#25561)."""
    held, _ = answer(CHAT, MESSAGES, begin(), tool(0, "call_a", "read"), stop(0), end("tool_use"))
    assert [call.arguments for call in held.calls] == ["{}"]


def test_T05_a_fragment_without_an_index_is_understood() -> None:
    """A strict client refuses a chunk because the server left `tool_calls[].index` out (zed-industries/zed#38412)."""
    first, more = start_call(0, "call_a", "read"), more_call(0, '{"f":"a"}')
    del first["index"], more["index"]
    held, _ = answer(MESSAGES, CHAT, ROLE, calls(first), calls(more), *FINISH)
    assert held.calls == THREE[:1]


def test_T05_the_index_is_written_on_every_fragment() -> None:
    """The other half of zed-industries/zed#38412: what leaves here always has it."""
    frames = [begin(), tool(0, "call_a", "read"), delta(0, "input_json", '{"f":'), delta(0, "input_json", '"a"}')]
    _, out = answer(CHAT, MESSAGES, *frames, stop(0), end("tool_use"))
    fragments = [f for p in events_of(out) for c in p["choices"] for f in c["delta"].get("tool_calls", [])]
    assert len(fragments) == 3
    assert all(fragment["index"] == 0 for fragment in fragments)


def test_T06_messages_blocks_inside_chat_content_are_refused_by_name() -> None:
    """Raw `tool_use` inside Chat content: a 422 and a hung thread (zed-industries/zed#54958)."""
    content = [{"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"f": "old words"}}]
    with pytest.raises(DragomanError) as caught:
        send(CHAT, MESSAGES, messages=[{"role": "user", "content": content}])
    assert caught.value.failure.status == 400
    assert caught.value.failure.param == "messages[0].content[0]"
    # In the history, where an error would end the session, they are a text.
    old = [("user", "x"), ("assistant", content), ("user", "y")]
    body, translation = send(CHAT, MESSAGES, messages=[{"role": role, "content": each} for role, each in old])
    assert "old words" in json.dumps(body["messages"])
    assert LossCode.ITEM_SHAPE in translation.losses.counts


def test_T06_input_is_an_object_for_messages_clients_and_a_string_for_chat() -> None:
    """`tool_use.input` sent as a string (aradlein/hass-agent-llm#42)."""
    got = whole(MESSAGES, CHAT, chat_reply("tool_calls", tool_calls=[start_call(0, "call_a", "read", '{"f":"a"}')]))
    assert got["content"] == [written_call("call_a", "read", {"f": "a"})]
    history = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": got["content"]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_a", "content": "y"}]},
    ]
    body, _ = send(MESSAGES, CHAT, messages=history)
    assert json.loads(body["messages"][1]["tool_calls"][0]["function"]["arguments"]) == {"f": "a"}


def test_T06_input_given_as_a_string_is_read_as_the_arguments() -> None:
    """A gateway that sent strings put it into the history, which comes with every request."""
    content = [{"type": "tool_use", "id": "t", "name": "read", "input": '{"f":"a"}'}]
    result = [{"type": "tool_result", "tool_use_id": "t", "content": "y"}]
    messages = [{"role": "assistant", "content": content}, {"role": "user", "content": result}]
    body, _ = send(MESSAGES, CHAT, messages=messages)
    assert body["messages"][0]["tool_calls"][0]["function"]["arguments"] == '{"f":"a"}'

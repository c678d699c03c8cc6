"""Group E: requests that upstreams refused."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from dragoman import LossCode, direction, translate
from oracles.requests import check
from regressions.wire import CHAT, DONE, MESSAGES, ROLE, answer, calls, chat_reply, chunk, send, start_call
from support.directions import Json

HEADERS = {"anthropic-version": "2023-06-01"}
SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}}


def accepted(client: str, upstream: str, **fields: Any) -> Json:
    """The upstream's body, which the simulated vendor takes."""
    body, _ = send(client, upstream, **fields)
    return check(upstream, body, HEADERS)


def test_T40_empty_text_blocks_are_removed() -> None:
    """Empty text blocks: 400 (NousResearch/hermes-agent#11906, HKUDS/nanobot#949)."""
    parts = [{"type": "text", "text": ""}, {"type": "text", "text": "Hi"}, {"type": "text", "text": "\n "}]
    body = accepted(CHAT, MESSAGES, messages=[{"role": "system", "content": ""}, {"role": "user", "content": parts}])
    assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
    assert "system" not in body


def test_T40_messages_without_content_disappear() -> None:
    """Empty message content: 400 (musistudio/claude-code-router#4)."""
    history = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": None, "tool_calls": [start_call(0, "c", "read", "{}")]},
        {"role": "tool", "tool_call_id": "c", "content": ""},
    ]
    body = accepted(CHAT, MESSAGES, messages=history)
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    blocks = [{"role": "user", "content": "a"}, {"role": "assistant", "content": []}, {"role": "user", "content": "b"}]
    body = accepted(MESSAGES, CHAT, messages=blocks)
    assert [message["role"] for message in body["messages"]] == ["user", "user"]


def test_T41_a_call_without_a_result_is_given_one() -> None:
    """`tool_use` without `tool_result` after a cancel poisons the thread (zed-industries/zed#29401)."""
    cancelled = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": None, "tool_calls": [start_call(0, "c", "read", "{}")]},
        {"role": "user", "content": "stop that"},
    ]
    body = accepted(CHAT, MESSAGES, messages=cancelled)
    result, text = body["messages"][2]["content"]
    assert (result["type"], result["tool_use_id"], result["is_error"]) == ("tool_result", "c", True)
    assert text["text"] == "stop that"
    uses = [{"type": "tool_use", "id": "c", "name": "read", "input": {}}]
    history = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": uses},
        {"role": "user", "content": "stop that"},
    ]
    body = accepted(MESSAGES, CHAT, messages=history)
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "tool", "user"]


def test_T42_long_and_dotted_tool_names_fit_and_come_back() -> None:
    """Tool names over 64 characters (cline/cline#11885, anthropics/claude-code#21136, anthropics/claude-code#20830),
    and with dots in them (CherryHQ/cherry-studio#2895)."""
    long, dotted = "mcp__" + "n" * 90, "files.read"
    tools = [{"name": name, "input_schema": SCHEMA} for name in (long, dotted, long + "2")]
    body, translation = send(MESSAGES, CHAT, tools=tools)
    check(CHAT, body, HEADERS)
    sent = [tool["function"]["name"] for tool in body["tools"]]
    assert len(set(sent)) == 3
    assert long not in sent
    reply = chat_reply("tool_calls", tool_calls=[start_call(0, "c", name, "{}") for name in sent[:1]])
    got = json.loads(translation.reply(json.dumps(reply).encode()))
    assert got["content"][0]["name"] == long
    held, _ = answer(
        MESSAGES, CHAT, ROLE, calls(start_call(0, "c", sent[1], "{}")), chunk({}, "tool_calls"), DONE, tools=tools
    )
    assert held.calls[0].name == dotted


def test_T42_names_in_the_history_are_renamed_as_the_tools_are() -> None:
    """A call in the history must name the tool as it is declared."""
    long = "mcp__" + "n" * 90
    history = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": long, "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "x"}]},
    ]
    body = accepted(MESSAGES, CHAT, messages=history, tools=[{"name": long, "input_schema": SCHEMA}])
    assert body["messages"][1]["tool_calls"][0]["function"]["name"] == body["tools"][0]["function"]["name"]


@pytest.mark.parametrize("word", ["oneOf", "anyOf", "allOf"])
def test_T43_combiners_at_the_root_become_one_object_and_tools_never_vanish(word: str) -> None:
    """Root-level `oneOf`/`anyOf`/`allOf` is refused, tools vanish (software-mansion/argent#773,
    opentokenz/mcpx#28)."""
    function = {"name": "t", "parameters": {word: [SCHEMA]}}
    body, translation = send(CHAT, MESSAGES, tools=[{"type": "function", "function": function}])
    check(MESSAGES, body, HEADERS)
    (tool,) = body["tools"]
    assert (tool["name"], set(tool["input_schema"])) == ("t", {"type", "properties"})
    assert translation.losses.counts == {LossCode.SCHEMA_SANITISED: 1}


def test_T43_a_schema_without_type_or_properties_is_completed() -> None:
    """Schemas that the target refuses for their shape (kaitranntt/ccs#459)."""
    tools = [{"type": "function", "function": {"name": "a"}}, {"type": "function", "function": {"name": "b"}}]
    tools[1]["function"]["parameters"] = {"properties": {}}  # type: ignore[index]
    body = accepted(CHAT, MESSAGES, tools=tools)
    assert [tool["input_schema"]["type"] for tool in body["tools"]] == ["object", "object"]
    body = accepted(MESSAGES, CHAT, tools=[{"name": "a", "input_schema": {"type": "object"}}])
    assert body["tools"][0]["function"]["parameters"] == {"type": "object", "properties": {}}


def test_T43_other_schema_words_are_left_as_they_are() -> None:
    """A schema is the tool's contract: nothing within it is edited away."""
    schema = {**SCHEMA, "$schema": "https://json-schema.org/draft/2020-12/schema", "x-order": ["q"], "definitions": {}}
    body = accepted(MESSAGES, CHAT, tools=[{"name": "a", "input_schema": schema}])
    assert body["tools"][0]["function"]["parameters"] == schema


def test_T44_beta_fields_do_not_reach_an_upstream_without_them() -> None:
    """ "Extra inputs are not permitted": the beta header was dropped while the field stayed (decolua/9router#1468,
    anomalyco/opencode#34694, BerriAI/litellm#26240, anthropics/claude-code#31033, zed-industries/zed#62806)."""
    fields: Json = {
        "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
        "tools": [{"name": "a", "input_schema": SCHEMA, "defer_loading": True, "eager_input_streaming": True}],
    }
    body, translation = send(MESSAGES, CHAT, **fields)
    check(CHAT, body, HEADERS)
    assert set(translation.losses.counts) == {LossCode.CONTEXT_MANAGEMENT, LossCode.TOOL_SEARCH, LossCode.TOOL_OPTION}


def test_T44_beta_fields_pass_through_untouched_beside_their_header() -> None:
    """Same-dialect bodies keep the fields; the server forwards the header with them."""
    raw = (
        b'{"model":"m","max_tokens":9,"messages":[],"context_management":{"edits":[]},"tools":[{"defer_loading":true}]}'
    )
    assert translate(direction(MESSAGES, MESSAGES), raw).body == raw


def test_T45_a_cache_mark_on_a_thinking_block_is_harmless() -> None:
    """`cache_control` on a thinking block: 400 (Wei-Shaw/sub2api#225)."""
    thinking = {"type": "thinking", "thinking": "Hm", "signature": "c2ln", "cache_control": {"type": "ephemeral"}}
    beside: tuple[Json, ...] = ({}, {"citations": []})
    for profile, more in itertools.product((None, "compatible"), beside):
        history = [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": [thinking, {"type": "text", "text": "b", **more}]},
            {"role": "user", "content": "c"},
        ]
        body, _ = send(MESSAGES, CHAT, messages=history, profile=profile)
        assert "cache_control" not in json.dumps(body)
        assert body["messages"][1]["content"] == "b"


def test_T46_system_messages_inside_messages_are_instructions_in_their_place() -> None:
    """Claude Code 2.1.154 and later puts `role: system` inside `messages`; strict validators broke
    (vllm-project/vllm#44000)."""
    history = [
        {"role": "user", "content": "a"},
        {"role": "system", "content": [{"type": "text", "text": "be brief"}]},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ]
    body = accepted(MESSAGES, CHAT, messages=history)
    assert [message["role"] for message in body["messages"]] == ["user", "developer", "assistant", "user"]
    body, _ = send(MESSAGES, CHAT, messages=history, profile="compatible")
    assert [message["role"] for message in body["messages"]] == ["user", "system", "assistant", "user"]


def test_T47_adaptive_thinking_is_no_obstacle_to_a_model_without_it() -> None:
    """Models without thinking fail since the client sends adaptive thinking (anthropics/claude-code#55211)."""
    body = accepted(MESSAGES, CHAT, thinking={"type": "adaptive"})
    assert "thinking" not in body
    assert "reasoning_effort" not in body
    row = direction(CHAT, MESSAGES)
    raw = json.dumps(
        {"model": "m", "messages": [{"role": "user", "content": "a"}], "reasoning_effort": "high", "max_tokens": 9}
    ).encode()
    profile = translate(row, raw).context.profile.replace({"thinking": "none"})
    translation = translate(row, raw, profile=profile)
    written = json.loads(translation.body)
    assert "thinking" not in written
    assert "output_config" not in written
    assert translation.losses.counts == {LossCode.REASONING_MODE: 1}

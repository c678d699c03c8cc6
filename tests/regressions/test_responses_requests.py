"""Group E with Responses on either side: requests that upstreams refused."""

from __future__ import annotations

import json

import pytest

from dragoman import Knobs, LossCode, builtin_profile, direction, translate
from oracles.requests import check
from regressions.dialect_bodies import (
    NEW,
    RESPONSES,
    SCHEMA,
    conversation,
    from_responses,
    new_directions,
    offered,
    replied,
    to_responses,
)
from regressions.wire import CHAT, MESSAGES, send
from support.directions import Json, ask

HEADERS = {"anthropic-version": "2023-06-01"}
CALL = ("call", "call_a", "read", "{}")


def accepted(client: str, upstream: str, *, profile: str | None = None, **fields: object) -> Json:
    """The upstream's body, which the simulated vendor takes."""
    body, _ = send(client, upstream, profile=profile, **fields)
    return check(upstream, body, HEADERS)


def turns_of(upstream: str, body: Json) -> list[Json]:
    """The messages or items of a sent body."""
    return list(body["input" if upstream == RESPONSES else "messages"])


def roles(upstream: str, body: Json) -> list[str]:
    """The role of each message, the type of each other item."""
    return [str(turn.get("role", turn.get("type"))) for turn in turns_of(upstream, body)]


# --- empty content ----------------------------------------------------------------------------------------------------


@to_responses
def test_T40_empty_texts_of_a_responses_client_are_removed(upstream: str) -> None:
    """Empty text blocks: 400 (NousResearch/hermes-agent#11906, HKUDS/nanobot#949)."""
    parts = [{"type": "input_text", "text": text} for text in ("", "Hi")]
    items = [
        {"role": "developer", "content": ""},
        {"role": "user", "content": parts},
        {"role": "assistant", "content": [{"type": "output_text", "text": ""}]},
        {"role": "user", "content": []},
        {"role": "user", "content": "b"},
    ]
    body = accepted(RESPONSES, upstream, input=items, instructions="")
    text = json.dumps(body)
    assert '"text": ""' not in text
    assert '"content": ""' not in text
    assert set(roles(upstream, body)) == {"user"}
    assert "system" not in body


@from_responses
def test_T40_empty_content_does_not_reach_a_responses_upstream(client: str) -> None:
    """Likewise the other way round (NousResearch/hermes-agent#11906), and empty messages
    (musistudio/claude-code-router#4)."""
    parts = [{"type": "text", "text": text} for text in ("", "Hi")]
    history: list[Json] = [
        {"role": "user", "content": parts},
        {"role": "assistant", "content": "" if client == CHAT else []},
        {"role": "user", "content": "b"},
    ]
    body = accepted(client, RESPONSES, messages=history)
    assert roles(RESPONSES, body) == ["user", "user"]
    assert '"text": ""' not in json.dumps(body)


@pytest.mark.parametrize(("client", "upstream"), [*NEW, (MESSAGES, CHAT), (CHAT, MESSAGES)])
def test_T40_an_empty_result_still_answers_its_call(client: str, upstream: str) -> None:
    """A tool that is silent must not lose its call (musistudio/claude-code-router#4)."""
    fields = conversation(client, "a", [CALL], ("result", "call_a", ""))
    body = accepted(client, upstream, **fields, tools=offered(client, "read"))
    assert json.dumps(turns_of(upstream, body)).count("call_a") == 2


# --- calls without results --------------------------------------------------------------------------------------------


@new_directions
def test_T41_a_call_without_a_result_is_given_one_in_every_new_direction(client: str, upstream: str) -> None:
    """`tool_use` without `tool_result` after a cancel poisons the thread (zed-industries/zed#29401)."""
    fields = conversation(client, "a", [("text", "Let me look."), CALL], "stop that")
    body, translation = send(client, upstream, **fields, tools=offered(client, "read"))
    check(upstream, body, HEADERS)
    assert translation.losses.counts[LossCode.ORPHAN_REPAIRED] == 1
    assert "stop that" in json.dumps(turns_of(upstream, body)[-1])


@to_responses
def test_T41_a_free_text_call_without_a_result_is_given_one_too(upstream: str) -> None:
    """Likewise for a patch that was cancelled (zed-industries/zed#29401)."""
    custom = {"type": "custom", "name": "apply_patch", "format": {"type": "text"}}
    items = [
        {"role": "user", "content": "a"},
        {"type": "custom_tool_call", "call_id": "call_a", "name": "apply_patch", "input": "*** Begin Patch"},
        {"role": "user", "content": "stop that"},
    ]
    accepted(RESPONSES, upstream, input=items, tools=[custom])


def test_T41_a_cancelled_patch_of_a_chat_client_is_given_a_result_of_its_kind() -> None:
    """The output of a free-text call is another item than a function's (zed-industries/zed#29401)."""
    call = {"id": "call_a", "type": "custom", "custom": {"name": "apply_patch", "input": "*** Begin Patch"}}
    history = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "user", "content": "stop that"},
    ]
    tools = [{"type": "custom", "custom": {"name": "apply_patch"}}]
    body = accepted(CHAT, RESPONSES, messages=history, tools=tools)
    assert roles(RESPONSES, body) == ["user", "custom_tool_call", "custom_tool_call_output", "user"]


@to_responses
@pytest.mark.parametrize("order", ["user", "developer", "assistant", "parallel", "twice", "before"])
def test_T41_results_stand_behind_their_calls_wherever_a_client_put_them(upstream: str, order: str) -> None:
    """Items may stand in any order in Responses, and nowhere else (zed-industries/zed#29401)."""
    call, result = conversation(RESPONSES, [CALL], ("result", "call_a", "y"))["input"]
    other, done = conversation(RESPONSES, [("call", "call_b", "read", "{}")], ("result", "call_b", "z"))["input"]
    between: dict[str, list[Json]] = {
        "parallel": [call, other, done, result],
        "twice": [call, result, result],
        "before": [result, call],
    }
    stated = {"role": order, "content": "wait"}
    items = [
        {"role": "user", "content": "a"},
        *between.get(order, [call, stated, result]),
        {"role": "user", "content": "b"},
    ]
    body = accepted(RESPONSES, upstream, input=items, tools=offered(RESPONSES, "read"))
    text = json.dumps(body)
    assert text.count('"y"') == (order != "before")
    assert ("wait" in text) is (order not in between)


@new_directions
def test_T41_a_result_without_its_call_poisons_nothing(client: str, upstream: str) -> None:
    """The reverse, after a client trimmed its history (zed-industries/zed#29401)."""
    fields = conversation(client, "a", ("result", "call_lost", "y"), "b")
    body, translation = send(client, upstream, **fields)
    check(upstream, body, HEADERS)
    assert translation.losses.counts == {LossCode.ORPHAN_DROPPED: 1}


# --- fields of one vendor ---------------------------------------------------------------------------------------------


def test_T44_beta_fields_of_claude_code_do_not_reach_a_responses_upstream() -> None:
    """ "Extra inputs are not permitted" (decolua/9router#1468, anomalyco/opencode#34694, BerriAI/litellm#26240,
    anthropics/claude-code#31033, zed-industries/zed#62806)."""
    fields: Json = {
        "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
        "tools": [{"name": "a", "input_schema": SCHEMA, "defer_loading": True, "eager_input_streaming": True}],
    }
    body, translation = send(MESSAGES, RESPONSES, **fields)
    check(RESPONSES, body, HEADERS)
    assert set(translation.losses.counts) == {LossCode.CONTEXT_MANAGEMENT, LossCode.TOOL_SEARCH, LossCode.TOOL_OPTION}


@to_responses
def test_T44_fields_of_codex_do_not_reach_other_upstreams(upstream: str) -> None:
    """Likewise for what only OpenAI takes, and of what no one but the client may know (BerriAI/litellm#26240)."""
    fields: Json = {
        "client_metadata": {"x-codex-installation-id": "secret"},
        "context_management": [{"type": "compaction"}],
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "key",
        "text": {"verbosity": "low"},
        "reasoning": {"effort": "medium", "summary": "auto", "context": "all_turns"},
        "store": False,
        "truncation": "auto",
        "novel_beta": {"a": 1},
        "tools": [{**offered(RESPONSES, "a")[0], "defer_loading": True, "output_schema": SCHEMA}],
    }
    body, translation = send(RESPONSES, upstream, **fields)
    check(upstream, body, HEADERS)
    text = json.dumps(body)
    for word in ("secret", "client_metadata", "novel_beta", "defer_loading", "output_schema", "encrypted", "all_turns"):
        assert word not in text
    expected = {
        LossCode.CONTEXT_MANAGEMENT,
        LossCode.TRUNCATION,
        LossCode.UNKNOWN_FIELD,
        LossCode.TOOL_OPTION,
        LossCode.REASONING_MODE,
    }
    assert expected <= set(translation.losses.counts)
    assert LossCode.METADATA not in translation.losses.counts  # Codex's own ids are no one's loss


def test_T44_beta_fields_pass_through_untouched_between_responses() -> None:
    """Same-dialect bodies keep every field (anomalyco/opencode#34694)."""
    raw = b'{"model":"m","input":"x","novel_beta":{"b":1,"a":[1.0]},"client_metadata":{"id":"1"}}'
    assert translate(direction(RESPONSES, RESPONSES), raw).body == raw


def test_T45_a_cache_mark_on_a_thinking_block_is_harmless_on_the_way_to_responses() -> None:
    """`cache_control` on a thinking block: 400 (Wei-Shaw/sub2api#225)."""
    thinking = {"type": "thinking", "thinking": "Hm", "signature": "c2ln", "cache_control": {"type": "ephemeral"}}
    history = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": [thinking, {"type": "text", "text": "b"}]},
        {"role": "user", "content": "c"},
    ]
    body = accepted(MESSAGES, RESPONSES, messages=history)
    assert "cache_control" not in json.dumps(body)
    assert "c2ln" not in json.dumps(body)
    assert roles(RESPONSES, body) == ["user", "assistant", "user"]


def test_T45_a_restored_thinking_block_has_no_cache_mark() -> None:
    """Nor does what comes back to Claude out of an envelope (Wei-Shaw/sub2api#225)."""
    row = direction(RESPONSES, MESSAGES)
    reply = replied(MESSAGES, ("reasoning", "Hm"), CALL)
    reply["content"][0]["signature"] = "c2ln"
    output = json.loads(translate(row, json.dumps(ask(RESPONSES)).encode()).reply(json.dumps(reply).encode()))["output"]
    answer = {"type": "function_call_output", "call_id": "call_a", "output": "y"}
    stated = ask(RESPONSES, input=[{"role": "user", "content": "x"}, *output, answer])
    written = json.loads(translate(row, json.dumps(stated).encode(), knobs=Knobs(auto_cache="on")).body)
    assert written["messages"][1]["content"][0] == {"type": "thinking", "thinking": "Hm", "signature": "c2ln"}


# --- roles and thinking -----------------------------------------------------------------------------------------------


def test_T46_system_messages_inside_messages_stay_in_their_place_in_the_input() -> None:
    """Claude Code 2.1.154 and later puts `role: system` inside `messages`; strict validators broke
    (vllm-project/vllm#44000)."""
    history = [
        {"role": "user", "content": "a"},
        {"role": "system", "content": [{"type": "text", "text": "be brief"}]},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ]
    body = accepted(MESSAGES, RESPONSES, messages=history)
    assert roles(RESPONSES, body) == ["user", "developer", "assistant", "user"]


@to_responses
def test_T46_developer_items_on_the_way_are_taken_by_every_upstream(upstream: str) -> None:
    """Likewise for Codex, which sends several (vllm-project/vllm#44000)."""
    items = [
        {"role": "developer", "content": "you are Codex"},
        {"role": "user", "content": "a"},
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": "b"},
    ]
    for profile in (None, "compatible"):
        body = accepted(RESPONSES, upstream, profile=profile, input=items)
        text = json.dumps(body)
        assert text.count("be brief") == text.count("you are Codex") == 1
        assert "developer" not in text or (upstream, profile) == (CHAT, None)


def test_T47_adaptive_thinking_is_no_obstacle_to_a_responses_model() -> None:
    """Models without thinking fail since the client sends adaptive thinking (anthropics/claude-code#55211). Claude Code
    also asks to be shown it, which such a model refuses just as well."""
    assert "reasoning" not in accepted(MESSAGES, RESPONSES, thinking={"type": "adaptive"})
    wish: Json = {"thinking": {"type": "adaptive", "display": "updates"}, "output_config": {"effort": "high"}}
    assert accepted(MESSAGES, RESPONSES, **wish)["reasoning"] == {"effort": "high", "summary": "auto"}
    row, plain = direction(MESSAGES, RESPONSES), builtin_profile(RESPONSES).replace({"efforts": ()})
    translation = translate(row, json.dumps(ask(MESSAGES, **wish)).encode(), profile=plain)
    assert "reasoning" not in json.loads(translation.body)
    assert translation.losses.counts == {LossCode.EFFORT_ROUNDED: 1, LossCode.REASONING_MODE: 1}


@to_responses
def test_T47_the_effort_of_codex_is_no_obstacle_to_a_model_without_thinking(upstream: str) -> None:
    """Likewise for `reasoning` in Responses (anthropics/claude-code#55211)."""
    raw = json.dumps(ask(RESPONSES, reasoning={"effort": "high", "summary": "auto"})).encode()
    flags = {"efforts": ()} if upstream == CHAT else {"thinking": "none"}
    translation = translate(direction(RESPONSES, upstream), raw, profile=builtin_profile(upstream).replace(flags))
    assert not {"reasoning_effort", "thinking", "output_config", "reasoning"} & json.loads(translation.body).keys()
    assert LossCode.REASONING_MODE in translation.losses.counts

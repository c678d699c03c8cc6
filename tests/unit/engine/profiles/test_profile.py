"""Each flag that a third party needs: what it changes in a request, and the row where something is lost."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import LossCode
from dragoman.dialects import Dialect
from dragoman.knobs import Knobs
from support.flagged_requests import ask, ask_of

Json = dict[str, Any]
CHAT, MESSAGES, RESPONSES, *_ = Dialect
LOOK, FIND = ({"name": name, "input_schema": {"type": "object", "properties": {}}} for name in ("look", "find"))


CHAT_TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
    for name in ("look", "find")
]


def test_strict_is_not_sent_where_it_is_not_taken() -> None:
    for strict, lost in ((True, {LossCode.SCHEMA_STRICTNESS: 1}), (False, {})):
        body, counts = ask(flags={"strict_tools": False}, tools=[{**LOOK, "strict": strict}])
        assert "strict" not in body["tools"][0]["function"]
        assert counts == lost


def test_a_messages_upstream_without_stop_sequences_is_given_none() -> None:
    fields: Json = {"stop": ["END"], "max_completion_tokens": 9}
    body, counts = ask_of(CHAT, MESSAGES, "compatible", flags={"stop_limit": 0}, **fields)
    assert "stop_sequences" not in body
    assert counts == {}  # the gateway cuts the text itself
    off = Knobs(stop_emulation="off")
    assert ask_of(CHAT, MESSAGES, "compatible", off, flags={"stop_limit": 0}, **fields)[1] == {LossCode.STOP_DROPPED: 1}


def test_top_k_goes_to_servers_that_take_it() -> None:
    assert ask(flags={"top_k": True}, top_k=5)[0]["top_k"] == 5
    body, counts = ask(flags={}, top_k=5)
    assert "top_k" not in body
    assert counts == {LossCode.TOP_K: 1}


@pytest.mark.parametrize("upstream", [CHAT, RESPONSES])
def test_padding_is_not_asked_for(upstream: Dialect) -> None:
    """The reader throws it away (mapping §8.1)."""
    options = ask(upstream, "openai", flags={}, stream=True)[0]["stream_options"]
    assert options["include_obfuscation"] is False
    others = ask(upstream, "compatible", flags={}, stream=True)[0].get("stream_options", {})
    assert "include_obfuscation" not in others


def test_encrypted_reasoning_is_asked_for_where_there_is_any_and_it_can_come_back() -> None:
    include = ask(RESPONSES, "openai", flags={})[0].get("include")
    assert include == ["reasoning.encrypted_content"]
    assert "include" not in ask(RESPONSES, "openai", flags={"encrypted_reasoning": False})[0]
    assert "include" not in ask(RESPONSES, "openai", flags={"efforts": ()})[0]
    assert "include" not in ask_of(CHAT, RESPONSES, "openai", flags={})[0]


def test_encrypted_reasoning_is_asked_for_where_plain_items_go_back_too() -> None:
    flags = {"encrypted_reasoning": False, "encrypts_on_request": True}
    assert ask(RESPONSES, "openai", flags=flags)[0]["include"] == ["reasoning.encrypted_content"]


def test_the_end_user_is_in_the_field_of_the_host() -> None:
    for upstream, field in ((CHAT, "safety_identifier"), (RESPONSES, "user")):
        body, _ = ask(upstream, "openai", flags={"user_field": field}, metadata={"user_id": "u-1"})
        assert body[field] == "u-1"


@pytest.mark.parametrize("display", ["summarized", "omitted"])
def test_how_thinking_is_shown_is_not_sent_where_that_is_rejected(display: str) -> None:
    thinking = {"type": "enabled", "budget_tokens": 1024, "display": display}
    for allowed, lost in ((True, {}), (False, {LossCode.REASONING_MODE: 1})):
        flags = {"thinking_display": allowed, "rewrite": True}
        body, counts = ask(MESSAGES, "compatible", flags=flags, thinking=thinking, max_tokens=9999)
        assert body["thinking"].get("display") == (display if allowed else None)
        assert counts == lost


def test_reasoning_goes_back_as_a_part_of_the_content() -> None:
    answer = [{"type": "thinking", "thinking": "so", "signature": ""}, {"type": "text", "text": "Well"}]
    call = {"type": "tool_use", "id": "D681PevKs", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "D681PevKs", "content": "ok"}
    turns = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": answer},
        {"role": "user", "content": "Go"},
        {"role": "assistant", "content": [answer[0], call]},
        {"role": "user", "content": [result]},
    ]
    body, counts = ask(flags={"reasoning_key": "thinking"}, messages=turns, tools=[LOOK])
    first, second = (message for message in body["messages"] if message["role"] == "assistant")
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "so"}]}
    assert first == {"role": "assistant", "content": [thinking, {"type": "text", "text": "Well"}]}
    assert second["content"] == [thinking]
    assert [made["id"] for made in second["tool_calls"]] == ["D681PevKs"]
    assert counts == {}


def test_tools_that_openai_runs_are_left_out_where_the_vendor_has_none() -> None:
    tools = [{"type": "web_search", "external_web_access": True}, {"type": "function", "name": "f", "parameters": {}}]
    body, counts = ask_of(
        RESPONSES, RESPONSES, "compatible", flags={"rewrite": True, "vendor_tools": False}, tools=tools
    )
    assert [tool["type"] for tool in body["tools"]] == ["function"]
    assert counts == {LossCode.HOSTED_TOOL: 1}
    assert ask_of(RESPONSES, RESPONSES, "compatible", flags={}, tools=tools)[0]["tools"] == tools


def test_a_vendors_own_web_search_is_used_with_its_lists_of_domains() -> None:
    """xAI runs a `web_search` of its own (pleaseai/shunt#61): Codex had none there."""
    search = {"type": "web_search", "external_web_access": False, "filters": {"allowed_domains": ["x.ai"]}}
    tools = [search, {"type": "file_search", "vector_store_ids": ["v"]}]
    body, counts = ask_of(RESPONSES, RESPONSES, "xai", flags={}, tools=tools)
    assert body["tools"] == [{"type": "web_search", "allowed_domains": ["x.ai"]}]
    assert counts == {LossCode.HOSTED_TOOL: 1, LossCode.TOOL_OPTION: 1}
    claudes = [{"type": "web_search_20250305", "name": "web_search", "blocked_domains": ["x.com"]}]
    body, _ = ask_of(MESSAGES, RESPONSES, "xai", flags={}, knobs=Knobs(hosted_tools="map"), tools=claudes)
    assert body["tools"] == [{"type": "web_search", "excluded_domains": ["x.com"]}]


def test_fields_that_the_host_rejects_are_left_out_of_a_forwarded_body() -> None:
    flags = {"refused_fields": ("verbosity", "user")}
    body, counts = ask_of(CHAT, CHAT, "compatible", flags=flags, verbosity="low", n=2)
    assert "verbosity" not in body
    assert body["n"] == 2
    assert counts == {LossCode.VERBOSITY: 1}


@pytest.mark.parametrize("rewrite", [True, False])
def test_a_reasoning_item_has_an_id_and_no_null_where_unknown_things_are_rejected(rewrite: bool) -> None:
    item: Json = {"type": "reasoning", "id": "", "summary": [], "content": None, "encrypted_content": "gAAA"}
    turns: list[Any] = [{"role": "user", "content": "Hi"}, item, {"role": "user", "content": "Go"}]
    body, _ = ask_of(RESPONSES, RESPONSES, "openai", flags={"rewrite": rewrite}, input=turns)
    sent = body["input"][1]
    if rewrite:
        assert sent["id"].startswith("rs_")
        assert sent.keys() == {"type", "id", "summary", "encrypted_content"}
    else:
        assert sent == item

"""Each flag that a third party needs: what it changes in a request, and the row where something is lost."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import LossCode
from dragoman.dialects import Dialect
from dragoman.knobs import Knobs
from support.flagged_requests import ask, ask_of

Json = dict[str, Any]
CHAT, MESSAGES, RESPONSES = Dialect
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
    fields: Json = {"stop": ["END"], "max_tokens": 9}
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

"""Law: each field of a request changes what is sent, is a row of the losses, or is a 400."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import Direction, translate
from dragoman.dialects.chat.request.read import FIELDS as CHAT
from dragoman.dialects.messages.request.read import FIELDS as MESSAGES
from dragoman.dialects.responses.request.read import FIELDS as RESPONSES
from dragoman.errors import ClientRequestError, LimitExceeded, dotted
from support.directions import CROSS

Json = dict[str, Any]
FIELDS = {"chat": CHAT, "messages": MESSAGES, "responses": RESPONSES}
SCHEMA: Json = {"type": "object", "properties": {}, "additionalProperties": False}
_USER: Json = {"role": "user", "content": "Hi"}
_NAMED: Json = {"type": "json_schema", "name": "a", "schema": SCHEMA}
BASE: dict[str, Json] = {
    "chat": {
        "model": "m",
        "messages": [_USER],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}],
    },
    "messages": {
        "model": "m",
        "max_tokens": 4096,
        "messages": [_USER],
        "tools": [{"name": "f", "input_schema": SCHEMA}],
    },
    "responses": {
        "model": "m",
        "input": "Hi",
        "tools": [{"type": "function", "name": "f", "parameters": SCHEMA, "strict": False}],
    },
}
COMMON: Json = {
    "temperature": 0.3,
    "top_p": 0.4,
    "top_logprobs": 2,
    "parallel_tool_calls": False,
    "metadata": {"a": "b"},
    "store": True,
    "service_tier": "flex",
    "user": "u",
    "safety_identifier": "u",
    "moderation": {"model": "omni-moderation-latest"},
    "prompt_cache_key": "k",
    "prompt_cache_options": {"mode": "explicit"},
    "prompt_cache_retention": "24h",
}
VALUES: dict[str, Json] = {
    "chat": {
        **COMMON,
        "messages": [{"role": "system", "content": "s"}, _USER],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 9,
        "max_tokens": 9,
        "frequency_penalty": 0.5,
        "presence_penalty": 0.5,
        "logit_bias": {"1": 2},
        "seed": 5,
        "n": 2,
        "stop": ["x"],
        "logprobs": True,
        "top_logprobs": None,
        "tools": [],
        "tool_choice": "required",
        "functions": [{"name": "f"}],
        "function_call": "auto",
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}},
        "reasoning_effort": "low",
        "verbosity": "low",
        "modalities": ["text", "audio"],
        "audio": {"voice": "alloy", "format": "mp3"},
        "prediction": {"type": "content", "content": "x"},
        "web_search_options": {},
        "thinking": {"type": "disabled"},
    },
    "messages": {
        "max_tokens": 9,
        "messages": [_USER, {"role": "assistant", "content": "a"}, _USER],
        "system": "s",
        "stream": True,
        "stop_sequences": ["x"],
        "temperature": 0.3,
        "top_p": 0.4,
        "top_k": 5,
        "thinking": {"type": "enabled", "budget_tokens": 2048},
        "output_config": {"effort": "low"},
        "output_format": {"type": "json_schema", "schema": SCHEMA},
        "tools": [],
        "tool_choice": {"type": "any"},
        "metadata": {"user_id": "u"},
        "service_tier": "standard_only",
        "speed": "fast",
        "mcp_servers": [{"type": "url", "url": "https://a.b", "name": "n"}],
        "cache_control": {"type": "ephemeral"},
        "container": "c",
        "compaction": {"type": "auto"},
        "thread": {"id": "t"},
        "inference_geo": "us",
        "fallbacks": [{"model": "x"}],
        "fallback_credit_token": "t",
        "billing_policy": "p",
        "safeguards": {"a": 1},
        "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
    },
    "responses": {
        **COMMON,
        "input": [{"role": "user", "content": "Hello"}],
        "instructions": "s",
        "stream": True,
        "max_output_tokens": 99,
        "tools": [],
        "tool_choice": "required",
        "max_tool_calls": 3,
        "text": {"format": _NAMED, "verbosity": "low"},
        "reasoning": {"effort": "low", "summary": "auto"},
        "include": ["file_search_call.results"],
        "background": True,
        "truncation": "auto",
        "previous_response_id": "r",
        "conversation": "c",
        "prompt": {"id": "p"},
        "context_management": [{"type": "compaction", "compact_threshold": 9}],
        "image": {"a": 1},
        "access_programs": ["a"],
    },
}
"""Client's dialect → field → a value that is no default."""
NO_SETTING = {
    "model": "chosen by the route",
    "stream": "the client's connection",
    "stream_options": "the client's connection",
    "prompt_cache_key": "of no use to a server that does not have it",
    "prompt_cache_options": "of no use to a server that does not have it",
    "prompt_cache_retention": "of no use to a server that does not have it",
    "store": "another vendor's store",
    "service_tier": "standard_only is the default elsewhere",
    "thinking": "disabled is the default elsewhere",
    "diagnostics": "of the client's own vendor",
    "betas": "of the client's own vendor",
    "user_profile_id": "of the client's own vendor",
    "workspace_id": "of the client's own vendor",
    "client_metadata": "ids of the client's installation, which must not be sent",
    "max_tokens": "the older name",
    "top_logprobs": "with logprobs",
}
"""Fields that may be without effect, and why."""
AT_OPENAI = {
    "stop": "emulated by the gateway",
    "stop_sequences": "emulated by the gateway",
    "cache_control": "prompts are cached without it",
}
"""Those at upstreams of OpenAI's dialects."""


@pytest.mark.parametrize("dialect", VALUES)
def test_the_law_knows_all_fields(dialect: str) -> None:
    assert FIELDS[dialect] - set(VALUES[dialect]) <= set(NO_SETTING)


@pytest.mark.parametrize("row", CROSS, ids=str)
def test_no_field_is_lost_silently(row: Direction) -> None:
    client = row.client.dialect
    base = translate(row, json.dumps(BASE[client]).encode())
    before = {(loss.code, loss.path) for loss in base.losses.rows}
    silent = []
    for field, value in VALUES[client].items():
        try:
            made = translate(row, json.dumps(BASE[client] | {field: value}).encode())
        except (ClientRequestError, LimitExceeded):
            continue
        rows = [loss for loss in made.losses.rows if (loss.code, loss.path) not in before]
        if made.body == base.body and not any(dotted(loss.path).startswith(field) for loss in rows):
            silent.append(field)
    openai = row.upstream.dialect in ("chat", "responses")
    assert set(silent) <= set(NO_SETTING) | set(AT_OPENAI if openai else ()), silent

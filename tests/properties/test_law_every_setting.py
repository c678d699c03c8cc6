"""Law: each top-level field of a request that its reader knows arrives, is a row or a 400, alone and with any other.

The fields are those of the SDKs' types and of the readers. Of two fields with one meaning, one wins: the other has a
row.
"""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest
from anthropic.types import message_create_params as messages_types
from anthropic.types.beta import message_create_params as beta_types
from openai.types.chat import completion_create_params as chat_types
from openai.types.responses import response_create_params as responses_types

from dragoman import Direction, LossCode, Losses, builtin_profile, translate
from dragoman.dialects.chat.request.read import FIELDS as CHAT_FIELDS
from dragoman.dialects.messages.request.read import FIELDS as MESSAGES_FIELDS
from dragoman.dialects.responses.request.read import FIELDS as RESPONSES_FIELDS
from dragoman.errors import ClientRequestError
from support.directions import CROSS

Json = dict[str, Any]

SCHEMA: Json = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
CLOSED: Json = {**SCHEMA, "additionalProperties": False}
CHAT_TOOL: Json = {"type": "function", "function": {"name": "look", "parameters": SCHEMA}}
RESPONSES_TOOL: Json = {"type": "function", "name": "look", "parameters": SCHEMA, "strict": False}
MESSAGES_TOOL: Json = {"name": "look", "input_schema": SCHEMA}
BASES: dict[str, Json] = {
    "chat": {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": [CHAT_TOOL]},
    "messages": {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": [MESSAGES_TOOL]},
    "responses": {"model": "m", "input": [{"role": "user", "content": "Hi"}], "tools": [RESPONSES_TOOL]},
}
_SERVICE: Json = {
    "metadata": {"a": "b"},
    "moderation": {"model": "omni-moderation-latest"},
    "parallel_tool_calls": False,
    "prompt_cache_key": "a key of the cache",
    "prompt_cache_options": {"mode": "explicit", "ttl": "30m"},
    "prompt_cache_retention": "24h",
    "safety_identifier": "someone",
    "service_tier": "flex",
    "store": True,
    "stream": True,
    "temperature": 0.5,
    "top_logprobs": 3,
    "top_p": 0.5,
    "user": "somebody",
}
VALUES: dict[str, Json] = {
    "chat": {
        **_SERVICE,
        "audio": {"voice": "alloy", "format": "wav"},
        "frequency_penalty": 0.5,
        "function_call": "auto",
        "functions": [{"name": "old", "parameters": SCHEMA}],
        "logit_bias": {"50256": -100},
        "logprobs": True,
        "max_completion_tokens": 700,
        "max_tokens": 600,
        "modalities": ["text", "audio"],
        "n": 2,
        "prediction": {"type": "content", "content": "x"},
        "presence_penalty": 0.5,
        "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": CLOSED}},
        "seed": 7,
        "stop": ["END"],
        "stream_options": {"include_usage": True},
        "thinking": {"type": "enabled", "budget_tokens": 30000},
        "tool_choice": "required",
        "verbosity": "low",
        "web_search_options": {"search_context_size": "high"},
    },
    "messages": {
        "safeguards": {"a": 1},
        "billing_policy": {"type": "x"},
        "cache_control": {"type": "ephemeral"},
        "compaction": {"type": "x"},
        "container": "container_1",
        "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
        "fallback_credit_token": "token",
        "fallbacks": [{"model": "other"}],
        "inference_geo": "us",
        "max_tokens": 700,
        "mcp_servers": [{"type": "url", "url": "https://a.example/", "name": "a"}],
        "metadata": {"user_id": "someone"},
        "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": CLOSED}},
        "output_format": {"type": "json_schema", "schema": {**CLOSED, "title": "other"}},
        "service_tier": "standard_only",
        "speed": "fast",
        "stop_sequences": ["END"],
        "stream": True,
        "system": "Be brief.",
        "temperature": 0.5,
        "thinking": {"type": "enabled", "budget_tokens": 30000},
        "thread": {"id": "thread_1"},
        "tool_choice": {"type": "any"},
        "top_k": 7,
        "top_p": 0.5,
        "user_profile_id": "profile_1",
        "workspace_id": "workspace_1",
    },
    "responses": {
        **_SERVICE,
        "access_programs": ["a"],
        "background": True,
        "context_management": [{"type": "compaction", "compact_threshold": 100000}],
        "conversation": "conv_1",
        "image": {"a": 1},
        "include": ["message.output_text.logprobs"],
        "instructions": "Be brief.",
        "max_output_tokens": 700,
        "max_tool_calls": 3,
        "previous_response_id": "resp_1",
        "prompt": {"id": "pmpt_1"},
        "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"verbosity": "low", "format": {"type": "json_schema", "name": "answer", "schema": CLOSED}},
        "tool_choice": "required",
        "truncation": "auto",
    },
}
CONTENT = {"model", "messages", "input", "tools"}
CACHE = dict.fromkeys(("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"), "of OpenAI's cache")
STORE = {"store": "storing is the gateway's part, or the default"}
OWN_SERVICE = dict.fromkeys(("diagnostics", "user_profile_id", "workspace_id"), "of use to the vendor's service only")
IGNORED: dict[str, dict[str, str]] = {
    "chat": {"stream_options": "upstreams are asked for usage anyway; the reply has it or not"},
    "messages": {"betas": "the SDK sends it as a header", **OWN_SERVICE},
    "responses": {
        "client_metadata": "ids and paths of the user, which must not be sent",
        "stream_options": "obfuscation of the vendor's own stream",
    },
    "chat→messages": {**CACHE, **STORE},
    "chat→generate": {**CACHE, **STORE},
    "messages→chat": {"cache_control": "OpenAI caches by itself"},
    "messages→responses": {"cache_control": "OpenAI caches by itself"},
    "messages→generate": {"service_tier": "Gemini serves the standard tier by default"},
    "responses→chat": STORE,
    "responses→messages": {**CACHE, **STORE},
    "responses→generate": {**CACHE, **STORE},
}
"""Client dialect or direction → fields without an effect there, with the reason (the page of the mapping has them)."""
SAME = {("include", "top_logprobs")}
"""Pairs of fields, of which the first has no effect as it requests what the second requests as well."""
TYPES = {
    "chat": (chat_types.CompletionCreateParamsStreaming,),
    "messages": (messages_types.MessageCreateParamsStreaming, beta_types.MessageCreateParamsStreaming),
    "responses": (responses_types.ResponseCreateParamsStreaming,),
}
READ = {"chat": CHAT_FIELDS, "messages": MESSAGES_FIELDS, "responses": RESPONSES_FIELDS}


def sent(row: Direction, fields: Json) -> tuple[Any, Losses]:
    """The upstream's request for the base with these fields, and the losses."""
    body = BASES[row.client.dialect] | fields
    if row.client.dialect == "messages":
        body.setdefault("max_tokens", 1000)
    made = translate(row, json.dumps(body).encode(), profile=builtin_profile(row.upstream.dialect))
    return (json.loads(made.body), made.stream, made.stop_sequences), made.losses


def keys_of(row: Direction) -> list[str]:
    """The fields of a client dialect that are to have an effect in a direction."""
    client = row.client.dialect
    return sorted(VALUES[client].keys() - IGNORED[client].keys() - IGNORED.get(str(row), {}).keys())


def is_silent(row: Direction, key: str, others: Json) -> bool:
    """True if a field has, with others, no effect, no row, and is no reason of a 400."""
    value = VALUES[row.client.dialect][key]
    try:
        without, _ = sent(row, others)
        found, losses = sent(row, {**others, key: value})
    except ClientRequestError:
        return False
    return found == without and not any(loss.path.startswith(key) for loss in losses.rows)


@pytest.mark.parametrize("dialect", VALUES)
def test_each_field_of_the_sdks_and_readers_has_a_value(dialect: str) -> None:
    known: set[str] = set(READ[dialect])
    for kind in TYPES[dialect]:
        known |= kind.__required_keys__ | kind.__optional_keys__
    assert known - CONTENT == set(VALUES[dialect]) | (set(IGNORED[dialect]) & known)


@pytest.mark.parametrize("row", CROSS, ids=str)
def test_no_field_is_lost_silently(row: Direction) -> None:
    assert [key for key in keys_of(row) if is_silent(row, key, {})] == []


@pytest.mark.few
@pytest.mark.parametrize("row", CROSS, ids=str)
def test_no_field_is_lost_silently_beside_another(row: Direction) -> None:
    values = VALUES[row.client.dialect]
    pairs = [pair for pair in permutations(keys_of(row), 2) if pair not in SAME]
    assert [(key, other) for key, other in pairs if is_silent(row, key, {other: values[other]})] == []


OVERRIDDEN: list[tuple[str, Json, str]] = [
    ("chat", {"max_tokens": 600, "max_completion_tokens": 700}, "max_tokens"),
    ("chat", {"user": "a", "safety_identifier": "b"}, "user"),
    ("responses", {"user": "a", "safety_identifier": "b"}, "user"),
    (
        "chat",
        {"thinking": {"type": "enabled", "budget_tokens": 9000}, "reasoning_effort": "low"},
        "thinking.budget_tokens",
    ),
    ("chat", {"thinking": {"type": "disabled"}, "reasoning_effort": "low"}, "reasoning_effort"),
    (
        "messages",
        {"thinking": {"type": "enabled", "budget_tokens": 9000}, "output_config": {"effort": "low"}},
        "thinking.budget_tokens",
    ),
    (
        "messages",
        {"output_format": {"type": "json_schema", "schema": {}}, "output_config": VALUES["messages"]["output_config"]},
        "output_format",
    ),
]
AGREEING: list[tuple[str, Json]] = [
    ("chat", {"max_tokens": 700, "max_completion_tokens": 700}),
    ("chat", {"user": "a", "safety_identifier": "a"}),
    ("chat", {"user": "", "safety_identifier": "a", "max_tokens": None, "max_completion_tokens": 700}),
    ("chat", {"thinking": {"type": "disabled"}, "reasoning_effort": "none"}),
    ("responses", {"user": "a", "safety_identifier": "a"}),
]


@pytest.mark.parametrize("row", CROSS, ids=str)
def test_a_field_that_another_one_overrides_has_a_row_unless_they_agree(row: Direction) -> None:
    for client, fields, at in OVERRIDDEN:
        if client == row.client.dialect:
            _, losses = sent(row, fields)
            assert [loss.path for loss in losses.rows if loss.code is LossCode.FIELD_OVERRIDDEN] == [at], fields
    for client, fields in AGREEING:
        if client == row.client.dialect:
            _, losses = sent(row, fields)
            assert LossCode.FIELD_OVERRIDDEN not in losses.counts, fields

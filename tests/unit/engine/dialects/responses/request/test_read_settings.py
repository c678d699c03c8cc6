"""Settings of a Responses request."""

from __future__ import annotations

import pytest

from dragoman.canonical.request import Json, OutputFormat, Thinking
from dragoman.losses import LossCode
from support.responses_fields import param, read

SCHEMA: Json = {"type": "object", "properties": {"a": {"type": "string"}}}


def test_controls() -> None:
    request, rows = read(
        stream=True,
        max_output_tokens=100,
        temperature=1,
        top_p=0.5,
        parallel_tool_calls=False,
        stream_options={"include_obfuscation": False},
        include=["reasoning.encrypted_content"],
    )
    assert rows == []
    assert (request.stream, request.max_tokens, request.max_tokens_at) == (True, 100, ("max_output_tokens",))
    assert (request.temperature, request.top_p, request.parallel) == (1, 0.5, False)
    assert (request.logprobs, request.top_logprobs) == (False, None)


def test_absent_controls_are_not_invented() -> None:
    request, _ = read(temperature=None, max_output_tokens=None, reasoning=None, text=None, tools=None, include=[])
    assert (request.temperature, request.top_p, request.max_tokens, request.parallel) == (None, None, None, None)
    assert (request.thinking, request.format, request.verbosity, request.tool_choice) == (None, None, None, None)
    assert request.tools == []


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"include": ["message.output_text.logprobs"]}, (True, None)),
        ({"include": ["message.output_text.logprobs"], "top_logprobs": 3}, (True, 3)),
        ({"top_logprobs": 3}, (True, 3)),
        ({"top_logprobs": 0}, (False, None)),
    ],
)
def test_log_probabilities(fields: Json, wanted: tuple[bool, int | None]) -> None:
    request, _ = read(**fields)
    assert (request.logprobs, request.top_logprobs) == wanted


@pytest.mark.parametrize(
    ("reasoning", "thinking", "paths"),
    [
        ({"effort": "xhigh", "summary": "detailed"}, Thinking("xhigh", ("reasoning", "effort"), None, "detailed"), []),
        ({"summary": "auto"}, Thinking(None, ("reasoning", "summary"), None, "auto"), []),
        ({"effort": None, "summary": None}, None, []),
        ({}, None, []),
        ({"mode": "standard", "context": "auto"}, None, []),
        ({"effort": "low", "mode": "pro"}, Thinking("low", ("reasoning", "effort")), ["reasoning.mode"]),
        ({"context": "all_turns"}, None, ["reasoning.context"]),
        ({"generate_summary": "auto"}, None, ["reasoning.generate_summary"]),
        (
            {"summary": "auto", "generate_summary": "auto"},
            Thinking(None, ("reasoning", "summary"), summary="auto"),
            [],
        ),
    ],
)
def test_reasoning(reasoning: Json, thinking: Thinking | None, paths: list[str]) -> None:
    request, rows = read(reasoning=reasoning)
    assert request.thinking == thinking
    assert rows == [(LossCode.REASONING_MODE, path) for path in paths]


def test_text() -> None:
    at = ("text", "format")
    form = {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True, "description": "d"}
    request, rows = read(text={"format": form, "verbosity": "low"})
    assert request.format == OutputFormat("json_schema", at, "n", SCHEMA, True, "d")
    assert (request.verbosity, rows) == ("low", [])
    assert read(text={"format": {"type": "json_object"}})[0].format == OutputFormat("json_object", at)
    assert read(text={"format": {"type": "text"}})[0].format is None
    assert param(text={"format": {"type": "grammar"}}) == "text.format.type"
    # Chat nests the schema; a client that confuses the two must get an error.
    assert param(text={"format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}}) == "text.format.schema"


def test_service_fields() -> None:
    request, rows = read(
        user="u",
        safety_identifier="s",
        service_tier="flex",
        metadata={"k": "v"},
        moderation={"model": "omni"},
        prompt_cache_key="key",
        prompt_cache_retention="24h",
        prompt_cache_options={"ttl": "12h"},
    )
    assert (request.end_user, request.service_tier, request.service_tier_at) == ("s", "flex", ("service_tier",))
    assert (request.metadata, request.moderation) == ({"k": "v"}, {"model": "omni"})
    assert request.cache == {
        "prompt_cache_key": "key",
        "prompt_cache_retention": "24h",
        "prompt_cache_options": {"ttl": "12h"},
    }
    assert rows == [(LossCode.FIELD_OVERRIDDEN, "user")]
    assert read(user="u")[0].end_user == "u"

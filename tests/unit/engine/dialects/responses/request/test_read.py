"""Reading Responses requests: the fields around the conversation, what is refused, what the reply repeats."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.canonical.request import Json, OutputFormat, Request, Role, Text, Thinking, Turn
from dragoman.dialects.responses.request.read import read_request
from dragoman.directions import direction
from dragoman.errors import ClientRequestError, TooMany, Unsupported
from dragoman.knobs import Knobs
from dragoman.limits import Limits
from dragoman.losses import LossCode, Losses
from dragoman.translate_request import Translation, translate

SCHEMA: Json = {"type": "object", "properties": {"a": {"type": "string"}}}


def read(**fields: Any) -> tuple[Request, list[tuple[LossCode, str]]]:
    losses = Losses()
    request = read_request({"model": "m", "input": "hi", **fields}, losses, Knobs())
    return request, [(row.code, row.path) for row in losses.rows]


def lost(**fields: Any) -> list[tuple[LossCode, str]]:
    return read(**fields)[1]


def refused(**fields: Any) -> ClientRequestError:
    with pytest.raises(ClientRequestError) as caught:
        read(**fields)
    return caught.value


def param(**fields: Any) -> str | None:
    return refused(**fields).failure.param


# --- input and instructions -------------------------------------------------------------------------------------------


def test_a_string_is_one_user_turn() -> None:
    request, rows = read()
    assert request.turns == [Turn(Role.USER, [Text("hi", ("input",))], ("input",), "", True)]
    assert (request.origin, request.model, request.stream, request.include_usage) == ("responses", "m", False, True)
    assert rows == []


def test_instructions_come_first_and_before_leading_items() -> None:
    request, _ = read(
        instructions="top",
        input=[
            {"role": "system", "content": "s"},
            {"role": "developer", "content": [{"type": "input_text", "text": "d"}]},
        ],
    )
    assert [(turn.role, turn.original, turn.at, turn.plain) for turn in request.turns] == [
        (Role.INSTRUCTION, "top", ("instructions",), True),
        (Role.INSTRUCTION, "system", ("input", 0), True),
        (Role.INSTRUCTION, "developer", ("input", 1), False),
    ]
    assert request.turns[0].parts == [Text("top", ("instructions",))]
    assert read(instructions="")[0].turns[0].role is Role.USER
    assert read(instructions=None)[0].turns[0].role is Role.USER


def test_input_is_needed() -> None:
    assert param(input=None) == param(input=[]) == param(input=5) == "input"
    assert refused(input=None).failure.message == "input: is required (a string or an array of items)"
    assert refused(input=5).failure.message == "input: expected a string or an array of items, got an integer"
    assert param(model=None) == param(model=5) == "model"
    assert param(input=["x"]) == "input[0]"
    with pytest.raises(ClientRequestError):
        read_request([], Losses(), Knobs())


def test_items_are_counted() -> None:
    body: Json = {"model": "m", "input": [{"role": "user", "content": "x"}] * 3}
    read_request(body, Losses(), Knobs(), Limits(messages=3))
    with pytest.raises(TooMany):
        read_request(body, Losses(), Knobs(), Limits(messages=2))


# --- what needs stored state ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value", "advice"),
    [
        ("previous_response_id", "resp_1", "whole conversation as `input`"),
        ("conversation", "conv_1", "whole conversation as `input`"),
        ("conversation", {"id": "conv_1"}, "whole conversation as `input`"),
        ("prompt", {"id": "pmpt_1"}, "as `instructions` and `input`"),
        ("background", True, "use `stream` instead"),
    ],
)
def test_state_is_refused_with_advice(field: str, value: Any, advice: str) -> None:
    error = refused(**{field: value})
    assert isinstance(error, Unsupported)
    assert error.failure.param == field
    assert advice in error.failure.message


def test_state_that_is_not_asked_for_is_nothing() -> None:
    assert lost(previous_response_id=None, conversation=None, prompt=None, background=False, store=True) == []
    assert read(store=True)[0].store is None


def test_T51_an_unknown_previous_response_is_rejected_and_not_ignored() -> None:
    outputs = [{"type": "function_call_output", "call_id": "c", "output": "x"}]
    assert param(previous_response_id="resp_1", input=outputs) == "previous_response_id"


# --- controls ---------------------------------------------------------------------------------------------------------


def test_controls() -> None:
    request, rows = read(
        stream=True,
        max_output_tokens=100,
        temperature=1,
        top_p=0.5,
        parallel_tool_calls=False,
        stream_options={"include_obfuscation": False},
        include=["reasoning.encrypted_content", "web_search_call.results"],
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


@pytest.mark.parametrize(
    ("fields", "row"),
    [
        ({"max_tool_calls": 3}, (LossCode.MAX_TOOL_CALLS, "max_tool_calls")),
        ({"truncation": "auto"}, (LossCode.TRUNCATION, "truncation")),
        ({"image": {"context_compression": "enabled"}}, (LossCode.VENDOR_OPTION, "image")),
        ({"access_programs": {"cyber": "standard"}}, (LossCode.VENDOR_OPTION, "access_programs")),
        ({"stop": ["x"]}, (LossCode.LEAKED_FIELD, "stop")),
        ({"generate": False}, (LossCode.UNKNOWN_FIELD, "generate")),
        ({"type": "response.create"}, (LossCode.UNKNOWN_FIELD, "type")),
        ({"stream_options": {"include_usage": True}}, (LossCode.UNKNOWN_FIELD, "stream_options.include_usage")),
        ({"text": {"colour": "red"}}, (LossCode.UNKNOWN_FIELD, "text.colour")),
        ({"reasoning": {"depth": 3}}, (LossCode.UNKNOWN_FIELD, "reasoning.depth")),
    ],
)
def test_what_is_left_out_has_a_row(fields: Json, row: tuple[LossCode, str]) -> None:
    assert lost(**fields) == [row]


def test_T44_context_management_does_not_travel() -> None:
    management = [{"type": "compaction", "compact_threshold": 1000}]
    assert lost(context_management=management) == [(LossCode.CONTEXT_MANAGEMENT, "context_management")]


def test_what_means_nothing_has_none() -> None:
    assert lost(truncation="disabled", image=None, max_tool_calls=None) == []
    # Codex's installation ids and paths must not be sent upstream; dropping them is no loss.
    assert lost(client_metadata={"x-codex-installation-id": "1"}) == []


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
    assert rows == []
    assert read(user="u")[0].end_user == "u"


# --- echo -------------------------------------------------------------------------------------------------------------


def test_the_echo_has_nothing_that_was_not_given() -> None:
    for fields in ({}, {"instructions": None, "tools": None, "tool_choice": None, "text": None, "metadata": None}):
        assert read(**fields)[0].echo == {}


def test_the_echo_repeats_what_was_given() -> None:
    given: Json = {
        "instructions": "be brief",
        "max_output_tokens": 50,
        "max_tool_calls": 2,
        "metadata": {"k": "v"},
        "parallel_tool_calls": False,
        "reasoning": {"effort": "low", "summary": None, "mode": "pro"},
        "temperature": 0.0,
        "tool_choice": {"type": "function", "name": "f"},
        "tools": [{"type": "namespace", "name": "ns", "description": "", "tools": [{"type": "function", "name": "f"}]}],
        "top_p": 0.5,
        "truncation": "auto",
        "user": "u",
        "safety_identifier": "s",
        "prompt_cache_key": "k",
    }
    echo = read(**given, store=True, text={"verbosity": "low"}, client_metadata={"path": "/home"})[0].echo
    assert {key: echo[key] for key in given} == given
    assert echo["tools"] is given["tools"]
    assert echo["text"] == {"verbosity": "low", "format": {"type": "text"}}
    assert "store" not in echo  # Nothing is stored, whatever the request sets.
    assert "client_metadata" not in echo


# --- what the writers make of it --------------------------------------------------------------------------------------


def carried(upstream: str, **fields: Any) -> Translation:
    return translate(direction("responses", upstream), json.dumps({"model": "m", "input": "hi", **fields}).encode())


@pytest.mark.parametrize(
    ("upstream", "fields", "field"),
    [
        ("messages", {"include": ["message.output_text.logprobs"]}, "include"),
        ("messages", {"top_logprobs": 2}, "top_logprobs"),
        ("chat", {"input": ""}, "input"),
        ("messages", {"input": ""}, "input"),
    ],
)
def test_writers_name_the_fields_of_the_client(upstream: str, fields: Json, field: str) -> None:
    with pytest.raises(ClientRequestError) as caught:
        carried(upstream, **fields)
    assert caught.value.failure.param == field


def test_options_of_custom_tools_have_rows_too() -> None:
    tool = {"type": "custom", "name": "p", "defer_loading": True, "allowed_callers": ["programmatic"]}
    for upstream in ("chat", "messages"):
        counts = carried(upstream, tools=[tool]).losses.counts
        assert (counts[LossCode.TOOL_SEARCH], counts[LossCode.TOOL_OPTION]) == (1, 1)

"""Reading Responses requests: the fields around the conversation, what is refused, what the reply repeats."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.canonical.parts import Json, Text
from dragoman.canonical.turn import Turn
from dragoman.dialects.directions import direction
from dragoman.dialects.responses.request.read import read_request
from dragoman.errors import ClientRequestError, TooMany, Unsupported
from dragoman.knobs import Knobs
from dragoman.limits import Limits
from dragoman.losses import LossCode, Losses
from dragoman.translate_request import Translation, translate
from support.responses_fields import param, read, refused


def lost(**fields: Any) -> list[tuple[LossCode, str]]:
    return read(**fields)[1]


def test_a_string_is_one_user_turn() -> None:
    request, rows = read()
    assert request.turns == [Turn("user", [Text("hi", ("input",))], ("input",), "", True)]
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
        ("instruction", "top", ("instructions",), True),
        ("instruction", "system", ("input", 0), True),
        ("instruction", "developer", ("input", 1), False),
    ]
    assert request.turns[0].parts == [Text("top", ("instructions",))]
    assert read(instructions="")[0].turns[0].role == "user"
    assert read(instructions=None)[0].turns[0].role == "user"


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"instructions": "top", "max_output_tokens": 5, "temperature": 1, "top_p": 0.5, "stream": True, "store": False},
        {"input": [{"role": "user", "content": "a"}, {"type": "configuration_update", "reasoning": {"effort": "low"}}]},
    ],
)
def test_usual_fields_are_read_as_beside_others(fields: Json) -> None:
    """A field that is null makes no difference, but is no usual one."""
    assert read(**fields) == read(**fields, tools=None)


@pytest.mark.parametrize("field", ["temperature", "top_p", "store", "stream", "max_output_tokens", "instructions"])
def test_usual_fields_are_checked(field: str) -> None:
    assert param(**{field: []}) == param(**{field: []}, tools=None) == field


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
    assert read(store=True)[0].store is True


def test_T51_an_unknown_previous_response_is_rejected_and_not_ignored() -> None:
    outputs = [{"type": "function_call_output", "call_id": "c", "output": "x"}]
    assert param(previous_response_id="resp_1", input=outputs) == "previous_response_id"


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

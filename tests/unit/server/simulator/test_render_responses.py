"""A Responses client's reply satisfies the Open Responses schema: streams, whole replies, and the simulator's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import Response

from dragoman import direction, translate
from dragoman.errors import StreamTruncated
from dragoman.gateway import ReplyOptions
from dragoman.wire.sse_parser import Parser
from dragoman_server.simulator.parse_request import read_responses
from dragoman_server.simulator.render_responses import frames, whole_reply
from dragoman_server.simulator.reply import SimulatedReply
from dragoman_server.simulator.scenarios import SCRIPTS, scenario_for
from oracles.grammar import GrammarError, open_responses
from support.paths import STREAMS

Json = dict[str, Any]
GOLDENS = sorted(STREAMS.glob("responses_from_[cm]*/*.sse"))
"""Of translated streams. In the others it is the upstream's word."""
CHAT_REPLY = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "upstream",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
}
"""A reply of the upstream's, as plain as it can be."""
FULL: Json = {
    "model": "m",
    "input": "Hi",
    "instructions": "Be kind.",
    "tools": [
        {"type": "function", "name": "bare"},
        {"type": "function", "name": "whole", "description": "d", "parameters": {"type": "object"}, "strict": True},
    ],
    "tool_choice": {"type": "allowed_tools", "tools": [{"type": "function", "name": "bare"}], "mode": "auto"},
    "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}, "verbosity": None},
    "reasoning": {"effort": "high"},
    "temperature": 0.5,
    "top_p": 0,
    "top_logprobs": 2,
    "max_output_tokens": 99,
    "max_tool_calls": 3,
    "metadata": {"run": "7"},
    "safety_identifier": "s",
    "prompt_cache_key": "k",
    "service_tier": "auto",
    "truncation": "auto",
    "user": "u",
    "store": True,
    "parallel_tool_calls": False,
}
"""A request that sets everything a reply repeats, each as short as the request's schema allows."""


def payloads(stream: bytes) -> Iterator[Json]:
    parser = Parser()
    for frame in [*parser.feed(stream), *parser.finish()]:
        if frame.data is not None:
            yield json.loads(frame.data)


def reply_to(body: Json, upstream: str = "chat") -> Json:
    """The whole reply to a request."""
    translation = translate(
        direction("responses", upstream), json.dumps(body).encode(), options=ReplyOptions(created=7, request_id="req_1")
    )
    translation.context.clock = lambda: 9.5
    reply: Json = json.loads(translation.reply(json.dumps(CHAT_REPLY).encode()))
    return reply


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_golden_satisfies_the_schema(golden: Path) -> None:
    for payload in payloads(golden.read_bytes()):
        open_responses.check_event(payload)


def test_a_request_that_sets_nothing_gets_the_defaults_of_the_api() -> None:
    reply = reply_to({"model": "m", "input": "Hi"})
    open_responses.check_response(reply)
    Response.model_validate(reply, strict=True)
    assert {key: reply[key] for key in ("temperature", "top_p", "presence_penalty", "frequency_penalty")} == {
        "temperature": 1.0,
        "top_p": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
    }
    assert (reply["top_logprobs"], reply["background"], reply["service_tier"]) == (0, False, "default")
    assert (reply["store"], reply["truncation"], reply["completed_at"]) == (False, "disabled", 9)
    for key in ("safety_identifier", "prompt_cache_key", "user", "reasoning", "max_tool_calls", "error"):
        assert reply[key] is None, key


def test_a_request_that_sets_null_gets_the_same() -> None:
    nulls = ("temperature", "top_p", "tools", "tool_choice", "metadata", "text", "parallel_tool_calls", "truncation")
    body = {"model": "m", "input": "Hi"}
    assert reply_to(body | dict.fromkeys(nulls)) == reply_to(body)


def test_what_the_request_set_is_repeated_whole() -> None:
    reply = reply_to(FULL)
    open_responses.check_response(reply)
    Response.model_validate(reply, strict=True)
    changed = {"tools", "text", "reasoning", "service_tier", "input", "store", "model"}
    assert {key: reply[key] for key in FULL.keys() - changed} == {key: FULL[key] for key in FULL.keys() - changed}
    assert reply["tools"] == [
        {"type": "function", "name": "bare", "description": None, "parameters": None, "strict": None},
        FULL["tools"][1],
    ]
    schema = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "description": None, "strict": False}
    assert reply["text"] == {"format": schema}
    assert reply["reasoning"] == {"effort": "high", "summary": None}
    assert (reply["service_tier"], reply["store"]) == ("default", False)


def test_a_choice_among_tools_has_its_mode() -> None:
    choice = {"type": "allowed_tools", "tools": [{"type": "function", "name": "bare"}]}
    reply = reply_to(FULL | {"tool_choice": choice})
    assert reply["tool_choice"] == choice | {"mode": "auto"}


def test_a_service_tier_that_was_not_sent_is_not_claimed() -> None:
    body = json.dumps({"model": "m", "input": "Hi", "service_tier": "flex"}).encode()
    tiers = {}
    for upstream in ("chat", "messages"):
        translation = translate(direction("responses", upstream), body)
        failed = translation.error_stream(StreamTruncated().failure)
        [tiers[upstream]] = {payload["response"]["service_tier"] for payload in payloads(failed)}
    assert tiers == {"chat": "flex", "messages": "default"}


@pytest.mark.parametrize("upstream", ["chat", "messages", "responses"])
def test_an_error_before_the_first_event_satisfies_it_too(upstream: str) -> None:
    body = {key: value for key, value in FULL.items() if key != "top_logprobs"}  # Messages has none.
    translation = translate(
        direction("responses", upstream), json.dumps(body).encode(), options=ReplyOptions(request_id="req_1")
    )
    machine = translation.stream_machine()
    events = list(payloads(machine.feed(b": hello\n\n") + machine.finish()))
    assert events[-1]["type"] == "response.failed"
    for event in events:
        open_responses.check_event(event)


@pytest.mark.parametrize("name", sorted(SCRIPTS))
@pytest.mark.parametrize("body", [{"model": "m", "input": "Hi"}, FULL], ids=["nothing-set", "everything-set"])
def test_the_simulator_satisfies_the_schema(name: str, body: Json) -> None:
    reply = SimulatedReply("upstream", body)
    scenario = scenario_for(read_responses(body | {"model": name}))
    for payload in payloads(b"".join(frames(scenario, reply))):
        if payload["type"] != "error":
            open_responses.check_event(payload)
    if scenario.status == 200:
        _, response = whole_reply(scenario, SimulatedReply("upstream", body))
        open_responses.check_response(response)
        if response["status"] != "failed":  # Its code is one that the service sends and the SDK's type does not list.
            Response.model_validate(response, strict=True)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"temperature": None}, "response.temperature is None, not float"),
        ({"temperature": True}, "response.temperature is True, not float"),
        ({"background": 0}, "response.background is 0, not bool"),
        ({"completed_at": 1.5}, "response.completed_at is 1.5"),
        ({"tools": [{"type": "function", "name": "f"}]}, r"response.tools\[0\] lacks description"),
        ({"truncation": "off"}, "response.truncation is 'off', not one of"),
        ({"tool_choice": "any"}, "response.tool_choice is 'any'"),
        ({"output": [{"type": "message", "id": "m"}]}, r"response.output\[0\] lacks status"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_the_schema_refuses(change: Json, fault: str) -> None:
    reply: Any = reply_to(FULL)
    with pytest.raises(GrammarError, match=fault):
        open_responses.check_response(reply | change)


@given(st.sampled_from(sorted(open_responses.RESPONSE)))
def test_the_schema_wants_every_key(key: str) -> None:
    reply = reply_to(FULL)
    del reply[key]
    with pytest.raises(GrammarError, match=f"response lacks {key}"):
        open_responses.check_response(reply)

"""A request that holds more of something than its limit is a 400 that names the field and the limit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import direction, translate
from dragoman.dialects.shared.request_size import check_parts
from dragoman.errors import TooMany
from dragoman.limits import Limits

Json = dict[str, Any]

USER: Json = {"role": "user", "content": "u"}
TEXT: Json = {"type": "text", "text": "t"}


def refused(client: str, body: Json, limits: Limits) -> str:
    """Return the reason why the request is refused, in every cross direction alike; its status is 400."""
    whys = set()
    for upstream in {"chat", "messages", "responses"} - {client}:
        with pytest.raises(TooMany) as raised:
            translate(direction(client, upstream), json.dumps(body).encode(), limits=limits)
        failure = raised.value.failure
        assert failure.status == 400
        assert failure.param
        whys.add(failure.message)
    (why,) = whys
    return why


@pytest.mark.parametrize(
    ("client", "message"),
    [
        ("chat", {"role": "user", "content": [TEXT] * 9}),
        ("messages", {"role": "user", "content": [TEXT] * 9}),
        ("messages", {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [TEXT] * 8}]}),
        ("responses", {"role": "user", "content": [{"type": "input_text", "text": "t"}] * 9}),
    ],
)
def test_parts(client: str, message: Json) -> None:
    field = "input" if client == "responses" else "messages"
    body: Json = {"model": "m", field: [USER, message, USER]} | ({"max_tokens": 9} if client == "messages" else {})
    why = refused(client, body, Limits(parts=8))
    assert why == f"{field}[1]: holds more than 8 parts in the messages before and in this one; the limit parts is 8"
    check_parts(10**9, body, field, Limits(parts=9))


def test_parts_of_a_short_body_are_not_counted() -> None:
    body: Json = {"messages": [{"content": [TEXT] * 9}]}
    check_parts(8 * 16, body, "messages", Limits(parts=8))
    with pytest.raises(TooMany):
        check_parts(8 * 16 + 1, body, "messages", Limits(parts=8))


def test_no_part_is_shorter_than_the_count_assumes() -> None:
    """A body of as many parts as possible is counted before it holds one too many."""
    shortest = {"type": "text", "text": ""}
    for number in range(1, 60):
        body: Json = {"model": "m", "messages": [{"role": "user", "content": [shortest] * number}]}
        text = json.dumps(body, separators=(",", ":")).encode()
        if number > 8:
            with pytest.raises(TooMany):
                translate(direction("chat", "messages"), text, limits=Limits(parts=8))


@pytest.mark.parametrize("client", ["chat", "messages", "responses"])
def test_calls(client: str) -> None:
    ids = [f"c{number}" for number in range(3)]
    if client == "chat":
        calls = [{"id": call_id, "type": "function", "function": {"name": "f", "arguments": "{}"}} for call_id in ids]
        stated: list[Json] = [{"role": "assistant", "content": None, "tool_calls": calls}]
        stated += [{"role": "tool", "tool_call_id": call_id, "content": "r"} for call_id in ids]
        body: Json = {"model": "m", "messages": [USER, *stated]}
    elif client == "messages":
        used: list[Json] = [{"type": "tool_use", "id": call_id, "name": "f", "input": {}} for call_id in ids]
        given = [{"type": "tool_result", "tool_use_id": call_id, "content": "r"} for call_id in ids]
        stated = [{"role": "assistant", "content": used}, {"role": "user", "content": given}]
        body = {"model": "m", "max_tokens": 9, "messages": [USER, *stated]}
    else:
        items = [{"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}"} for call_id in ids]
        items += [{"type": "function_call_output", "call_id": call_id, "output": "r"} for call_id in ids]
        body = {"model": "m", "input": [USER, *items]}
    field = "input" if client == "responses" else "messages"
    assert refused(client, body, Limits(calls=2)) == f"{field}: holds 3 tool calls; the limit calls is 2"


def test_tools() -> None:
    tools = [{"name": f"f{number}", "input_schema": {"type": "object"}} for number in range(3)]
    body: Json = {"model": "m", "max_tokens": 9, "messages": [USER], "tools": tools}
    assert refused("messages", body, Limits(tools=2)) == "tools: holds 3 tools; the limit tools is 2"


def test_stop_sequences() -> None:
    body = {"model": "m", "messages": [USER], "stop": ["END", "STOP"]}
    why = "stop: holds 2 stop sequences of 7 characters; the limit stops is 8"
    assert refused("chat", body, Limits(stops=8)) == why


def test_messages() -> None:
    why = "messages: holds 3 messages; the limit messages is 2"
    assert refused("chat", {"model": "m", "messages": [USER] * 3}, Limits(messages=2)) == why
    assert refused("responses", {"model": "m", "input": [USER] * 3}, Limits(messages=2)) == (
        "input: holds 3 items; the limit messages is 2"
    )


def test_what_passes_through_is_for_the_upstream_to_count() -> None:
    body = json.dumps({"model": "m", "messages": [USER] * 3}).encode()
    assert translate(direction("chat", "chat"), body, limits=Limits(messages=2, parts=1)).body == body

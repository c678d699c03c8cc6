"""A 400 names the field as the client wrote it, also where one object stands for an array of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import ClientRequestError, direction, translate
from support.directions import Json

MODELS = ("chat", "messages", "responses")
ODD: Json = {"a": 1}
REQUESTS: dict[str, tuple[str, Json, str]] = {
    "Messages, an object": ("messages", {"messages": [{"role": "user", "content": ODD}]}, "messages[0].content"),
    "Messages, an array": (
        "messages",
        {"messages": [{"role": "user", "content": [ODD]}]},
        "messages[0].content[0].type",
    ),
    "Chat, an object": ("chat", {"messages": [{"role": "user", "content": ODD}]}, "messages[0].content"),
    "Chat, an array": ("chat", {"messages": [{"role": "user", "content": [ODD]}]}, "messages[0].content[0].type"),
    "Responses, an object": ("responses", {"input": [{"role": "user", "content": ODD}]}, "input[0].content"),
    "Responses, an array": ("responses", {"input": [{"role": "user", "content": [ODD]}]}, "input[0].content[0].type"),
}

CALL: Json = {"type": "tool_use", "id": "t", "name": "f", "input": "m"}
ODD_HISTORY: list[Any] = [
    {"role": "assistant", "content": [CALL]},
    "",
    {"role": "assistant", "content": [[[[{"type": "tool_use", "id": "ff", "name": "f"}]]]]},
    {"role": "assistant", "content": [[{"type": " ", "id": "t", " name": ""}]]},
    {"role": "assistantassistant", "content": {"role": "assistant", "content": [CALL]}},
    [{"role": "assistan\nt", "content": " "}],
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "input": "m"}]},
    {"role": "assistant", "content": ["end_char_index"]},
]


@pytest.mark.parametrize("upstream", ["chat", "responses"])
def test_a_400_about_a_message_in_an_odd_form(upstream: str) -> None:
    """Found by the fuzzer: a conversation with other odd members is read in its usual form, with an array there."""
    body = json.dumps({"model": "m", "max_tokens": 9, "messages": ODD_HISTORY}).encode()
    with pytest.raises(ClientRequestError) as raised:
        translate(direction("messages", upstream), body)
    assert raised.value.failure.param == "messages[4].content.type"


@pytest.mark.parametrize("upstream", MODELS)
@pytest.mark.parametrize(("client", "fields", "named"), REQUESTS.values(), ids=REQUESTS)
def test_a_400_names_the_field_of_the_client(client: str, fields: Json, named: str, upstream: str) -> None:
    """`content[0].type` is no field of a body whose content is an object."""
    if client == upstream:
        pytest.skip("forwarded as it is")
    body = json.dumps({"model": "m", "max_tokens": 9, **fields}).encode()
    with pytest.raises(ClientRequestError) as raised:
        translate(direction(client, upstream), body)
    failure = raised.value.failure
    assert failure.param == named
    assert failure.message == str(raised.value)
    assert failure.message.startswith(f"{named}: ")


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        (("a", 0, "b"), {"a": {"b": 1}}, "a.b"),
        (("a", 0, "b"), {"a": [{"b": 1}]}, "a[0].b"),
        (("a", 0, "b"), {"a": "text"}, "a"),
        (("a", 0, "b"), {"a": []}, "a[0].b"),
        (("a", "b"), {}, "a.b"),
        (("a", "b", "c"), {"a": "text"}, "a.b.c"),
        (("a", 0, 1, "b"), {"a": {"b": 1}}, "a.b"),
    ],
)
def test_the_field_of_a_path(path: tuple[str | int, ...], body: Any, named: str) -> None:
    error = ClientRequestError(path, "is odd")
    error.name_field_of(body)
    assert (error.failure.param, str(error)) == (named, f"{named}: is odd")

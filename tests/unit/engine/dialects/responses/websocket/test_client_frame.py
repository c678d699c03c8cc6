"""Frames of clients, and the request bodies that they stand for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.dialects.responses.websocket.client_frame import ClientFrame, join_items
from dragoman.errors import ClientRequestError


def frame(**fields: Any) -> ClientFrame:
    return ClientFrame.read(json.dumps({"type": "response.create", "model": "m", **fields}).encode())


def test_fields_of_the_frame_are_not_in_the_body() -> None:
    read = frame(stream_id="a", generate=True, stream=False, background=False, input="Hi", temperature=1)
    assert (read.kind, read.stream_id) == ("response.create", "a")
    assert json.loads(read.body()) == {"model": "m", "input": "Hi", "temperature": 1, "stream": True}


def test_items_take_the_place_of_the_input_and_the_previous_response() -> None:
    read = frame(previous_response_id="resp_1", input=[{"type": "function_call_output", "call_id": "c", "output": "é"}])
    assert read.previous == "resp_1"
    items = join_items(b'{"a":1},{"b":2}', b"", read.items())
    assert json.loads(read.body(items)) == {
        "model": "m",
        "input": [{"a": 1}, {"b": 2}, {"type": "function_call_output", "call_id": "c", "output": "é"}],
        "stream": True,
    }
    assert json.loads(read.body())["previous_response_id"] == "resp_1"


@pytest.mark.parametrize(
    ("content", "items"),
    [
        ("Hi", [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}]),
        (None, []),
        ([], []),
        ([{"role": "user", "content": "Hi"}], [{"role": "user", "content": "Hi"}]),
    ],
)
def test_every_form_of_input_becomes_items(content: Any, items: list[Any]) -> None:
    read = frame(input=content)
    assert json.loads(b"[%b]" % read.items()) == items
    assert read.length == len(items)


def test_integers_of_any_length_and_halves_of_surrogate_pairs_stay() -> None:
    data = b'{"type":"response.create","model":"m","input":[{"n":123456789012345678901234567890,"t":"\\ud83d"}]}'
    read = ClientFrame.read(data)
    for body in (read.body(), read.body(read.items())):
        assert json.loads(body)["input"] == [{"n": 123456789012345678901234567890, "t": "\ud83d"}]


@pytest.mark.parametrize(
    ("fields", "warm_up"),
    [
        ({}, False),
        ({"generate": True}, False),
        ({"generate": None}, False),
        ({"generate": False}, True),
        ({"prompt_cache_options": {"prewarm": True}}, True),
        ({"prompt_cache_options": {"prewarm": False}}, False),
    ],
)
def test_a_warm_up_requests_no_output(fields: dict[str, Any], warm_up: bool) -> None:
    assert frame(**fields).warm_up is warm_up


@pytest.mark.parametrize("stream_id", ["", "a b", "é", "x" * 257, 7, ["a"]])
def test_a_lane_has_a_valid_name(stream_id: Any) -> None:
    with pytest.raises(ClientRequestError) as caught:
        frame(stream_id=stream_id)
    assert (caught.value.failure.code, caught.value.failure.param) == ("invalid_stream_id", "stream_id")


def test_the_longest_name_of_a_lane() -> None:
    assert frame(stream_id="x" * 255 + ".").stream_id == "x" * 255 + "."
    assert frame(stream_id=None).stream_id is None


@pytest.mark.parametrize("data", [b"", b"{", b"7", b"[]", b'"x"', b"\xff", b'{"type":7}', b"{}"])
def test_what_is_no_frame_is_rejected(data: bytes) -> None:
    with pytest.raises(ClientRequestError) as caught:
        ClientFrame.read(data)
    assert caught.value.failure.status == 400


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"background": True}, "background"),
        ({"input": 7}, "input"),
        ({"previous_response_id": 7}, "previous_response_id"),
    ],
)
def test_a_malformed_request_names_its_field(fields: dict[str, Any], param: str) -> None:
    read = frame(**fields)
    with pytest.raises(ClientRequestError) as caught:
        _ = read.previous, read.items(), read.body()
    assert caught.value.failure.param == param

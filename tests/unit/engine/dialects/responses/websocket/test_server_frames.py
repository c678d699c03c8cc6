"""Frames that are sent without an upstream's stream."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.responses import ResponsesServerEvent
from pydantic import TypeAdapter

from dragoman.dialects.responses.websocket.client_frame import ClientFrame
from dragoman.dialects.responses.websocket.server_frames import (
    error_frame,
    heartbeat_frame,
    steer_failed_frame,
    stream_id_tail,
    warm_up_frames,
)
from oracles.grammar import open_responses

SDK: TypeAdapter[Any] = TypeAdapter(ResponsesServerEvent)


def frame(**fields: Any) -> ClientFrame:
    return ClientFrame.read(json.dumps({"type": "response.create", "model": "m", **fields}).encode())


def test_an_error_has_its_status_and_headers() -> None:
    body = b'{"error":{"message":"wait","type":"rate_limit_error","param":null,"code":null}}'
    headers = {"Retry-After": "7", "Content-Type": "application/json", "x-request-id": "req_1"}
    written = json.loads(error_frame(429, body, headers, "lane"))
    SDK.validate_python(written)
    kept = {"retry-after": "7", "x-request-id": "req_1"}
    assert (written["type"], written["status"], written["stream_id"]) == ("error", 429, "lane")
    assert written["headers"] == written["error"]["headers"] == kept
    assert written["error"]["message"] == "wait"


def test_an_error_without_headers_and_lane() -> None:
    body = b'{"error":{"message":"no","type":"invalid_request_error","param":"x","code":null}}'
    assert json.loads(error_frame(400, body, {}, code="other")) == {
        "type": "error",
        "status": 400,
        "error": {"message": "no", "type": "invalid_request_error", "param": "x", "code": "other"},
    }


def test_a_warm_up_has_the_events_of_an_empty_response() -> None:
    tool = {"type": "function", "name": "f", "parameters": {}}
    response_id, frames = warm_up_frames(frame(generate=False, tools=[tool], previous_response_id="resp_0"), "abc", 7)
    assert response_id == "resp_abc"
    events = [json.loads(written) for written in frames]
    assert [event["type"] for event in events] == ["response.created", "response.in_progress", "response.completed"]
    for number, event in enumerate(events):
        SDK.validate_python(event)
        open_responses.check_event(event)
        assert event["sequence_number"] == number
        response = event["response"]
        assert (response["id"], response["previous_response_id"], response["output"]) == ("resp_abc", "resp_0", [])
        assert response["tools"][0]["name"] == "f"
    assert (events[-1]["response"]["status"], events[-1]["response"]["completed_at"]) == ("completed", 7)


@pytest.mark.parametrize("fields", [{"tools": [7]}, {"tools": [{}]}, {"text": 7}, {"reasoning": 7}, {"tools": 7}])
def test_malformed_settings_of_a_warm_up_are_not_repeated(fields: dict[str, Any]) -> None:
    _, frames = warm_up_frames(frame(generate=False, **fields), "abc", 7)
    open_responses.check_event(json.loads(frames[-1]))


def test_the_end_of_an_event() -> None:
    assert stream_id_tail(None) == b"}"
    assert json.loads(b'{"a":1' + stream_id_tail("x.y-1")) == {"a": 1, "stream_id": "x.y-1"}


def test_steering_returns_its_input() -> None:
    steer = {"previous_response_id": "resp_1", "input": "Stop."}
    written = json.loads(steer_failed_frame(ClientFrame("response.steer", None, {"type": "response.steer", **steer})))
    SDK.validate_python(written)
    assert written["steer"] == steer


def test_a_heartbeat_names_its_lane() -> None:
    assert json.loads(heartbeat_frame(None)) == {"type": "keepalive", "sequence_number": 0}
    assert json.loads(heartbeat_frame("a")) == {"type": "keepalive", "sequence_number": 0, "stream_id": "a"}

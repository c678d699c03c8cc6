"""A captured exchange: the difference of its requests, and both sides of its reply."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.wire import Json
from dragoman_server.endpoints.console import captured
from dragoman_server.endpoints.console.captured import captured_view
from dragoman_server.observability.captures.store import CaptureStore
from support.gateways import CHAT, MESSAGES
from support.samples import text_stream

LOSS = {"code": "top_k", "path": "top_k", "done": "dropped", "meaning": "top_k was not sent"}
STREAM = [["content-type", "text/event-stream; charset=utf-8"]]


def body(data: bytes, **more: Any) -> Json:
    return {"bytes": len(data), "truncated": False, "text": data.decode(), **more}


def pieces(name: str, data: list[bytes], first: float) -> Json:
    parts = [[first + number / 10, len(piece)] for number, piece in enumerate(data)]
    return {"status": 200, "headers": STREAM, name: parts, **body(b"".join(data))}


class Capture:
    """A capture of a Messages request to a Chat upstream."""

    def __init__(self, **attempt: Any) -> None:
        received = json.dumps({"model": "m", "top_k": 4, "max_tokens": 9}).encode()
        sent = json.dumps({"model": "up", "max_completion_tokens": 9}).encode()
        self.summary: Json = {"texts": True, "truncated": False}
        self.exchange: Json = {
            "client": {
                "request": {"method": "POST", "path": "/v1/messages", "headers": [], **body(received)},
                "reply": pieces("writes", text_stream(MESSAGES), 0.05),
            },
            "attempts": [
                {
                    "began": 0.0,
                    "request": {"url": "http://up/v1/chat/completions", "headers": [], **body(sent)},
                    "reply": pieces("reads", text_stream(CHAT), 0.0),
                    **attempt,
                }
            ],
            "receipt": {"losses": [LOSS]},
        }


class Reader(CaptureStore):
    def __init__(self, capture: Any) -> None:
        self.capture = capture

    def get(self, capture_id: str) -> Any:
        assert capture_id == "req_1"
        if isinstance(self.capture, Exception):
            raise self.capture
        return self.capture


def view(capture: Any) -> Any:
    return captured_view(Reader(capture), "req_1")


def test_both_requests_and_their_difference() -> None:
    found = view(Capture())
    assert found["received"]["head"] == "POST /v1/messages"
    assert found["sent"]["head"] == "POST http://up/v1/chat/completions"
    assert json.loads(found["received"]["body"])["top_k"] == 4
    changes = {row["path"]: row["change"] for row in found["diff"]}
    assert changes == {"model": "changed", "max_tokens": "renamed", "top_k": "dropped"}
    assert [row["losses"] for row in found["diff"] if row["path"] == "top_k"] == [[LOSS]]


def test_both_sides_in_the_order_of_time() -> None:
    batches = view(Capture())["recording"]["batches"]
    assert [batch[0] for batch in batches[:4]] == ["received", "sent", "received", "sent"]
    assert [batch[1] for batch in batches] == sorted(batch[1] for batch in batches)
    sent = [frame for side, _, _, frames in batches if side == "sent" for frame in frames]
    assert sent[0][0] == "message_start"
    assert "Grüße" in "".join(data for _, data in sent)


@pytest.mark.parametrize("found", [None, OSError("gone"), ValueError("damaged")])
def test_without_a_capture_that_can_be_read_there_is_none(found: Any) -> None:
    assert view(found) is None


def test_an_exchange_that_sent_nothing() -> None:
    capture = Capture()
    capture.exchange["attempts"] = []
    found = view(capture)
    assert (found["sent"], found["diff"]) == (None, None)
    assert {batch[0] for batch in found["recording"]["batches"]} == {"sent"}


def test_an_attempt_without_a_reply() -> None:
    found = view(Capture(reply=None))
    assert {batch[0] for batch in found["recording"]["batches"]} == {"sent"}


def test_a_whole_reply_is_one_frame() -> None:
    reply = {"status": 200, "headers": [["content-type", "application/json"]], "reads": [[0.1, 2], [0.2, 2]]}
    found = view(Capture(reply={**reply, **body(b'{"a"')}))
    assert [frames for side, _, _, frames in found["recording"]["batches"] if side == "received"] == [[("", '{"a"')]]


@pytest.mark.parametrize("place", ["truncated", "base64", "not JSON"])
def test_bodies_that_are_not_whole_are_not_compared(place: str) -> None:
    capture = Capture()
    request = capture.exchange["client"]["request"]
    if place == "truncated":
        request["truncated"] = True
    elif place == "base64":
        del request["text"]
        request["base64"] = "AAAA"
    else:
        request["text"] = "x"
    found = view(capture)
    assert found["diff"] is None
    assert found["received"]["cut"] == (place == "truncated")


def test_what_is_shown_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured, "FRAMES_MAX", 3)
    monkeypatch.setattr(captured, "DATA_MAX", 5)
    monkeypatch.setattr(captured, "TEXT_MAX", 5)
    found = view(Capture())
    frames = [frame for *_, shown in found["recording"]["batches"] for frame in shown]
    assert len(frames) <= 3
    assert max(len(data) for _, data in frames) == 5
    assert found["recording"]["dropped"] > 0
    assert (len(found["received"]["body"]), found["received"]["cut"]) == (5, True)

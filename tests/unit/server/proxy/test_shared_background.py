"""The statements of processes about a response in the background; `e2e/test_shared_runs.py` runs them."""

from __future__ import annotations

import json

from dragoman import Dialect
from dragoman.threads import StoredRequest
from dragoman_server.proxy.runs.interface import Run
from dragoman_server.proxy.shared_background import SharedBackground, is_streamed, terminal_frame
from dragoman_server.receipt import Receipt


def test_the_head_states_if_events_are_kept() -> None:
    request = StoredRequest.read({"model": "m", "input": "Hi", "previous_response_id": "resp_0"})
    assert request is not None
    for streamed in (False, True):
        head = SharedBackground.head(Receipt("req_1", Dialect.RESPONSES, 7), request, streamed=streamed)
        assert (head["request_id"], head["created"], head["parent"]) == ("req_1", 7, "resp_0")
        run = Run(True, False, "", 0, 0, json.dumps(head).encode(), b"")
        assert is_streamed(run) is streamed


def test_the_last_frame_has_the_status_of_the_response() -> None:
    frame = terminal_frame({"id": "resp_1", "status": "cancelled"}, 7)
    event, data = frame.removesuffix(b"\n\n").split(b"\ndata: ")
    assert event == b"event: response.incomplete"
    assert json.loads(data)["sequence_number"] == 7

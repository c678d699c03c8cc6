"""The requests of a connection's turns, and the errors of those that fail."""

from __future__ import annotations

import json

from multidict import CIMultiDict

from dragoman.errors import FailureKind
from dragoman_server.endpoints.websocket.turn import failure_frame, turn_headers
from dragoman_server.proxy.error_response import client_failure


def test_headers_about_the_handshake_are_left_out() -> None:
    headers = CIMultiDict(
        {
            "Host": "x",
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Key": "k",
            "Sec-WebSocket-Extensions": "permessage-deflate",
            "Origin": "http://x",
            "Content-Length": "0",
            "Authorization": "Bearer key",
            "X-Dragoman-On-Loss": "reject",
        }
    )
    headers.add("Sec-WebSocket-Extensions", "x")
    assert turn_headers(headers) == CIMultiDict(
        {
            "host": "x",
            "authorization": "Bearer key",
            "x-dragoman-on-loss": "reject",
            "content-type": "application/json",
        }
    )


def test_the_error_of_a_lane() -> None:
    failure = client_failure(FailureKind.RATE_LIMIT, "wait", 429, code="websocket_queue_full")
    failure.headers["retry-after"] = "1"
    frame = json.loads(failure_frame(failure, "a"))
    assert (frame["type"], frame["status"], frame["stream_id"]) == ("error", 429, "a")
    assert (frame["error"]["code"], frame["headers"]) == ("websocket_queue_full", {"retry-after": "1"})

"""The headers of requests for streams that can be resumed."""

from __future__ import annotations

import pytest

from dragoman import ClientRequestError
from dragoman_server.proxy.resumable.position import Position, wanted_position


@pytest.mark.parametrize(
    ("headers", "wanted"),
    [
        ({}, False),
        ({"x-dragoman-resume": "false"}, False),
        ({"x-dragoman-resume": "true"}, True),
        ({"x-dragoman-resume": "req_1a"}, Position("req_1a", 0)),
        ({"x-dragoman-resume": "req_1a.0"}, Position("req_1a", 1)),
        ({"x-dragoman-resume": " req_1a.41 "}, Position("req_1a", 42)),
        # A client that connects again repeats the headers of its first request.
        ({"x-dragoman-resume": "true", "last-event-id": "req_1a.7"}, Position("req_1a", 8)),
        # An id that another server returned to its events.
        ({"last-event-id": "1718-0"}, False),
        ({"x-dragoman-resume": "true", "last-event-id": "7"}, True),
        # Not a number: the text is an id, which is unknown then.
        ({"last-event-id": "req_1a.٣"}, Position("req_1a.٣", 0)),
        ({"last-event-id": "req_1a." + "9" * 30}, Position("req_1a." + "9" * 30, 0)),
        ({"last-event-id": "req_1a.-1"}, Position("req_1a.-1", 0)),
    ],
)
def test_what_a_request_wants(headers: dict[str, str], wanted: object) -> None:
    if "x-dragoman-resume" in headers and headers["x-dragoman-resume"].startswith(" "):
        assert Position.read(headers["x-dragoman-resume"]) == wanted
    else:
        assert wanted_position(headers) == wanted


@pytest.mark.parametrize("text", ["", "yes", "1", "41", "resp_1a.3"])
def test_other_values_are_rejected(text: str) -> None:
    with pytest.raises(ClientRequestError, match="expected true, or the id"):
        wanted_position({"x-dragoman-resume": text})

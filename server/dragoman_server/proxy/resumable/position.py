"""The place in a stream from which a client resumes it, as it is in the headers of a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dragoman import ClientRequestError

RESUME = "x-dragoman-resume"
"""Header of a request for a stream that can be resumed (`true`), or that resumes one; and of the response to both."""
LAST_EVENT_ID = "last-event-id"
"""Header of a client that connects again: the id of the last event that it received (HTML standard)."""
_DIGITS_MAX = 9


class Position(NamedTuple):
    """The event `number` of the stream of the request `request_id`: the first one that the client has not received."""

    request_id: str
    number: int

    @classmethod
    def read(cls, text: str) -> Position:
        """Return the position after the event with this id; a request id alone is the beginning of its stream."""
        request_id, dot, digits = text.strip().rpartition(".")
        if dot and digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX:
            return cls(request_id, int(digits) + 1)
        return cls(text.strip(), 0)


def wanted_position(headers: Mapping[str, str]) -> Position | bool:
    """Return the position at which a request resumes a stream. False: it does not; True: it begins one that it may.

    A client that connects again may repeat the headers of its first request, so `Last-Event-ID` is read first. Ids of
    other servers are ignored there. Raises ClientRequestError.
    """
    last, resume = headers.get(LAST_EVENT_ID), headers.get(RESUME)
    if last is not None and last.startswith("req_"):
        return Position.read(last)
    if resume is None or resume == "false":
        return False
    if resume == "true":
        return True
    if not resume.startswith("req_"):
        raise ClientRequestError(RESUME, "expected true, or the id of an event or of a request")
    return Position.read(resume)

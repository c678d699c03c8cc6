"""The end of a response that its upstream has run in the background, in what a client reads about it later."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from dragoman.canonical.events import Usage
from dragoman.canonical.service_report import ServiceReport
from dragoman.dialects.responses.reply.read import read_status
from dragoman.dialects.responses.reply_fields import note_service
from dragoman.dialects.responses.stop_and_usage import ENDED
from dragoman.dialects.responses.stream.phases import TERMINALS
from dragoman.errors import DragomanError, Failure
from dragoman.short_repr import short_repr
from dragoman.tokens.reply_text import reply_length
from dragoman.wire.json_codec import loads
from dragoman.wire.sse_parser import Parser

_TERMINAL: Final = re.compile(rb'"type" ?: ?"(?:%b)"' % b"|".join(map(re.escape, map(str.encode, TERMINALS))))


@dataclass(slots=True)
class ResponseEnd:
    """The end of one response."""

    status: str
    """`completed`, `incomplete`, `failed` or `cancelled`."""
    usage: Usage | None = None
    """The token counts, None if it states none."""
    service: ServiceReport | None = None
    """The statements of the upstream about its service."""
    failure: Failure | None = None
    """The error in which it has failed, or None."""
    written: int = 0
    """The characters of its texts, if its output was not counted."""

    def __repr__(self) -> str:
        return short_repr(self, self.status)


def read_end(body: bytes) -> ResponseEnd | None:
    """Return the end in the JSON of a response; None if the response goes on, or if it is something else."""
    try:
        response = loads(body)
    except ValueError:
        return None
    return _end_of(response, None) if type(response) is dict and response.get("object") == "response" else None


def find_end(frames: bytes) -> ResponseEnd | None:
    """Return the end in whole frames of a stream, None if they have no terminal event."""
    if _TERMINAL.search(frames) is None:
        return None
    for frame in Parser().parse(frames):
        if frame.data and _TERMINAL.search(frame.data) is not None:
            try:
                event = loads(frame.data)
            except ValueError:
                continue
            if type(event) is dict and event.get("type") in TERMINALS and type(event.get("response")) is dict:
                return _end_of(event["response"], TERMINALS[event["type"]])
    return None


def _end_of(response: Any, terminal: str | None) -> ResponseEnd | None:
    status = terminal or response.get("status")
    if type(status) is not str or (status := status.lower()) not in ENDED:
        return None
    end = ResponseEnd(status)
    end.usage = usage = note_service(response, end)
    if usage is None or usage.output_total is None:
        end.written = reply_length(response)
    try:
        end.status = read_status(response, terminal) or status
    except DragomanError as error:
        end.failure = error.failure
        if status != "cancelled":
            end.status = "failed"
    return end

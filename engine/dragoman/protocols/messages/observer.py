"""Watches a Messages stream that is passed through: terminal, usage, in-band error, grammar."""

from __future__ import annotations

from ...errors import Failure
from ...events import Usage
from ...jsontext import dumps, loads
from ...model import Json
from ...sse import Frame
from .failure import read_error_frame, write_error_frame
from .wire import read_usage


class MessagesObserver:
    """`message_stop` closes the stream; every delta must be of an open block."""

    __slots__ = ("_counts", "_open", "_started", "closed", "complete", "failure", "usage", "violations")

    def __init__(self) -> None:
        self.complete = False
        self.closed = False
        self.usage: Usage | None = None
        self.failure: Failure | None = None
        self.violations: list[str] = []
        self._started = False
        self._counts: Json = {}
        self._open: set[object] = set()

    def observe(self, data: bytes, event: str) -> None:
        """One event."""
        if self.closed:
            return self._violation("an event after the end")
        try:
            payload = loads(data)
        except ValueError:
            return self._violation("a frame that is not JSON")
        if type(payload) is not dict:
            return self._violation("a frame that is not a JSON object")
        name, index = payload.get("type"), payload.get("index")
        if type(index) is not int:
            index = None
        if event != name:
            self._violation(f"event line {event!r} with type {name!r}")
        if name == "content_block_delta":
            if index not in self._open:
                self._violation("a delta of a block that is not open")
        elif name == "message_start":
            if self._started:
                self._violation("message_start twice")
            self._started = True
            message = payload.get("message")
            self._count(message.get("usage") if type(message) is dict else None)
        elif name == "content_block_start":
            if index in self._open:
                self._violation("a block started twice")
            self._open.add(index)
        elif name == "content_block_stop":
            if index not in self._open:
                self._violation("a stop of a block that is not open")
            self._open.discard(index)
        elif name == "message_delta":
            self._count(payload.get("usage"))
        elif name == "message_stop":
            if self._open or not self._started:
                self._violation("message_stop out of place")
            self.complete = self.closed = True
        elif name == "error":
            self.failure = read_error_frame(payload)
            self.closed = True

    def _count(self, usage: object) -> None:
        if type(usage) is dict:
            self._counts.update((key, value) for key, value in usage.items() if value is not None)
            self.usage = read_usage(self._counts)

    def error_frame(self, failure: Failure) -> Frame:
        """`event: error`."""
        return Frame("error", dumps(write_error_frame(failure, None)))

    def _violation(self, what: str) -> None:
        if len(self.violations) < 8:
            self.violations.append(what)

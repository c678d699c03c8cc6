"""Watches a Chat stream that is passed through: terminal, usage, in-band error, grammar."""

from __future__ import annotations

from ...errors import Failure
from ...events import Usage
from ...jsontext import dumps, loads
from ...sse import Frame
from .failure import is_error_frame, read_error_frame, write_error_frame
from .wire import read_usage


class ChatObserver:
    """A Chat stream may hold several choices, log probabilities and calls of any kind: all of that is fine here."""

    __slots__ = ("_finished", "_open", "_seen", "closed", "complete", "failure", "usage", "violations")

    def __init__(self) -> None:
        self.complete = False
        self.closed = False
        self.usage: Usage | None = None
        self.failure: Failure | None = None
        self.violations: list[str] = []
        self._seen = False
        self._open: set[object] = set()
        self._finished: set[object] = set()

    def observe(self, data: bytes, event: str) -> None:
        """One chunk, or `[DONE]`."""
        if self.closed:
            return self._violation("a frame after the end")
        if data == b"[DONE]":
            self.closed = True
            if not self.complete:
                self._violation("[DONE] before every choice had finished")
            return
        try:
            chunk = loads(data)
        except ValueError:
            return self._violation("a frame that is not JSON")
        if type(chunk) is not dict:
            return self._violation("a frame that is not a JSON object")
        if is_error_frame(chunk):
            self.failure = read_error_frame(chunk)
            self.closed = True
            return
        if usage := chunk.get("usage"):
            self.usage = read_usage(usage) or self.usage
        choices = chunk.get("choices")
        if type(choices) is not list:
            return self._violation("a chunk without choices")
        for choice in choices:
            if type(choice) is not dict:
                self._violation("a choice that is not an object")
                continue
            index = choice.get("index")
            if type(index) is not int:
                self._violation("a choice without an index")
                index = None
            self._seen = True
            if choice.get("finish_reason"):
                self._open.discard(index)
                self._finished.add(index)
            elif index not in self._finished:
                self._open.add(index)
            else:
                self._violation("a chunk of a choice that had finished")
        self.complete = self._seen and not self._open

    def error_frame(self, failure: Failure) -> Frame:
        """`data: {"error": …}`."""
        return Frame("", dumps(write_error_frame(failure, None)))

    def _violation(self, what: str) -> None:
        if len(self.violations) < 8:
            self.violations.append(what)

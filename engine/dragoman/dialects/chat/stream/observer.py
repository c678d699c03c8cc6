"""Watches a Chat stream that is passed through: terminal, usage, in-band error, grammar."""

from __future__ import annotations

from dragoman.canonical.request import Json
from dragoman.dialects.chat.errors import is_error_frame, read_error_frame, write_error_frame
from dragoman.dialects.chat.stream.reader import ChatReader
from dragoman.dialects.chat.wire import read_usage
from dragoman.errors import Failure
from dragoman.stages.passthrough import Observer
from dragoman.wire.json_codec import dumps
from dragoman.wire.sse import Frame


class ChatObserver(Observer):
    """A Chat stream may hold several choices, log probabilities and calls of any kind: all of that is fine here."""

    __slots__ = ("_finished", "_open", "_seen")

    varying_keys = ChatReader.volatile

    def __init__(self) -> None:
        super().__init__()
        self._seen = False
        self._open: set[object] = set()
        self._finished: set[object] = set()

    def observe(self, data: bytes, event: str) -> None:
        """One chunk, or `[DONE]`."""
        if data == b"[DONE]" and not self.closed:
            self.closed = True
            if not self.complete:
                self.violation("[DONE] before every choice had finished")
            return
        super().observe(data, event)

    def watch(self, payload: Json, event: str) -> None:
        """One chunk."""
        if is_error_frame(payload):
            self.failure = read_error_frame(payload)
            self.closed = True
            return
        if usage := payload.get("usage"):
            self.usage = read_usage(usage) or self.usage
        choices = payload.get("choices")
        if type(choices) is not list:
            return self.violation("a chunk without choices")
        for choice in choices:
            if type(choice) is not dict:
                self.violation("a choice that is not an object")
                continue
            index = choice.get("index")
            if type(index) is not int:
                self.violation("a choice without an index")
                index = None
            self._seen = True
            delta = choice.get("delta")
            if type(delta) is dict and delta:
                self.progressed = True
                self.tool_open |= bool(delta.get("tool_calls"))
            if choice.get("finish_reason"):
                self.tool_open = False
                self._open.discard(index)
                self._finished.add(index)
            elif index not in self._finished:
                self._open.add(index)
            else:
                self.violation("a chunk of a choice that had finished")
        self.complete = self._seen and not self._open
        if len(choices) == 1 and not self.violations:
            self.sole_text = _sole_text(choices[0])

    def error_frame(self, failure: Failure, request_id: str | None = None) -> Frame:
        """`data: {"error": …}`."""
        return Frame("", dumps(write_error_frame(failure, request_id)))


def _sole_text(choice: Json) -> str | None:
    """The one text of a choice that goes on."""
    delta = choice.get("delta")
    if choice.get("finish_reason") or type(delta) is not dict or len(delta) != 1:
        return None
    (value,) = delta.values()
    if type(value) is list and len(value) == 1 and type(value[0]) is dict:
        function = value[0].get("function")
        value = function.get("arguments") if type(function) is dict else None
    return value if type(value) is str else None

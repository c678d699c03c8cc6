"""Observes Messages streams that are passed through: their end, usage, in-band errors and grammar."""

from __future__ import annotations

from dragoman.canonical.request import Json
from dragoman.dialects import Dialect
from dragoman.dialects.errors.fields import reports_error
from dragoman.dialects.errors.redact import quote_word
from dragoman.dialects.messages.errors import write_error_frame
from dragoman.dialects.messages.reply_fields import TEXT_KEYS, note_message
from dragoman.dialects.messages.stop_and_usage import merge_counts, read_stop, read_usage, stated_usage
from dragoman.errors import Failure, StreamTruncated
from dragoman.stages.observer import Observer
from dragoman.wire.json_codec import dumps
from dragoman.wire.sse import Frame

_STOP = Frame("message_stop", b'{"type":"message_stop"}')


class MessagesObserver(Observer):
    """Observes one Messages stream. `message_stop` closes it, and every delta must belong to an open block.

    A `message_stop` inside an open tool call is a fault: clients would run the call with incomplete arguments.
    """

    __slots__ = ("_calls", "_counts", "_open", "_started", "_stopped")

    dialect = Dialect.MESSAGES

    def __init__(self) -> None:
        super().__init__()
        self._started = self._stopped = False
        self._counts: Json = {}
        """The upstream's counts so far."""
        self._open: set[object] = set()
        """Indexes of the open blocks."""
        self._calls: set[object] | None = None
        """Indexes of the open blocks that are calls."""

    def observe(self, data: bytes, event: str) -> None:
        """Observe one event. `[DONE]`, which some servers send although Messages does not have it, is ignored."""
        if data == b"[DONE]" and not self.closed:
            self.sole_text = None
            return
        super().observe(data, event)

    def watch(self, payload: Json, event: str) -> None:
        """Observe the payload of one event; `event` is the name in its event line."""
        name, index = payload.get("type"), payload.get("index")
        if type(index) is not int:
            index = None
        if name == "message" and not self._started:
            self.whole = b""
            return
        if event != name:
            self.violation(f"event line '{quote_word(event)}' with type '{quote_word(str(name))}'")
        if name == "content_block_delta":
            self._delta(index, payload.get("delta"), sole=event == name)
        elif name == "message_start":
            self._start(payload.get("message"))
        elif name == "content_block_start":
            self._start_block(index, payload.get("content_block"))
        elif name == "content_block_stop":
            self._stop_block(index)
        elif name == "message_delta":
            self._message_delta(payload)
        elif name == "message_stop":
            self._count(stated_usage(payload))
            self._stop()
        elif name == "error" or reports_error(payload):
            self.watch_error(payload, event)

    def _start(self, message: object) -> None:
        if self._started:
            self.violation("message_start twice")
        self._started = True
        if type(message) is not dict:
            return
        if message.get("content") and message.get("stop_reason"):
            self.whole = dumps(message)
            return
        note_message(message, self)
        usage = message.get("usage")
        if type(usage) is dict:
            self._count({**usage, "output_tokens": None})  # its count of the output is not final

    def _start_block(self, index: int | None, block: object) -> None:
        if index in self._open:
            self.violation("a block started twice")
        self._open.add(index)
        if type(block) is not dict:
            return
        given = block.get("input")  # some servers send a whole call at once
        self._count_text(block.get("text") or block.get("thinking") or (dumps(given) if given else None))
        if block.get("type") == "tool_use":
            self._calls = self._calls or set()
            self._calls.add(index)
            self.tool_open = self.progressed = True

    def _delta(self, index: int | None, delta: object, *, sole: bool) -> None:
        """Observe a delta. With `sole`, its text is the only effect of the event."""
        self.progressed = True
        text = delta.get(TEXT_KEYS.get(str(delta.get("type")), "")) if type(delta) is dict else None
        self._count_text(text)
        if index not in self._open:
            self.violation("a delta of a block that is not open")
        elif sole and type(delta) is dict and len(delta) == 2:
            self.sole_text = text

    def _stop_block(self, index: int | None) -> None:
        if index not in self._open:
            self.violation("a stop of a block that is not open")
        self._open.discard(index)
        if self._calls:
            self._calls.discard(index)
            self.tool_open = len(self._calls) > 0

    def _message_delta(self, event: Json) -> None:
        self._count(event.get("usage"))
        note_message(event, self)
        delta = event.get("delta")
        if type(delta) is dict and (native := delta.get("stop_reason")):
            self.check_stop(read_stop, native)
            self._stopped = True
        self.counted |= self._stopped

    def _stop(self) -> None:
        if self._open or not self._started:
            self.violation("message_stop out of place")
        self.closed = True
        if self._calls:
            self.fault = StreamTruncated("upstream sent message_stop within an open tool call").failure
        elif not self._stopped:
            self.fault = StreamTruncated("upstream sent message_stop before a stop_reason").failure
        else:
            self.complete = True

    def _count(self, usage: object) -> None:
        if type(usage) is dict:
            merge_counts(self._counts, usage)
            self.usage = read_usage(self._counts)

    def _count_text(self, text: object) -> None:
        self.written += len(text) if isinstance(text, str | bytes) else 0

    def omitted_terminal(self) -> Frame | None:
        """Return the `message_stop` that a lenient profile's upstream left out after a stop reason, else None."""
        return _STOP if self.lenient and self._stopped and not self._open else None

    def is_own_error(self, payload: Json, event: str) -> bool:
        """Return whether the SDKs read this error: they pick events by the event line."""
        error = payload.get("error")
        return event == "error" and type(error) is dict and type(error.get("message")) is str

    def error_frame(self, failure: Failure, request_id: str | None = None) -> Frame:
        """Return the in-band `error` event."""
        return Frame("error", dumps(write_error_frame(failure, request_id)))

"""Watches a Responses stream that is passed through: terminal, usage, in-band error, grammar."""

from __future__ import annotations

from typing import Final

from orjson import Fragment

from dragoman.canonical.request import Json
from dragoman.dialects import Dialect
from dragoman.dialects.errors.read import read_payload
from dragoman.dialects.errors.redact import quote_word
from dragoman.dialects.responses.errors import response_error
from dragoman.dialects.responses.reply.read import read_status
from dragoman.dialects.responses.reply.read_items import CALLS
from dragoman.dialects.responses.reply.response_object import ResponseObject
from dragoman.dialects.responses.stream.read_items import HANDLERS
from dragoman.dialects.responses.stream.reader import TERMINALS, ResponsesReader
from dragoman.dialects.responses.wire import read_usage
from dragoman.errors import DragomanError, Failure, StreamTruncated
from dragoman.limits import DEFAULT
from dragoman.reply_context import ReplyContext
from dragoman.stages.passthrough import Observer
from dragoman.wire.json_codec import dumps, loads
from dragoman.wire.sse import Frame

_ECHO_MAX: Final = 256 * 1024
"""Bytes of the first snapshot that are kept. What is longer is kept without what repeats the request at length."""
_LONG: Final[Json] = {
    "instructions": None,
    "tools": [],
    "metadata": {},
    "text": {"format": {"type": "text"}},
    "prompt": None,
}

# fmt: off
_ADDED: Final = (
    "id", "object", "created_at", "model", "status", "output", "parallel_tool_calls", "tool_choice", "tools", "error",
    "incomplete_details", "instructions", "metadata", "temperature", "top_p", "usage",
)
# fmt: on
"""What is added to a first snapshot that lacks it: OpenAI's schema requires it. The rest stays as the server has it,
since a snapshot must not change within a stream."""


class ResponsesObserver(Observer):
    """A terminal event closes the stream. An `error` does not: services send `response.failed` behind it, and agents
    read only that. `response.completed` with an item that is not done is a fault: agents act on items that are done.

    The first snapshot is kept, and the items that are done: an error of our own must repeat them, as the SDK refuses
    another id.
    """

    __slots__ = ("_budget", "_calls", "_done", "_echo", "_last", "_open")

    varying_keys = ResponsesReader.volatile

    def __init__(self) -> None:
        super().__init__()
        self._echo: bytes | None = None
        self._last = -1
        self._open: set[int] = set()
        """Indexes of the items that were added and not yet done."""
        self._calls: set[int] | None = None
        """Those of them that are calls of the client's tools."""
        self._done: list[bytes] | None = None
        """The items that are done, as far as there is room."""
        self._budget = _ECHO_MAX

    def observe(self, data: bytes, event: str) -> None:
        """One event; `[DONE]` is not of this dialect, but some servers send it."""
        if data == b"[DONE]":
            self.sole_text = None
            if not self.complete:
                self.violation("[DONE] before the terminal event")
            return
        super().observe(data, event)

    def watch(self, payload: Json, event: str) -> None:
        """One event."""
        name, number, index = payload.get("type"), payload.get("sequence_number"), payload.get("output_index")
        if type(name) is not str:
            if payload.get("error"):
                self.failure = read_payload(payload, Dialect.RESPONSES)
            return self.violation("an event without a type")
        if event and event != name:
            self.violation(f"event line '{quote_word(event)}' with type '{quote_word(name)}'")
        if type(number) is int:
            if number != self._last + 1:
                self.violation(f"sequence_number {number} after {self._last}")
            self._last = number
        else:
            self._last += 1
        if name == "response.created":
            if self._echo is not None:
                self.violation("response.created twice")
            self._keep_snapshot(payload.get("response"))
        elif name == "error":
            self.failure = read_payload(payload, Dialect.RESPONSES)
        elif self._echo is None:
            self.violation(f"{quote_word(name)} before response.created")
            self._keep_snapshot(payload.get("response"))
        if name in TERMINALS:
            self._end(payload, TERMINALS[name])
        elif type(index) is int and name in HANDLERS:
            self._item(name, index)
            if name == "response.output_item.done":
                self._keep_item(payload.get("item"))
            elif name == "response.output_item.added":
                self._open_call(payload.get("item"), index)
        if name.endswith(".delta"):
            self.progressed = True
            if not self.violations:
                self.sole_text = payload.get("delta")

    def on_template(self, count: int, number: int) -> None:
        """More deltas of a text."""
        if number >= 0 and number != self._last + count:
            self.violation(f"sequence_number {number} after {self._last} and {count} more")
        self._last = number if number >= 0 else self._last + count

    def _item(self, name: str, index: int) -> None:
        if name == "response.output_item.added":
            if index in self._open:
                self.violation("an item added twice")
            elif len(self._open) < DEFAULT.blocks:
                self._open.add(index)
        elif index not in self._open:
            self.violation(f"{quote_word(name)} of an item that is not open")
        elif name == "response.output_item.done":
            self._open.discard(index)
            if self._calls:
                self._calls.discard(index)
                self.tool_open = len(self._calls) > 0

    def _open_call(self, item: object, index: int) -> None:
        if type(item) is dict and item.get("type") in CALLS and len(self._open) < DEFAULT.blocks:
            self._calls = self._calls or set()
            self._calls.add(index)
            self.tool_open = self.progressed = True

    def _keep_item(self, item: object) -> None:
        """A finished item, for an error of our own: what was said before it stays said. Behind one that is too long
        for the room none is kept, so that no gap looks like an order."""
        if type(item) is not dict or self._budget <= 0:
            return
        told = dumps(item)
        self._budget -= len(told)
        if self._budget > 0:
            if self._done is None:
                self._done = []
            # A copy: the serializer's own buffer is several times as large.
            self._done.append(bytes(memoryview(told)))

    def _end(self, payload: Json, told: str | None) -> None:
        self.closed = True
        response = payload.get("response")
        if type(response) is not dict:
            self._last -= 1  # it does not pass: the number is that of the error in its place
            return self.violation("a terminal event without its response")
        self.usage = read_usage(response.get("usage"))
        try:
            status = read_status(response, told)
        except DragomanError as error:
            self.failure = error.failure
            return
        if self._open and status == "completed":
            self.violation("completed with an item that is not done")
            self.fault = StreamTruncated("upstream sent response.completed with an item that is not done").failure
            self._last -= 1
            return
        self.complete = True
        self.failure = None

    def _keep_snapshot(self, response: object) -> None:
        """The snapshot as bytes, a third of the parsed one's size: it lasts as long as the stream."""
        if type(response) is not dict:
            self._echo = self._echo or b""
            return
        if self._echo:
            return
        kept = {**response, "output": []}
        self._echo = dumps(kept)
        if len(self._echo) > _ECHO_MAX:
            self._echo = dumps({**kept, **{key: short for key, short in _LONG.items() if key in kept}})
        # A copy: the serializer's own buffer is several times as large.
        self._echo = bytes(memoryview(self._echo)) if len(self._echo) <= _ECHO_MAX else b""

    def error_frame(self, failure: Failure, request_id: str | None = None) -> Frame:
        """`response.failed`, with the next number and the snapshot that the stream began with."""
        self._last += 1
        error = response_error(failure, self.knobs)
        snapshot = ResponseObject(ReplyContext("", request_id=request_id or ""), "", "", None)
        response = snapshot.ended("failed", [], error=error)
        if self._echo:
            added = {key: response[key] for key in _ADDED}
            response = {**added, **loads(self._echo), "status": "failed", "error": error}
        response["output"] = [Fragment(item) for item in self._done or ()]
        payload = {"type": "response.failed", "sequence_number": self._last, "response": response}
        return Frame("response.failed", dumps(payload))

"""Observes Messages streams that are passed through: their end, usage, in-band errors and grammar."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.request import Json
from dragoman.dialects import Dialect
from dragoman.dialects.errors.fields import reports_error
from dragoman.dialects.errors.redact import quote_word
from dragoman.dialects.messages.errors import write_error_frame
from dragoman.dialects.messages.reply.usual import is_usual_start
from dragoman.dialects.messages.reply_fields import EVENTS, TEXT_KEYS, note_message
from dragoman.dialects.messages.stop_and_usage import (
    is_cut,
    merge_counts,
    read_stop,
    read_usage,
    stated_usage,
    stop_word,
)
from dragoman.dialects.messages.stream.forwarded_blocks import ForwardedBlocks
from dragoman.errors import Failure, StreamTruncated
from dragoman.stages.observer import Observer
from dragoman.wire.json_codec import dumps
from dragoman.wire.sse import Frame

_STOP = Frame("message_stop", b'{"type":"message_stop"}')


class MessagesObserver(Observer):
    """Observes one Messages stream. `message_stop` closes it, and every delta must belong to an open block.

    A `message_stop` inside an open tool call is a fault: clients would run the call with incomplete arguments.
    """

    __slots__ = ("_blocks", "_counts", "_ended_broken", "_head", "_held", "_started", "_stop_reason", "_stopped")

    dialect = Dialect.MESSAGES

    def __init__(self) -> None:
        super().__init__()
        self._started = self._stopped = False
        self._counts: Json = {}
        """The upstream's counts so far."""
        self._stop_reason: object = None
        self._head: Json = {}
        """Id and model of the message."""
        self._blocks = ForwardedBlocks()
        self._held: tuple[str, int] | None = None
        """The type and the index of the event that is held."""
        self._ended_broken = False
        """True if the last frame ended a call that is not whole: the next one must report that the reply was cut."""

    def observe(self, data: bytes, event: str) -> None:
        """Observe one event.

        `[DONE]`, which some servers send although Messages does not have it, is ignored before a stop reason. After it,
        it stands for `message_stop`.
        """
        self.on_run = None
        if data == b"[DONE]" and not self.closed:
            self.sole_text = None
            self.odd = self._stopped or self._ended_broken
            return
        super().observe(data, event)

    def watch(self, payload: Json, event: str) -> None:
        """Observe the payload of one event; `event` is the name in its event line."""
        name = payload.get("type")
        if self._ended_broken:
            if name == "ping":
                self.harmless = True
                return
            if not self._is_cut(name, payload):
                self.odd = True
                return
            self._ended_broken = False
        if event != name and (name != "message" or self._started):
            if type(name) is not str:
                name = None
            if not (event and name) and (event or name) in EVENTS:
                self.odd = True  # clients read the one, and find the other in the data
                return
            self.violation(f"event line '{quote_word(event)}' with type '{quote_word(str(name))}'")
        if name == "content_block_delta":
            self._delta(payload.get("index"), payload.get("delta"), sole=event == name)
        elif name == "message_start" and self._started:
            self.odd = True
        elif name == "message_start":
            self._start(payload.get("message"))
        elif name == "content_block_start":
            self._start_block(payload.get("index"), payload.get("content_block"))
        elif name == "content_block_stop":
            self._stop_block(payload.get("index"))
        elif name == "message_delta":
            self._message_delta(payload)
        elif name == "message_stop":
            if len(payload) > 1:
                self._count(stated_usage(payload))
            self._stop()
        elif name == "message" and not self._started:
            self.whole = b""
        elif name == "ping":
            self.harmless = self._held is not None
        elif name == "error" or reports_error(payload):
            self.watch_error(payload, event)

    # --- what clients would misread --------------------------------------------------------------------------------

    def so_far(self) -> list[bytes]:
        """See `Observer.so_far`."""
        if not self._started:
            return []
        message = {**self._head, "usage": self._counts, "content": []}
        events: list[Json] = [{"type": "message_start", "message": message}, *self._blocks.events(self._held)]
        if self._stopped:
            events.append({"type": "message_delta", "delta": {"stop_reason": self._stop_reason}, "usage": self._counts})
        return [dumps(event) for event in events]

    def _is_cut(self, name: object, payload: Json) -> bool:
        """True for a `message_delta` that reports that the reply was cut."""
        delta = payload.get("delta")
        return name == "message_delta" and type(delta) is dict and is_cut(delta.get("stop_reason"))

    def settle(self) -> bool:
        """See `Observer.settle`."""
        if not self.holds:
            self._held = None
        return True

    # --- the rest --------------------------------------------------------------------------------------------------

    def _start(self, message: object) -> None:
        if type(message) is not dict or not is_usual_start(message):
            if type(message) is dict and message.get("content") and message.get("stop_reason"):
                self._started, self.whole = True, dumps(message)
            else:
                self.odd = True
            return
        self._started = True
        self._head = {"id": message["id"], "model": message["model"]}
        note_message(message, self)
        self._count({**message["usage"], "output_tokens": None})  # its count of the output is not final

    def _start_block(self, index: Any, block: object) -> None:
        if not self._blocks.start(index, block):
            self.odd = True
        elif self._blocks.open[index]:
            self.tool_open = self.progressed = True

    def _delta(self, index: Any, delta: object, *, sole: bool) -> None:
        """Observe a delta. With `sole`, its text is the only effect of the event."""
        blocks = self._blocks
        if type(index) is not int or index not in blocks.open:
            self.odd = True
            return
        if blocks.open[index]:
            self.on_run = blocks.on_run(index)
        verdict = blocks.delta(index, delta)
        if verdict == "odd":
            self.odd = True
            return
        if verdict == "unsure":
            self.holds, self._held = True, ("content_block_delta", index)
        self.progressed = True
        text = delta.get(TEXT_KEYS.get(str(delta.get("type")), "")) if type(delta) is dict else None
        if type(text) is str:
            self.written += len(text)
        if sole and type(delta) is dict and len(delta) == 2:
            self.sole_text = text

    def _stop_block(self, index: Any) -> None:
        blocks = self._blocks
        if type(index) is not int or index not in blocks.open:
            self.odd = True
            return
        if not blocks.is_whole(index):
            self._ended_broken = self.holds = True
            self._held = "content_block_stop", index
        blocks.stop(index)
        self.tool_open = blocks.open_calls > 0

    def _message_delta(self, event: Json) -> None:
        usage, delta = event.get("usage"), event.get("delta")
        made = usage.get("output_tokens") if type(usage) is dict else None
        if type(delta) is not dict or type(made) is not int or made < 0:
            self.odd = True
            return
        self._count(usage)
        note_message(event, self)
        if native := delta.get("stop_reason"):
            if self._blocks.open:
                self.odd = True
                return
            self.check_stop(read_stop, native)
            calls = self._blocks.calls is not None
            if (native != "end_turn" or calls) and self.fault is None and _is_other_word(native, calls=calls):
                self.odd = True
                return
            self._stopped, self._stop_reason = True, native
        self.counted |= self._stopped

    def _stop(self) -> None:
        if self._blocks.open or not self._started:
            self.violation("message_stop out of place")
        self.closed = True
        if self._blocks.open_calls:
            self.fault = StreamTruncated("upstream sent message_stop within an open tool call").failure
        elif not self._stopped:
            self.fault = StreamTruncated("upstream sent message_stop before a stop_reason").failure
        else:
            self.complete = True

    def _count(self, usage: object) -> None:
        if type(usage) is dict:
            merge_counts(self._counts, usage)
            self.usage = read_usage(self._counts)

    def omitted_terminal(self) -> Frame | None:
        """Return the `message_stop` that a lenient profile's upstream left out after a stop reason, else None."""
        return _STOP if self.lenient and self._stopped and not self._blocks.open else None

    def is_own_error(self, payload: Json, event: str) -> bool:
        """Return whether the SDKs read this error: they pick events by the event line."""
        error = payload.get("error")
        return event == "error" and type(error) is dict and type(error.get("message")) is str

    def error_frame(self, failure: Failure, request_id: str | None = None) -> Frame:
        """Return the in-band `error` event."""
        return Frame("error", dumps(write_error_frame(failure, request_id)))


def _is_other_word(native: Any, *, calls: bool) -> bool:
    """True for a `stop_reason` that is not the word of Anthropic's that it means."""
    return type(native) is not str or stop_word(native, calls=calls) != native

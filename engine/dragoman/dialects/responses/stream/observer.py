"""Observes a Responses stream that is passed through: terminal event, usage, in-band errors, grammar."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.request import Json
from dragoman.dialects import Dialect
from dragoman.dialects.errors.fields import reports_error
from dragoman.dialects.errors.read import read_error_payload
from dragoman.dialects.errors.redact import quote_word
from dragoman.dialects.responses.reply.read import read_status
from dragoman.dialects.responses.reply.read_items import CALLS
from dragoman.dialects.responses.reply_fields import note_service
from dragoman.dialects.responses.stream.keepalive import keepalive_frame
from dragoman.dialects.responses.stream.missing_items import (
    RUN,
    MissingItem,
    find_missing,
    item_identity,
    missing_frames,
    with_output,
)
from dragoman.dialects.responses.stream.opening import is_repeated, response_of
from dragoman.dialects.responses.stream.phases import TERMINALS
from dragoman.dialects.responses.stream.read_items import HANDLERS
from dragoman.dialects.responses.stream.reader import ResponsesReader
from dragoman.dialects.responses.stream.repairs import OF_PARTS, Repairs, is_odd, parts_of
from dragoman.dialects.responses.stream.sent_response import SentResponse, unsent_response
from dragoman.dialects.shared.service_report import note_tier
from dragoman.errors import DragomanError, Failure, StreamTruncated
from dragoman.limits import DEFAULT_LIMITS
from dragoman.stages.observer import Observer
from dragoman.wire.json_codec import dumps
from dragoman.wire.json_edit import find_member
from dragoman.wire.sse import COMMENT, Frame, encode


class ResponsesObserver(Observer):
    """Observes one stream.

    A terminal event closes the stream. An `error` does not: services send `response.failed` after it, and agents read
    only that; the gateway writes it if the service does not. Agents act on items that are done, and SGLang's router
    ends none: before `response.completed`, those of its snapshot are added. One that is in no snapshot is a fault. The
    SDKs return the last snapshot as the response: one without items gets those that are done.
    """

    __slots__ = (
        "_begun",
        "_calls",
        "_counted_items",
        "_data",
        "_emptied",
        "_finished",
        "_kept",
        "_last",
        "_missing",
        "_open",
        "_parts",
        "_repairs",
        "_sent",
        "_texts",
    )

    dialect = Dialect.RESPONSES
    error_is_last = False
    varying_keys = ResponsesReader.volatile
    numbers_frames = True

    def __init__(self) -> None:
        super().__init__()
        self._sent = SentResponse()
        self._begun: bytes | None = None
        """The response of the last event, if that was `response.created`: the next one usually repeats it."""
        self._last = -1
        self._open: dict[int, object] = {}
        """Index → type of the items that were added and not yet done."""
        self._parts: dict[int, list[Json]] = {}
        """Index of an item that is not done → the events of its parts, `_kept` in all."""
        self._kept = 0
        self._texts: dict[int, list[str]] = {}
        """Index of an open message → texts that came without a start of their part."""
        self._finished: dict[int, object] = {}
        """Index → call id or id of the items that are done."""
        self._missing: list[MissingItem] = []
        """Those of the last snapshot that were not done."""
        self._emptied = False
        """True if the last snapshot has none of the items, which are all done."""
        self._calls: set[int] | None = None
        """Those of them that are calls of the client's tools. None before the first call."""
        self._repairs: Repairs | None = None
        """None before an event that clients would misread, and before the first call."""
        self._data = b""
        """The event that is observed."""
        self._counted_items = 0
        """The value of `written` when the last item was done."""

    def observe(self, data: bytes, event: str) -> None:
        """Observe one event. `[DONE]` is not of this dialect; some servers send it."""
        if data == b"[DONE]":
            self.sole_text = None
            if not self.complete:
                self.violation("[DONE] before the terminal event")
                self.instead = b""  # the SDKs read nothing after it, and an error follows
            return
        if (begun := self._begun) is not None:
            self._begun = None
            if not self._last and (not event or event == "response.in_progress") and is_repeated(data, begun):
                self.sole_text = None
                self._last = 1
                return
        begins, last = self._sent.snapshot is None, self._last
        self._data = data
        super().observe(data, event)
        self._data = b""
        if begins and self._sent.snapshot and self._repairs is None:
            self._begun = response_of(data)
        if self._repairs is not None:
            data = self._rewrite(self._repairs, data, event, last)
        if self.closed:
            self._complete_end(data, event)

    def watch(self, payload: Json, event: str) -> None:
        """Check one event, and keep what an error frame must repeat."""
        name, number, index = payload.get("type"), payload.get("sequence_number"), payload.get("output_index")
        if name == "error" or (type(name) is not str and reports_error(payload)):
            return self.watch_error(payload, event)
        if type(name) is not str:
            if self._sent.snapshot is None and type(payload.get("output")) is list:
                self.whole = b""
                return None
            if self._sent.snapshot is None and event:
                self.odd = True
                return None
            return self.violation("an event without a type")
        if event and event != name:
            self.violation(f"event line '{quote_word(event)}' with type '{quote_word(name)}'")
        if type(number) is int and (self._repairs is None or not self._repairs.renumbers):
            if number != self._last + 1:
                self.violation(f"sequence_number {number} after {self._last}")
            self._last = number
        else:
            if name.startswith("response."):  # others are a vendor's own
                self._made_repairs().number()
            self._last += 1
        if name == "response.created":
            if self._sent.snapshot is not None:
                self.violation("response.created twice")
            self._begin(payload.get("response"))
        elif self._sent.snapshot is None:
            self.violation(f"{quote_word(name)} before response.created")
            self._begin(payload.get("response"))
        if name in TERMINALS:
            if self._repairs is None or self._repaired(name, index, payload):
                self._end(payload, TERMINALS[name])
        elif type(index) is int and name in HANDLERS:
            if not self._item(name, index, payload):
                return None
        elif name in HANDLERS and not self._open and not self._finished:
            self._sent.undo_empty()
            self.odd = True  # it has no index of its item
            return None
        if name.endswith(".delta"):
            self.progressed = True
            text = payload.get("delta")
            self.written += len(text) if type(text) is str else 0
            if not self.violations and (self._repairs is None or not self._repairs.renumbers):
                self.sole_text = text

    def _repaired(self, name: str, index: Any, payload: Json) -> bool:
        """Put what an event means into `payload`. Return False if that is impossible: the stream ends before it."""
        repairs = self._made_repairs()
        try:
            repairs.read(name, index, payload, self._data, self._finished)
        except DragomanError as error:
            self._break_off(error)
        self.holds = repairs.held is not None
        if repairs.replaced:
            self._last -= 1  # it takes the number of the event that is held
        return self.fault is None

    def settle(self) -> bool:
        """See `Observer.settle`."""
        if (repairs := self._repairs) is None:
            return True
        replaced, repairs.replaced, repairs.held = repairs.replaced, False, None
        return not replaced

    def _break_off(self, error: DragomanError) -> None:
        """End the stream before an event with an item that is broken."""
        self.fault, self.complete = error.failure, False
        self._last -= 1  # the error frame in its place takes its number
        self.violation("an item that is broken")

    def _made_repairs(self) -> Repairs:
        if self._repairs is None:
            self._repairs = Repairs(self._sent.id or "")
        return self._repairs

    def _rewrite(self, repairs: Repairs, data: bytes, event: str, last: int) -> bytes:
        """Put what is to be sent in place of an event, if anything is. Return its data.

        `last` is the number of the event before it.
        """
        self.on_run, repairs.on_run = repairs.on_run, None
        dropped, repairs.dropped = repairs.dropped, False
        if self.fault is not None or self.odd or self.whole is not None:
            return data
        if dropped:
            repairs.renumbers, repairs.changed, repairs.before = True, None, None
            self._last, self.instead, self.repair = last, b"", repairs.note
        elif repairs.renumbers or repairs.changed is not None or repairs.before is not None:
            self.instead, data, self._last = repairs.rewritten(data, event, self._last)
            self.repair = repairs.note
        return data

    def watch_error(self, payload: Any, event: str) -> None:
        """Observe an error of the upstream."""
        super().watch_error(payload, event)
        if self.fault is None:
            number = payload.get("sequence_number")
            is_kept = type(number) is int and (self._repairs is None or not self._repairs.renumbers)
            self._last = number if is_kept else self._last + 1

    def is_own_error(self, payload: Json, event: str) -> bool:
        """Return whether this is the `error` event of a response that has begun: `response.failed` can follow it."""
        return payload.get("type") == "error" and self._sent.snapshot is not None

    def response_id(self) -> str | None:
        """Return the id in the first snapshot."""
        return self._sent.id

    def on_template(self, count: int, number: int) -> None:
        """Record `count` more deltas of a text; `number` is the last sequence number, -1 if they have none."""
        if number >= 0 and number != self._last + count:
            self.violation(f"sequence_number {number} after {self._last} and {count} more")
        self._last = number if number >= 0 else self._last + count

    def _item(self, name: str, index: int, payload: Json) -> bool:
        """Watch an event of an item. Return False if it is not sent: it is broken, or came before."""
        item = payload.get("item")
        if item is not None:
            if name == "response.output_item.done" and (self._parts or self._texts):
                self._end_message(index, item)
        elif name in OF_PARTS:
            if self._kept < DEFAULT_LIMITS.blocks:
                self._kept += 1
                self._parts.setdefault(index, []).append(payload)
        elif index not in self._parts and name == "response.output_text.delta":
            self._add_text(index, payload)
        if self._repairs is not None or (item is not None and is_odd(item)):
            if not self._repaired(name, index, payload):
                return False
            item = payload.get("item")
        if name == "response.output_item.added":
            kind = item.get("type") if type(item) is dict else None
            if index in self._open:
                self.violation("an item added twice")
                if self._repairs is not None and self._repairs.is_known(index, item):
                    return self._drop(name)
            elif index in self._finished and self._all_items() is not None:
                self.odd = True
            elif len(self._open) < DEFAULT_LIMITS.blocks:
                self._open[index] = kind
            self._open_call(item, index)
            return True
        if index not in self._open:
            self.violation(f"{quote_word(name)} of an item that is not open")
            if name == "response.output_item.done" and self._finished.get(index, b"") == item_identity(item):
                return self._drop(name)
        if name == "response.output_item.done":
            self._open.pop(index, None)
            if len(self._finished) < DEFAULT_LIMITS.blocks:
                self._finished[index] = item_identity(item)
            if self._calls:
                self._calls.discard(index)
                self.tool_open = len(self._calls) > 0
            self._count_item(item)
            self._sent.add(item)
        return True

    def _add_text(self, index: int, payload: Json) -> None:
        """Keep a text that came without its part, which gets a start."""
        if self._open.get(index) == "message":
            if index not in self._texts:
                self._texts[index] = self._made_repairs().open_part(payload)
            self._made_repairs().keep(self._texts[index], payload.get("delta"))

    def _end_message(self, index: int, item: Any) -> None:
        """Put the parts of a message into its finished item if that has none: agents read nothing else."""
        texts, parts = self._texts.pop(index, None), self._parts.pop(index, [])
        self._kept -= len(parts)
        if type(item) is not dict or item.get("type") != "message" or item.get("content"):
            return
        if content := parts_of(parts, texts):
            self._made_repairs().contents[index] = content

    def _drop(self, name: str) -> bool:
        """Leave out an event that came before: agents would run a call twice. Return False."""
        self._made_repairs().drop(f"{name} came twice for an item")
        return False

    def _count_item(self, item: object) -> None:
        """Count the texts of an item that came without deltas."""
        if type(item) is not dict or self.written > self._counted_items:
            self._counted_items = self.written
            return
        texts = [item.get("arguments"), item.get("input")]
        for parts in (item.get("content"), item.get("summary")):
            texts += [part.get("text") for part in parts if type(part) is dict] if type(parts) is list else []
        self.written += sum([len(text) for text in texts if type(text) is str])
        self._counted_items = self.written

    def _open_call(self, item: object, index: int) -> None:
        if type(item) is dict and str(item.get("type")) in CALLS and len(self._open) < DEFAULT_LIMITS.blocks:
            self._calls = self._calls or set()
            self._calls.add(index)
            self.tool_open = self.progressed = True

    def _end(self, payload: Json, terminal: str | None) -> None:
        self.closed = True
        response = payload.get("response")
        if type(response) is not dict:
            self._last -= 1  # the event is not passed on: the error frame in its place takes its number
            if reports_error(payload):
                return self.refuse(read_error_payload(payload, Dialect.RESPONSES))
            return self.violation("a terminal event without its response")
        self.usage, self.counted = note_service(response, self), True
        try:
            status = read_status(response, terminal)
        except DragomanError as error:
            self.failure = error.failure
            return
        output = response.get("output")
        if status == "completed" and (self._open or type(output) is not list or len(output) != len(self._finished)):
            self._missing = find_missing(self._open, self._finished, output)
            found = {missing.place for missing in self._missing}
            if any(str(kind) in RUN for index, kind in self._open.items() if index not in found):
                self._missing = []
                self.violation("completed with a call that is not done")
                self.fault = StreamTruncated("upstream sent response.completed with a call that is not done").failure
                self._last -= 1
                return
        self._emptied = (output is None or output == []) and self._all_items() is not None
        self.complete = True
        self.failure = None

    def _all_items(self) -> list[bytes] | None:
        """Return the items, if there are some, all of them are done, and all are kept."""
        return self._sent.items(len(self._finished)) if not self._open else None

    def so_far(self) -> list[bytes]:
        """See `Observer.so_far`."""
        return [dumps(event) for event in self._sent.events(list(self._finished))]

    def _complete_end(self, data: bytes, event: str) -> None:
        """Put what is missing into, or before, the terminal event `data`."""
        if self._missing:
            self._insert_missing(data, event)
        elif self._emptied:
            self._emptied = False
            done = self._all_items()
            assert done is not None
            items = [item for _, item in sorted(zip(self._finished, done, strict=True))]
            if (completed := with_output(data, items)) is not None:
                self.instead = encode(Frame(event, completed))
                self.repair = "the last event had none of the items"

    def _insert_missing(self, data: bytes, event: str) -> None:
        """Put the events of missing items before the terminal event `data`, whose number grows by theirs."""
        number = self._last
        repairs = self._made_repairs()
        try:
            whole = [missing._replace(item=repairs.finish(missing.place, missing.item)) for missing in self._missing]
        except DragomanError as error:
            return self._break_off(error)
        frames, self._last = missing_frames(whole, number)
        self._missing = []
        start, old = find_member(data, "sequence_number"), b"%d" % number
        if start is not None and data.startswith(old, start):
            data = b"%b%d%b" % (data[:start], self._last, data[start + len(old) :])
        self.instead = b"".join((*frames, encode(Frame(event, data))))
        self.repair = "an item ended without output_item.done"

    def heartbeat(self) -> bytes:
        """Return a comment, or the event for clients that count events only. It repeats the last number."""
        return keepalive_frame(max(self._last, 0)) if self.knobs.heartbeats == "event" else COMMENT

    def instead_of_comment(self) -> bytes | None:
        """See `Observer.instead_of_comment`."""
        return self.heartbeat() if self.knobs.heartbeats == "event" else None

    def opening(self, request_id: str | None = None) -> bytes:
        """Return the `response.created` that the SDK needs before an error, if nothing was forwarded."""
        if self._sent.snapshot is not None:
            return b""
        self._last = 0
        event = {"type": "response.created", "sequence_number": 0, "response": unsent_response(request_id).started()}
        return encode(Frame("response.created", dumps(event)))

    def _begin(self, response: object) -> None:
        """Record the first snapshot, which may state the tier."""
        first = self._sent.begin(response)
        if first is not None:
            note_tier(self, first.get("service_tier"))

    def error_frame(self, failure: Failure, request_id: str | None = None) -> Frame:
        """Return a `response.failed` with the next sequence number, the first snapshot and the finished items."""
        self._last += 1
        response = self._sent.failed(failure, self.knobs, request_id)
        payload = {"type": "response.failed", "sequence_number": self._last, "response": response}
        return Frame("response.failed", dumps(payload))

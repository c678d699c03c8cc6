"""Responses stream to canonical events.

The dialect sends everything several times, and its servers each leave out some of it. So a block starts with its first
event, what its deltas left out is taken from the events that repeat it, and only a terminal event ends the reply
(mapping §9.6, streams §9).
"""

from __future__ import annotations

from typing import Final

import orjson

from dragoman.canonical.events import CUTS, Delta, End, Error, Event, Finish, Ping, Start
from dragoman.canonical.reply import Reply
from dragoman.canonical.request import Json
from dragoman.dialects import Dialect
from dragoman.dialects.errors.fields import reports_error
from dragoman.dialects.errors.read import read_error_payload
from dragoman.dialects.errors.redact import quote_word
from dragoman.dialects.responses.reply.read import read_output, read_reply, read_status
from dragoman.dialects.responses.reply_fields import EVENT, read_response, unknown_of_event
from dragoman.dialects.responses.stop_and_usage import read_usage, resolve_stop_reason
from dragoman.dialects.responses.stream.item_state import ItemTable
from dragoman.dialects.responses.stream.opening import is_repeated, response_of
from dragoman.dialects.responses.stream.phases import READER, TERMINALS, Phase
from dragoman.dialects.responses.stream.read_calls import check_calls, end_held
from dragoman.dialects.responses.stream.read_items import HANDLERS, complete_output, end_items, repeats_items
from dragoman.dialects.shared.json_fields import read_timestamp
from dragoman.dialects.shared.service_report import tier_of
from dragoman.dialects.shared.stream_reader import StreamReader
from dragoman.errors import StreamTruncated, UpstreamProtocolError
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.wire.delta_template import RunCallback, VaryingKeys
from dragoman.wire.json_codec import with_exact

_find_handler: Final = HANDLERS.get
_STARTS: Final = READER["WAITING"]
_PINGS: Final = frozenset({"keepalive", "ping"})
_WITH_CALLS: Final = frozenset(
    {"response.output_item.added", "response.output_item.done", "response.function_call_arguments.done"}
)
"""The events that may hold complete arguments."""
_PROGRESS_WORDS: Final = frozenset(
    {
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "code_interpreter_call_code",
        "image_generation_call",
        "mcp_call",
        "mcp_call_arguments",
        "mcp_list_tools",
        "compaction",
        "shell_call_command",
        "shell_call_output_content",
        "apply_patch_call_operation_diff",
    }
)
"""Second word of the events that report the progress of an item which is read when it is done."""


class ResponsesReader(StreamReader):
    """Reads one stream. Its items are in `_table`; the functions in `HANDLERS` read their events.

    Structural events move `phase` by the table `phases.READER`.
    """

    __slots__ = ("_begun", "_phase", "_table")

    dialect = Dialect.RESPONSES
    volatile = VaryingKeys(number=b"sequence_number", padding=b"obfuscation")

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._table = ItemTable(context)
        self._phase: Phase = "WAITING"
        self._begun: bytes | None = None
        """The response of the last event, if that was `response.created`: the next one usually repeats it."""

    def __repr__(self) -> str:
        table = self._table
        return f"<{type(self).__name__} {self.phase} items={len(table.items)} blocks={table.blocks.count}>"

    @property
    def phase(self) -> Phase:
        """The state of the stream."""
        return "DONE" if self.done else self._phase

    def read(self, data: bytes, out: list[Event]) -> None:
        """Read one event. `[DONE]` is not of this dialect; some servers send it, and it is ignored."""
        if data == b"[DONE]":
            return
        if (begun := self._begun) is not None:
            self._begun = None
            if is_repeated(data, begun):
                return
        try:
            event = orjson.loads(data)
        except orjson.JSONDecodeError:
            event = self.payload(data)
        if type(event) is not dict:
            return self.read_other(event, out)
        name = event.get("type")
        if type(name) is not str:
            name = self._other_name(event, name)
        if not EVENT.issuperset(event) and name in _STARTS and name != "error":
            unknown_of_event(event, name, self.context.losses)
        handler = _find_handler(name)
        if handler is not None:
            if self._phase == "WAITING":
                self._start_late({}, out)
                self._move(name)
            if name in _WITH_CALLS:
                event = with_exact(data, b"arguments", event)
            handler(self._table, event, out)
        elif name in TERMINALS:
            self._finish(with_exact(data, b"arguments", event), name, out)
        elif name != "response.created" and (name == "error" or reports_error(event)):
            self._fail(event, out)
        elif name in _STARTS:
            phase = self._phase
            self._move(name)
            if phase == "WAITING":
                self._start(event.get("response"), out)
                if name == "response.created" and not event.get("error"):
                    self._begun = response_of(data)
            elif type(response := event.get("response")) is dict:
                read_response(response, ("response",), self.context)
        elif name in _PINGS or not event:
            out.append(Ping())
        elif not name and type(event.get("output")) is list and self._phase == "WAITING":
            self.read_whole(event, out)
        elif not self._is_ignored(event, name):
            self.context.losses.add(LossCode.UNKNOWN_EVENT, quote_word(name))

    def _other_name(self, event: Json, name: object) -> str:
        """Return the name of an event without a type in its data, which gets it; "" if its line has none either."""
        if name is not None or not event or reports_error(event) or not (stated := self.event_name()):
            return ""
        event["type"] = stated
        return stated

    def read_reply(self, payload: Json) -> Reply:
        """See `StreamReader.read_reply`."""
        return read_reply(payload, self.context)

    def follow(self, delta: Delta) -> RunCallback | None:
        """See `StreamReader.follow`."""
        return self._table.run_callback(delta)

    def read_eof(self, out: list[Event]) -> None:
        """Raise StreamTruncated: only a terminal event ends the stream."""
        raise StreamTruncated

    def _move(self, name: str) -> None:
        phase = READER[self._phase].get(name)
        if phase is None:
            raise UpstreamProtocolError(f"upstream sent {name} twice")
        self._phase = phase

    def _start_late(self, response: Json, out: list[Event]) -> None:
        self._table.record_repair("the stream began without response.created", at="response.created")
        self._start(response, out)

    def _start(self, response: object, out: list[Event]) -> None:
        if response is None:
            response = {}
        if type(response) is not dict:
            raise UpstreamProtocolError("upstream began a response that is not an object")
        read_response(response, ("response",), self.context)
        identity, model = response.get("id"), response.get("model")
        self._table.response_id = identity if type(identity) is str else ""
        name, created = model if type(model) is str else "", read_timestamp(response.get("created_at"))
        context = self.context
        out.append(Start(self._table.response_id, name, None, created, tier_of(context), context.moderation))

    def _is_ignored(self, event: Json, name: str) -> bool:
        """True if the event belongs to an item that is dropped, or that is read when it is done."""
        words = name.split(".", 2)
        if len(words) > 1 and words[1] in _PROGRESS_WORDS:
            return True
        key = event.get("output_index")
        item = self._table.items.get(key) if type(key) is int else None
        return item is not None and item.kind in ("native", "unknown")

    def _finish(self, event: Json, name: str, out: list[Event]) -> None:
        response = event.get("response")
        if type(response) is not dict:
            if not event.get("error"):
                raise UpstreamProtocolError(f"upstream sent {name} without its response")
            self._fail(event, out)
            return
        read_response(response, ("response",), self.context)
        status = read_status(response, TERMINALS[name])
        table = self._table
        if self._phase == "WAITING":
            self._start_late(response, out)
        if TERMINALS[name] is None:
            table.record_repair(f"{name} was read as response.{status}", at=name)
        cut = status == "incomplete"
        output = response.get("output") if table.items else read_output(response, self.context)
        if not repeats_items(table, output):
            complete_output(table, output, out, cut=cut)
            end_items(table, out, cut=cut)
        calls = table.calls is not None
        refusal, shown, losses = table.has_refusal, table.shown, self.context.losses
        stop = resolve_stop_reason(response, status, calls=calls, refusal=refusal, shown=shown, losses=losses)
        if calls and stop.reason not in CUTS:
            check_calls(table)
        end_held(table, out)
        out.append(Finish(stop, read_usage(response.get("usage"))))
        out.append(End())
        self._move(name)
        self.done = True

    def _fail(self, event: Json, out: list[Event]) -> None:
        out.append(Error(read_error_payload(event, Dialect.RESPONSES)))
        self._move("error")
        self.done = True

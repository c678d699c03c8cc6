"""Responses stream to canonical events.

The dialect says everything several times, and its servers each leave out some of it. So a block starts with the first
event that speaks of it, what its deltas left out comes from the events that repeat it, and only a terminal event ends
the reply (mapping §9.6, streams §9).
"""

from __future__ import annotations

from typing import Final

import orjson

from dragoman.canonical.events import CUTS, Delta, End, Error, Event, Finish, Ping, Start
from dragoman.canonical.request import Json
from dragoman.dialects import Dialect
from dragoman.dialects.errors.read import read_payload
from dragoman.dialects.errors.redact import quote_word
from dragoman.dialects.openai.settings import read_created
from dragoman.dialects.responses.reply.read import read_status
from dragoman.dialects.responses.reply.read_items import ItemKind
from dragoman.dialects.responses.stream.read_items import HANDLERS, ItemEvents
from dragoman.dialects.responses.wire import read_usage, resolve_stop_reason
from dragoman.dialects.shared.stream_codec import Note, StreamReader
from dragoman.errors import StreamTruncated, UpstreamProtocolError
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.wire.delta_template import VaryingKeys

TERMINALS: Final[dict[str, str | None]] = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
    "response.done": None,
}
"""Terminal events and the status each means. The last one is an alias of some servers: its response tells."""

_STARTED: Final = frozenset({"response.in_progress", "response.queued"})
_PINGS: Final = frozenset({"keepalive", "ping"})
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
        "reasoning_summary_part",
    }
)
"""Second word of the events that tell how a hosted item comes along; the item itself is read when it is done. The part
of a summary says all it has to say in its texts."""


class ResponsesReader(StreamReader):
    """See the module's docstring."""

    __slots__ = ("_created", "_items", "_started")

    volatile = VaryingKeys(number=b"sequence_number", padding=b"obfuscation")

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._items = ItemEvents(context)
        self._started = False
        self._created = False

    def read(self, data: bytes, out: list[Event]) -> None:
        """One event. `[DONE]` is not of this dialect, but some servers send it; it means nothing."""
        if data == b"[DONE]":
            return
        try:
            event = orjson.loads(data)
        except orjson.JSONDecodeError:
            event = self.payload(data)
        if type(event) is not dict:
            raise UpstreamProtocolError("upstream sent a stream frame that is not a JSON object")
        name = event.get("type")
        if type(name) is not str:
            name = ""
        handler = HANDLERS.get(name)
        if handler is not None:
            if not self._started:
                self._items.record_repair("the stream began without response.created", at="response.created")
                self._start({}, out)
            handler(self._items, event, out)
        elif name == "response.created":
            self._create(event, out)
        elif name in TERMINALS:
            self._finish(event, name, out)
        elif name == "error" or event.get("error"):
            out.append(Error(read_payload(event, Dialect.RESPONSES)))
            self.done = True
        elif name in _STARTED:
            if not self._started:
                self._start(event.get("response"), out)
        elif name in _PINGS:
            out.append(Ping())
        elif not self._is_ignored(event, name):
            self.context.losses.add(LossCode.UNKNOWN_EVENT, quote_word(name))

    def follow(self, said: Delta) -> Note | None:
        """See `StreamReader.follow`."""
        return self._items.run_callback(said)

    def read_eof(self, out: list[Event]) -> None:
        """Only a terminal event ends the stream; anything less was cut."""
        raise StreamTruncated

    def _create(self, event: Json, out: list[Event]) -> None:
        if self._created:
            raise UpstreamProtocolError("upstream sent response.created twice")
        self._created = True
        if not self._started:
            self._start(event.get("response"), out)

    def _start(self, response: object, out: list[Event]) -> None:
        if type(response) is not dict:
            raise UpstreamProtocolError("upstream began a response that is not an object")
        self._started = True
        identity, model = response.get("id"), response.get("model")
        self._items.response_id = identity if type(identity) is str else ""
        out.append(
            Start(
                self._items.response_id,
                model if type(model) is str else "",
                None,
                read_created(response.get("created_at")),
            )
        )

    def _is_ignored(self, event: Json, name: str) -> bool:
        """Is the event only about an item that is left out, or that is read when it is done."""
        words = name.split(".", 2)
        if len(words) > 1 and words[1] in _PROGRESS_WORDS:
            return True
        key = event.get("output_index")
        item = self._items.items.get(key) if type(key) is int else None
        return item is not None and item.kind in (ItemKind.NATIVE, ItemKind.UNKNOWN)

    def _finish(self, event: Json, name: str, out: list[Event]) -> None:
        response = event.get("response")
        if type(response) is not dict:
            if not event.get("error"):
                raise UpstreamProtocolError(f"upstream sent {name} without its response")
            out.append(Error(read_payload(event, Dialect.RESPONSES)))
            self.done = True
            return
        status = read_status(response, TERMINALS[name])
        items = self._items
        if not self._started:
            items.record_repair("the stream began without response.created", at="response.created")
            self._start(response, out)
        if TERMINALS[name] is None:
            items.record_repair(f"{name} was read as response.{status}", at=name)
        cut = status == "incomplete"
        items.take_output(response.get("output"), out, cut=cut)
        items.end(out, cut=cut)
        stop = resolve_stop_reason(
            response, status, calls=items.has_calls(), refusal=items.has_refusal, losses=self.context.losses
        )
        if stop.reason not in CUTS:
            items.check_calls()
        out.append(Finish(stop, read_usage(response.get("usage"))))
        out.append(End())
        self.done = True

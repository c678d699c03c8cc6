"""Reads Messages streams into canonical events (mapping §9.6).

Unknown events are dropped and recorded. Blocks, tool calls, signatures and token counts are read by `read_blocks`,
`read_calls`, `read_thinking` and `read_usage`, the order of events is kept by `phases`.
"""

from __future__ import annotations

import orjson

from dragoman.canonical.events import CUTS, Delta, End, Error, Event, Finish, Ping, Start, Stop
from dragoman.canonical.reply import Reply
from dragoman.canonical.reply_events import events_of
from dragoman.canonical.request import Json
from dragoman.dialects import Dialect
from dragoman.dialects.errors.fields import reports_error
from dragoman.dialects.errors.read import read_error_payload
from dragoman.dialects.errors.redact import quote_word
from dragoman.dialects.messages.reply.read import read_reply
from dragoman.dialects.messages.reply_fields import (
    EVENT,
    EVENTS,
    MESSAGE,
    STOP,
    note_usage,
    read_extras,
    record_unknown_details,
)
from dragoman.dialects.messages.stop_and_usage import read_stop_details, resolve_stop_reason, stated_usage
from dragoman.dialects.messages.stream.phases import READER, Phase
from dragoman.dialects.messages.stream.read_blocks import BlockReader, malformed
from dragoman.dialects.messages.stream.read_usage import UsageReader
from dragoman.dialects.shared.json_fields import record_unknown
from dragoman.dialects.shared.service_report import tier_of
from dragoman.dialects.shared.stream_reader import StreamReader
from dragoman.errors import DragomanError, StreamTruncated, UpstreamProtocolError
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.wire.delta_template import RunCallback
from dragoman.wire.json_codec import with_exact

_STOP_REASON = ("delta", "stop_reason")


class MessagesReader(StreamReader):
    """Reads one Messages stream into canonical events.

    Structural events move the reader through the table `phases.READER`.
    """

    __slots__ = (
        "_blocks",
        "_id",
        "_message",
        "_phase",
        "_usage",
        "_waiting",
    )

    dialect = Dialect.MESSAGES

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._blocks = BlockReader(context)
        self._phase: Phase = "WAITING"
        self._id = ""
        """The upstream's id of the message."""
        self._usage = UsageReader()
        self._waiting: Finish | None = None
        """The finish, if nothing counted the output before it: some servers do in `message_stop` only."""
        self._message: Json | None = None
        """The message of `message_start`, if it has content, which counts only if no blocks follow."""

    def read(self, data: bytes, out: list[Event]) -> None:
        """Read one event.

        Some servers send `[DONE]`, which Messages does not have. After a stop reason it stands for `message_stop`.
        """
        if data == b"[DONE]":
            if self._phase == "STOPPED":
                self._end(out)
            return
        try:
            event = orjson.loads(data)
        except orjson.JSONDecodeError:
            event = self.payload(data)
        if type(event) is not dict:
            return self.read_other(event, out)
        name = event.get("type")
        if name is None:
            name = self.event_name()
        if not EVENT.issuperset(event) and type(name) is str and name in EVENTS:
            read_extras(event, EVENT, (name,), self.context)
        if name == "content_block_delta":
            self._blocks.delta(event, out)
        elif name == "content_block_start":
            self._phase = READER[self._phase]["content_block_start"]
            self._blocks.start(with_exact(data, b"input", event), self._id, out)
        elif name == "content_block_stop":
            if self._phase == "WAITING":
                raise UpstreamProtocolError("upstream ended a block before message_start")
            self._blocks.stop(event, out)
        elif name == "message_start":
            self._start(event, out)
        elif name == "message_delta":
            self._message_delta(event, out)
        elif name == "message_stop":
            if len(event) > 1:
                self._count_last(event)
            self._stop(out)
        elif name == "ping":
            out.append(Ping())
        elif name == "error" or reports_error(event):
            self._phase = READER[self._phase]["error"]
            out.append(Error(read_error_payload(event, Dialect.MESSAGES)))
            self.done = True
        elif name == "message" and self._phase == "WAITING":
            self.read_whole(event, out)
        elif not event:
            out.append(Ping())
        else:
            self.context.losses.add(LossCode.UNKNOWN_EVENT, quote_word(str(name)))

    def read_reply(self, payload: Json) -> Reply:
        """See `StreamReader.read_reply`."""
        return read_reply(payload, self.context)

    def follow(self, delta: Delta) -> RunCallback | None:
        """Return the callback for further deltas of the block of `delta`, see `StreamReader`."""
        return self._blocks.follow(delta)

    def read_eof(self, out: list[Event]) -> None:
        """Read the end of the upstream's body: without `message_stop` the stream was cut (mapping §9.6).

        For a server that is known to leave it out, a stop reason is enough.
        """
        if self._phase != "STOPPED" or self.context.profile.message_stop:
            raise StreamTruncated
        self._end(out)

    def fail(self, error: DragomanError, out: list[Event]) -> None:
        """End the stream with an error."""
        super().fail(error, out)
        self._phase = "DONE"

    def __repr__(self) -> str:
        return f"<MessagesReader {self._phase} {self._blocks.summary()}>"

    def _end(self, out: list[Event]) -> None:
        self._blocks.record_repair("the stream ended without message_stop", "message_stop")
        self._stop(out)

    # --- the message ---------------------------------------------------------------------------------------------

    def _start(self, event: Json, out: list[Event]) -> None:
        message = event.get("message")
        if self._phase == "BLOCKS" and type(message) is dict and message.get("id") in (None, "", self._id):
            self._blocks.record_repair("message_start came twice", "message_start")
            return
        self._phase = READER[self._phase]["message_start"]
        if message is None:
            message = {}
        if type(message) is not dict:
            raise UpstreamProtocolError(malformed("message"))
        if message.get("content"):
            if message.get("stop_reason"):
                return self.read_whole(message, out)
            self._message = message
        if not MESSAGE.issuperset(message):
            read_extras(message, MESSAGE, ("message_start", "message"), self.context)
        usage = message.get("usage")
        note_usage(usage, ("usage",), self.context)
        self._usage.start(usage)
        upstream_id, model = message.get("id"), message.get("model")
        self._id = upstream_id if type(upstream_id) is str else ""
        name = model if type(model) is str else ""
        out.append(Start(self._id, name, self._usage.canonical(), tier=tier_of(self.context)))

    def _message_delta(self, event: Json, out: list[Event]) -> None:
        self._phase = READER[self._phase]["message_delta"]
        usage = event.get("usage")
        note_usage(usage, ("usage",), self.context)
        if self._usage.update(usage):
            self._blocks.record_repair("the input of message_start included the cache", "usage")
        delta = event.get("delta")
        if type(delta) is dict and not STOP.issuperset(delta):
            record_unknown(delta, STOP, ("delta",), self.context.losses)
        if type(delta) is not dict or not (native := delta.get("stop_reason")):
            return
        if type(native) is not str:
            raise UpstreamProtocolError("upstream sent a stop_reason that is not a string")
        if self._phase == "STOPPED":
            self._blocks.record_repair("a second stop_reason", _STOP_REASON)
        else:
            self._finish(native, delta, out)

    def _finish(self, native: str, delta: Json, out: list[Event]) -> None:
        self._phase = READER[self._phase]["stop_reason"]
        if self._message is not None and not self._blocks.blocks.count:
            return self._finish_at_once({**self._message, **delta}, out)
        calls = self._blocks.calls
        reason = resolve_stop_reason(
            native,
            calls=calls is not None and bool(calls.all),
            shown=self._blocks.shown,
            losses=self.context.losses,
            at=_STOP_REASON,
        )
        self._blocks.end_all(out, complete=reason not in CUTS)
        sequence = delta.get("stop_sequence")
        stop = Stop(reason, native, sequence if type(sequence) is str else None)
        details = delta.get("stop_details")
        record_unknown_details(details, ("delta", "stop_details"), self.context.losses)
        finish = Finish(stop, self._usage.canonical(), read_stop_details(details))
        if self._usage.is_final():
            out.append(finish)
        else:
            self._waiting = finish

    def _finish_at_once(self, message: Json, out: list[Event]) -> None:
        """Finish a reply whose content was in `message_start`."""
        self._blocks.record_repair("the content of the message was in message_start", "message_start")
        finish: Finish
        _, *blocks, finish, _ = events_of(read_reply(message, self.context))  # type: ignore[assignment]
        finish.usage = self._usage.canonical()
        out += [*blocks, finish]

    def _count_last(self, event: Json) -> None:
        """Take the counts that some servers state in the last event, Bedrock among them."""
        if usage := stated_usage(event):
            note_usage(usage, ("usage",), self.context)
            self._usage.update(usage)

    def _stop(self, out: list[Event]) -> None:
        self._phase = READER[self._phase]["message_stop"]
        if self._waiting is not None:
            self._waiting.usage = self._usage.canonical()
            out.append(self._waiting)
        out.append(End(self._usage.canonical()))
        if self._usage.is_preliminary():
            self.context.losses.add_once(
                LossCode.USAGE_ESTIMATED, "usage", "only message_start counted, before the reply was made"
            )
        self.done = True

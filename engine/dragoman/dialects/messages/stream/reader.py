"""Reads Messages streams into canonical events (mapping §9.6).

The reader maps the upstream's block indexes to canonical ones and checks that every delta fits an open block. Unknown
events and blocks are dropped and recorded. Tool calls, signatures and token counts are read by `read_calls`,
`read_thinking` and `read_usage`, the order of events is kept by `phases`.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from dragoman.canonical.events import (
    CUTS,
    Annotation,
    BlockEnd,
    BlockKind,
    BlockStart,
    Delta,
    End,
    Error,
    Event,
    Finish,
    Opaque,
    Ping,
    Start,
    Stop,
)
from dragoman.canonical.reply import Reply
from dragoman.canonical.reply_events import events_of
from dragoman.canonical.request import Json
from dragoman.dialects import Dialect
from dragoman.dialects.errors.fields import reports_error
from dragoman.dialects.errors.read import read_error_payload
from dragoman.dialects.errors.redact import quote_word
from dragoman.dialects.messages.block_types import OPAQUE_BLOCKS
from dragoman.dialects.messages.citations import known_citations, read_citation
from dragoman.dialects.messages.reply.read import read_reply
from dragoman.dialects.messages.reply_fields import (
    DELTAS,
    EVENT,
    EVENTS,
    MESSAGE,
    STOP,
    TEXT_KEYS,
    note_usage,
    read_extras,
    record_unknown_block,
    record_unknown_citation,
    record_unknown_details,
)
from dragoman.dialects.messages.stop_and_usage import DIALECT, read_stop_details, resolve_stop_reason, stated_usage
from dragoman.dialects.messages.stream.phases import READER, Phase
from dragoman.dialects.messages.stream.read_calls import CallReader
from dragoman.dialects.messages.stream.read_thinking import ThinkingReader
from dragoman.dialects.messages.stream.read_usage import UsageReader
from dragoman.dialects.shared.block_index import BlockMap
from dragoman.dialects.shared.json_fields import is_empty, record_unknown
from dragoman.dialects.shared.service_report import tier_of
from dragoman.dialects.shared.stream_reader import RunCallback, StreamReader, ignore_run
from dragoman.dialects.shared.streamed_arguments import ReplyBudget
from dragoman.errors import DragomanError, Path, StreamTruncated, UpstreamProtocolError
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.wire.json_codec import with_exact

_OPAQUE_BLOCKS = {**OPAQUE_BLOCKS, "redacted_thinking": LossCode.REASONING_ENCRYPTED}
_NO_KEYS: frozenset[str] = frozenset()
_STOP_REASON = ("delta", "stop_reason")
_DELTA_KIND: Final[dict[str, BlockKind]] = {
    "text_delta": "text",
    "thinking_delta": "reasoning",
    "input_json_delta": "tool",
}
_PROSE: Final[frozenset[BlockKind]] = frozenset(("text", "reasoning"))


class MessagesReader(StreamReader):
    """Reads one Messages stream into canonical events.

    The upstream's block indexes are called keys here, canonical ones indexes. Structural events move the reader through
    the table `phases.READER`.
    """

    __slots__ = (
        "_blocks",
        "_budget",
        "_calls",
        "_first",
        "_id",
        "_ignored",
        "_last",
        "_message",
        "_phase",
        "_shown",
        "_thinking",
        "_usage",
        "_waiting",
    )

    dialect = Dialect.MESSAGES

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._blocks = BlockMap(context.limits)
        self._phase: Phase = "WAITING"
        self._shown = False
        """True once there is anything else than reasoning."""
        self._id = ""
        self._last = -1
        """The upstream's index of the block that was started last, for servers that leave it out."""
        self._budget = ReplyBudget(context.limits)
        """Characters that may be kept until the end of the stream."""
        self._calls: CallReader | None = None
        """None before the first call."""
        self._thinking: ThinkingReader | None = None
        """None before the first thinking block."""
        self._usage = UsageReader()
        self._waiting: Finish | None = None
        """The finish, if nothing counted the output before it: some servers do in `message_stop` only."""
        self._message: Json | None = None
        """The message of `message_start`, if it has content, which counts only if no blocks follow."""
        self._first: dict[int, str] = {}
        """Texts of the starts of blocks, until it is known whether their deltas repeat them."""
        self._ignored: set[int] = set()
        """The upstream's indexes of blocks of unknown types."""

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
        if not EVENT.issuperset(event) and type(name) is str and name in EVENTS:
            read_extras(event, EVENT, (name,), self.context)
        if name == "content_block_delta":
            self._delta(event, out)
        elif name == "content_block_start":
            self._start_block(with_exact(data, b"input", event), out)
        elif name == "content_block_stop":
            self._stop_block(event, out)
        elif name == "message_start":
            self._start(event, out)
        elif name == "message_delta":
            self._message_delta(event, out)
        elif name == "message_stop":
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
        for key, (index, kind) in self._blocks.open.items():
            if index == delta.index and type(key) is int:
                if kind == "tool":
                    calls = self._calls
                    return calls.arguments[key].add_all if calls is not None and calls.early.is_last(index) else None
                thinking = self._thinking
                return thinking.buffers[key].add_run if thinking is not None and key in thinking.buffers else ignore_run
        return None

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
        blocks, calls = self._blocks, self._calls.all if self._calls is not None else []
        return f"<MessagesReader {self._phase} blocks={blocks.count} open={len(blocks.open)} calls={len(calls)}>"

    def _end(self, out: list[Event]) -> None:
        self._record_repair("the stream ended without message_stop", "message_stop")
        self._stop(out)

    def _record_repair(self, done: str, at: Path | str = "content") -> None:
        """Record a fault that has only one possible meaning and was read so."""
        self.context.losses.add_once(LossCode.REPLY_REPAIRED, at, done)

    # --- the message ---------------------------------------------------------------------------------------------

    def _start(self, event: Json, out: list[Event]) -> None:
        message = event.get("message")
        if self._phase == "BLOCKS" and type(message) is dict and message.get("id") in (None, "", self._id):
            self._record_repair("message_start came twice", "message_start")
            return
        self._phase = READER[self._phase]["message_start"]
        if message is None:
            message = {}
        if type(message) is not dict:
            raise UpstreamProtocolError(_malformed("message"))
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
            self._record_repair("the input of message_start included the cache", "usage")
        delta = event.get("delta")
        if type(delta) is dict and not STOP.issuperset(delta):
            record_unknown(delta, STOP, ("delta",), self.context.losses)
        if type(delta) is not dict or not (native := delta.get("stop_reason")):
            return
        if type(native) is not str:
            raise UpstreamProtocolError("upstream sent a stop_reason that is not a string")
        if self._phase == "STOPPED":
            self._record_repair("a second stop_reason", _STOP_REASON)
        else:
            self._finish(native, delta, out)

    def _finish(self, native: str, delta: Json, out: list[Event]) -> None:
        self._phase = READER[self._phase]["stop_reason"]
        if self._message is not None and not self._blocks.count:
            return self._finish_at_once({**self._message, **delta}, out)
        still_open, calls = list(self._blocks.open), self._calls
        reason = resolve_stop_reason(
            native,
            calls=calls is not None and bool(calls.all),
            shown=self._shown,
            losses=self.context.losses,
            at=_STOP_REASON,
        )
        for key in still_open:
            self._flush_block(key, out)
        if calls is not None:
            if reason not in CUTS:
                for arguments in calls.all:
                    arguments.check()
            calls.end_pending(out, complete=reason not in CUTS)
        if still_open or (calls is not None and calls.early.ended):
            self._record_repair("a block ended without content_block_stop")
            out.extend(BlockEnd(self._blocks.end(key), reason not in CUTS) for key in still_open)
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
        self._record_repair("the content of the message was in message_start", "message_start")
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

    # --- blocks --------------------------------------------------------------------------------------------------

    def _start_block(self, event: Json, out: list[Event]) -> None:
        self._phase = READER[self._phase]["content_block_start"]
        key, block = event.get("index"), event.get("content_block")
        if key is None:
            self._record_repair("a block had no index")
            key = self._last + 1
        if type(key) is not int or type(block) is not dict:
            raise UpstreamProtocolError(_malformed("content_block_start"))
        self._last = key
        calls = self._calls
        if calls is not None:
            calls.end_pending(out)
            if key in calls.early.ended:
                raise UpstreamProtocolError(f"upstream started block {key} twice")
            calls.early.before_start(out)
        self._end_replaced(key, out)
        kind = block.get("type")
        record_unknown_block(block, ("content_block",), self.context)
        if kind == "text":
            self._open_prose(key, "text", block.get("text"), out)
            index = self._blocks.open[key][0]
            if citations := block.get("citations"):
                self._cite(index, citations, ("content_block", "citations"), out)
        elif kind == "thinking":
            self._open_prose(key, "reasoning", block.get("thinking"), out)
            if self._thinking is None:
                self._thinking = ThinkingReader(self._budget, self.context)
            self._thinking.start(key, self._blocks.open[key][0], block, out)
        elif kind == "tool_use":
            if calls is None:
                calls = self._calls = CallReader(self._blocks, self._budget, self.context)
            calls.start(key, block, self._id, out)
            self._shown = True
        elif type(kind) is str and kind in _OPAQUE_BLOCKS:
            index = self._blocks.start(key, "opaque")
            out.append(BlockStart(index, "opaque", name=kind, code=_OPAQUE_BLOCKS[kind]))
            out.append(Opaque(index, DIALECT, "block", block))
            self._shown = True
        else:
            self._ignored.add(key)
            self.context.losses.add(LossCode.UNKNOWN_EVENT, f"content_block {quote_word(str(kind))}")

    def _end_replaced(self, key: int, out: list[Event]) -> None:
        """End a text or reasoning in whose place another block starts (Ollama; ollama/ollama#17101)."""
        entry = self._blocks.open.get(key)
        if entry is not None and entry[1] in _PROSE:
            self._record_repair("a block started in the place of an open one")
            self._flush_block(key, out)
            out.append(BlockEnd(self._blocks.end(key)))

    def _open_prose(self, key: int, kind: BlockKind, text: Any, out: list[Event]) -> None:
        index = self._blocks.start(key, kind)
        out.append(BlockStart(index, kind))
        if text and type(text) is str:
            if kind == "text":
                self._budget.take(len(text))
                self._first[key] = text
            else:
                out.append(Delta(index, text))

    def _write_first(self, key: int, index: int, text: str, out: list[Event]) -> None:
        """Emit the text of a block's start, unless `text`, which follows it, repeats it (MiniMax; cline/cline#9215)."""
        first = self._first.pop(key, "")
        if not first:
            return
        if text.startswith(first):
            self._record_repair("a delta repeated the text of its block's start")
            return
        self._shown = True
        out.append(Delta(index, first))

    def _change_kind(self, key: int, kind: BlockKind, out: list[Event]) -> None:
        """Go on with a block of the kind that a delta has, in place of the open one."""
        self._record_repair("a block had deltas of another kind")
        self._flush_block(key, out)
        out.append(BlockEnd(self._blocks.end(key)))
        self._open_prose(key, kind, None, out)
        if kind == "reasoning":
            if self._thinking is None:
                self._thinking = ThinkingReader(self._budget, self.context)
            self._thinking.start(key, self._blocks.open[key][0], {"type": "thinking"}, out)

    def _delta(self, event: Json, out: list[Event]) -> None:
        key = event.get("index")
        delta = event.get("delta")
        if type(key) is not int:
            key = self._last_index(key, "content_block_delta")
        entry = self._blocks.open.get(key)
        if not delta:
            return
        if entry is None:
            if (
                key in self._ignored
                or _is_empty(delta)
                or (self._calls is not None and self._calls.is_late(key, delta))
            ):
                return
            raise UpstreamProtocolError(f"upstream continued block {key}, which is not open")
        if type(delta) is not dict:
            raise UpstreamProtocolError(_malformed("content_block_delta"))
        kind, form = entry[1], delta.get("type")
        if kind != "opaque" and (known := DELTAS.get(str(form), _NO_KEYS)) and not known.issuperset(delta):
            record_unknown(delta, known, ("delta",), self.context.losses)
        if type(form) is str and form in _DELTA_KIND and kind != "opaque":
            self._text_delta(key, form, delta, out)
        else:
            self._other_delta(key, form, delta, out)

    def _text_delta(self, key: int, form: str, delta: Json, out: list[Event]) -> None:
        """Read a delta with a text: of prose, of reasoning, or of a call's arguments."""
        index, kind = self._blocks.open[key]
        text = delta.get(TEXT_KEYS[form])
        if _DELTA_KIND[form] != kind or type(text) is not str:
            if _is_empty(delta) and (text is not None or kind != "tool"):
                return
            if type(text) is str and kind in _PROSE and (meant := _DELTA_KIND[form]) in _PROSE:
                self._change_kind(key, meant, out)
                index, kind = self._blocks.open[key]
            else:
                text = self._repair_fragment(form, kind, text)
        if key in self._first and text:
            self._write_first(key, index, text, out)
        calls = self._calls if kind == "tool" else None
        if calls is not None:
            text = calls.arguments[key].pass_on(text)
        elif kind == "reasoning" and (thinking := self._thinking) is not None and key in thinking.buffers:
            thinking.buffers[key].add_text(text)
        if text:
            out.append(Delta(index, text))
            if kind == "text":
                self._shown = True
        if calls is not None:
            calls.early.after_delta(key, out)

    def _other_delta(self, key: int, form: Any, delta: Json, out: list[Event]) -> None:
        """Read a delta with a signature or a citation, or of an opaque or unknown kind."""
        index, kind = self._blocks.open[key]
        if form == "signature_delta" and kind == "reasoning" and self._thinking is not None:
            self._thinking.sign(key, index, delta.get("signature"), out)
        elif form == "citations_delta" and kind == "text":
            if citation := delta.get("citation"):
                self._cite(index, [citation], ("delta", "citation"), out)
        elif kind == "opaque":
            out.append(Opaque(index, DIALECT, "delta", delta))
        elif _is_empty(delta):
            return
        elif form in ("signature_delta", "citations_delta"):
            raise UpstreamProtocolError(f"upstream sent {form} in a {kind} block")
        else:
            self.context.losses.add(LossCode.UNKNOWN_EVENT, quote_word(str(form)))

    def _cite(self, index: int, citations: Any, at: Path, out: list[Event]) -> None:
        for citation in known_citations(citations, at, self.context.losses):
            record_unknown_citation(citation, at, self.context)
            out.append(Annotation(index, read_citation(citation)))

    def _last_index(self, key: Any, what: str) -> int:
        """Return the index for an event without one: that of the last block. `what` is the event's name."""
        if key is not None:
            raise UpstreamProtocolError(_malformed(what))
        self._record_repair("a block had no index")
        return self._last

    def _repair_fragment(self, form: str, kind: BlockKind, text: Any) -> str:
        """Return the text of a fragment that is not a string, if there is only one possible meaning."""
        fits = _DELTA_KIND[form] == kind == "tool" and (text is None or type(text) is dict)
        if fits and self._calls is not None:
            return self._calls.repair_fragment(text)
        raise UpstreamProtocolError(f"upstream sent {form} in a {kind} block")

    def _stop_block(self, event: Json, out: list[Event]) -> None:
        key = event.get("index")
        if type(key) is not int:
            key = self._last_index(key, "content_block_stop")
        if key in self._ignored:
            self._ignored.discard(key)
            return
        calls = self._calls
        if calls is not None and key in calls.early.ended:
            del calls.early.ended[key]
            return
        entry = self._blocks.open.get(key)
        if entry is None:
            if self._phase == "WAITING":
                raise UpstreamProtocolError("upstream ended a block before message_start")
            self._record_repair("a block ended that was not open")
            return
        self._flush_block(key, out)
        index = self._blocks.end(key)
        if calls is not None and entry[1] == "tool":
            calls.end(key, index, out, last=key == self._last)
        else:
            out.append(BlockEnd(index))

    def _flush_block(self, key: Any, out: list[Event]) -> None:
        """Emit whatever a block holds back until its end."""
        entry = self._blocks.open.get(key)
        if entry is None:
            return
        self._write_first(key, entry[0], "", out)
        if entry[1] == "reasoning" and self._thinking is not None:
            self._thinking.flush(key, entry[0], out)
        elif entry[1] == "tool" and self._calls is not None:
            self._calls.flush(key, entry[0], out)


def _is_empty(delta: Any) -> bool:
    """True for a delta that has nothing but its type."""
    return type(delta) is dict and is_empty({**delta, "type": None})


def _malformed(what: str) -> str:
    return f"upstream sent a malformed {what}"

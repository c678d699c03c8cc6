"""Messages stream to canonical events.

Messages names its blocks itself, so this reader maps its indexes, checks that every delta fits an open block, and lays
the cumulative usage of `message_delta` over that of `message_start` (overwriting, never adding). What it does not know
it leaves out with its whole index, counted (mapping §9.6).
"""

from __future__ import annotations

from typing import Any

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
    Usage,
)
from dragoman.canonical.request import Json
from dragoman.dialects.errors.redact import quote_word
from dragoman.dialects.messages.errors import read_error_frame
from dragoman.dialects.messages.stream.read_thinking import ThinkingBuffer
from dragoman.dialects.messages.wire import (
    DIALECT,
    OPAQUE_BLOCKS,
    read_citation,
    read_stop_details,
    read_usage,
    resolve_stop_reason,
)
from dragoman.dialects.shared.block_index import BlockMap
from dragoman.dialects.shared.early_call_ends import EarlyEnds
from dragoman.dialects.shared.stream_codec import Note, StreamReader, no_note
from dragoman.dialects.shared.tool_arguments import Arguments, Room
from dragoman.errors import Path, StreamTruncated, UpstreamProtocolError
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.tools.names import reply_id, sanitize_call_id
from dragoman.wire.json_codec import dumps

# CPython 3.11 takes twenty times as long to find a member in its class.
_TEXT, _REASONING, _TOOL, _OPAQUE = BlockKind.TEXT, BlockKind.REASONING, BlockKind.TOOL, BlockKind.OPAQUE
_TEXT_KEY = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_OPAQUE_BLOCKS = {**OPAQUE_BLOCKS, "redacted_thinking": LossCode.REASONING_ENCRYPTED}
_LONGEST_MINTED_ID = 40
_STOP_REASON = ("delta", "stop_reason")
_DELTA_KIND = {"text_delta": BlockKind.TEXT, "thinking_delta": BlockKind.REASONING, "input_json_delta": BlockKind.TOOL}


class MessagesReader(StreamReader):
    """See the module's docstring."""

    __slots__ = (
        "_arguments",
        "_blocks",
        "_calls",
        "_early",
        "_finished",
        "_has_content",
        "_id",
        "_ids",
        "_ignored",
        "_initial_input",
        "_last",
        "_merged_usage",
        "_output_counted",
        "_pending_call",
        "_room",
        "_started",
        "_thinking",
        "_usage",
    )

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._blocks = BlockMap(context.limits)
        self._early = EarlyEnds(self._blocks, context)
        self._started = False
        self._finished = False
        self._has_content = False
        self._id = ""
        self._ids: set[str] | None = None
        """The ids that calls were given."""
        self._last = -1
        """The index of the block that was started last, for servers that leave it out."""
        self._output_counted = False
        """Did the end count the output. What `message_start` says of it is no final count."""
        self._room = Room(context.limits)
        self._calls: list[Arguments] = []
        self._usage: Json = {}
        self._merged_usage: Usage | None = None
        """What `_usage` says, if it has not changed since it was asked for."""
        self._ignored: set[int] = set()
        self._thinking: dict[int, ThinkingBuffer] = {}
        """Open thinking blocks, kept whole only for clients that bring them back."""
        self._arguments: dict[int, Arguments] = {}
        """By upstream index, of the call that was last open there."""
        self._initial_input: dict[int, str] = {}
        """Arguments that came whole in the start of a call: they count unless the usual fragments follow."""
        self._pending_call: int | None = None
        """The block of a call that ended without arguments. It is whole, unless the reply turns out to be cut there."""

    def read(self, data: bytes, out: list[Event]) -> None:
        """One event. `[DONE]` is not of this dialect, but some servers send it; it means nothing, unless the server is
        known to leave `message_stop` out."""
        if data == b"[DONE]":
            if self._finished and not self.context.profile.message_stop:
                self._end(out)
            return
        try:
            event = orjson.loads(data)
        except orjson.JSONDecodeError:
            event = self.payload(data)
        if type(event) is not dict:
            raise UpstreamProtocolError("upstream sent a stream frame that is not a JSON object")
        name = event.get("type")
        if name == "content_block_delta":
            self._delta(event, out)
        elif name == "content_block_start":
            self._start_block(event, out)
        elif name == "content_block_stop":
            self._stop_block(event, out)
        elif name == "message_start":
            self._start(event, out)
        elif name == "message_delta":
            self._message_delta(event, out)
        elif name == "message_stop":
            self._stop(out)
        elif name == "ping":
            out.append(Ping())
        elif name == "error" or (name is None and event.get("error")):
            out.append(Error(read_error_frame(event)))
            self.done = True
        else:
            self.context.losses.add(LossCode.UNKNOWN_EVENT, quote_word(str(name)))

    def follow(self, delta: Delta) -> Note | None:
        """See `StreamReader.follow`."""
        for key, (index, kind) in self._blocks.open.items():
            if index == delta.index and type(key) is int:
                if kind is _TOOL:
                    return self._arguments[key].add_all if self._early.is_last(index) else None
                return self._thinking[key].add_run if key in self._thinking else no_note
        return None

    def read_eof(self, out: list[Event]) -> None:
        """Only `message_stop` ends the stream; anything less was cut (mapping §9.6). Of a server that is known to leave
        it out, the stop reason is the end: nothing but it is missing."""
        if not self._finished or self.context.profile.message_stop:
            raise StreamTruncated
        self._end(out)

    def _end(self, out: list[Event]) -> None:
        self._record_repair("the stream ended without message_stop", "message_stop")
        self._stop(out)

    def _record_repair(self, what: str, at: Path | str = "content", code: LossCode = LossCode.REPLY_REPAIRED) -> None:
        """A row for what was read as the one thing that it can mean."""
        self.context.losses.add_once(code, at, what)

    # --- the message ---------------------------------------------------------------------------------------------

    def _start(self, event: Json, out: list[Event]) -> None:
        message = event.get("message")
        if self._started or type(message) is not dict:
            raise UpstreamProtocolError("upstream sent message_start twice" if self._started else _malformed("message"))
        self._started = True
        usage = message.get("usage")
        if type(usage) is dict:
            self._usage = dict(usage)
        upstream_id, model = message.get("id"), message.get("model")
        self._id = upstream_id if type(upstream_id) is str else ""
        out.append(
            Start(
                self._id,
                model if type(model) is str else "",
                self._read_usage(),
            )
        )

    def _message_delta(self, event: Json, out: list[Event]) -> None:
        self._need_start()
        usage = event.get("usage")
        if type(usage) is dict:
            self._merged_usage = None
            self._usage.update((key, value) for key, value in usage.items() if value is not None)
            self._output_counted |= usage.get("output_tokens") is not None
        delta = event.get("delta")
        if type(delta) is not dict or not (native := delta.get("stop_reason")):
            return
        if self._finished:
            self._record_repair("a second stop_reason", _STOP_REASON)
        else:
            self._finish(str(native), delta, out)

    def _finish(self, native: str, delta: Json, out: list[Event]) -> None:
        still_open = list(self._blocks.open)
        losses = self.context.losses
        reason = resolve_stop_reason(
            native, calls=bool(self._calls), content=self._has_content, losses=losses, at=_STOP_REASON
        )
        for key in still_open:
            self._flush_block(key, out)
        if reason not in CUTS:
            for arguments in self._calls:
                arguments.check()
        self._end_pending_call(out, complete=reason not in CUTS)
        if still_open or self._early.ended:
            self._record_repair("a block ended without content_block_stop")
            out.extend(BlockEnd(self._blocks.end(key), reason not in CUTS) for key in still_open)
        sequence = delta.get("stop_sequence")
        stop = Stop(reason, native, sequence if type(sequence) is str else None)
        out.append(Finish(stop, self._read_usage(), read_stop_details(delta.get("stop_details"))))
        self._finished = True

    def _stop(self, out: list[Event]) -> None:
        self._need_start()
        if not self._finished:
            raise StreamTruncated("upstream sent message_stop before a stop_reason")
        out.append(End(self._read_usage()))
        if not self._output_counted and self._usage.get("output_tokens"):
            self.context.losses.add_once(
                LossCode.USAGE_ESTIMATED, "usage", "only message_start counted, before the reply was made"
            )
        self.done = True

    def _read_usage(self) -> Usage | None:
        if self._merged_usage is None and self._usage:
            self._merged_usage = read_usage(self._usage)
        return self._merged_usage

    def _need_start(self) -> None:
        if not self._started:
            raise UpstreamProtocolError("upstream sent an event before message_start")

    # --- blocks --------------------------------------------------------------------------------------------------

    def _start_block(self, event: Json, out: list[Event]) -> None:
        self._need_start()
        if self._finished:
            raise UpstreamProtocolError("upstream started a block after the stop_reason")
        key, block = event.get("index"), event.get("content_block")
        if key is None:
            self._record_repair("a block came without its index")
            key = self._last + 1
        if type(key) is not int or type(block) is not dict:
            raise UpstreamProtocolError(_malformed("content_block_start"))
        self._last = key
        self._end_pending_call(out)
        if key in self._early.ended:
            raise UpstreamProtocolError(f"upstream started block {key} twice")
        self._early.before_start(out)
        kind = block.get("type")
        if kind == "text":
            self._open_prose(key, _TEXT, block.get("text"), out)
            index = self._blocks.open[key][0]
            citations = block.get("citations")
            if type(citations) is list:
                out.extend(Annotation(index, read_citation(citation)) for citation in citations)
        elif kind == "thinking":
            self._open_prose(key, _REASONING, block.get("thinking"), out)
            if self.context.envelope is not None:
                self._thinking[key] = ThinkingBuffer(block, self._room)
            if signature := block.get("signature"):
                self._add_signature(key, signature, out)
        elif kind == "tool_use":
            self._open_call(key, block, out)
        elif type(kind) is str and kind in _OPAQUE_BLOCKS:
            index = self._blocks.start(key, _OPAQUE)
            out.append(BlockStart(index, _OPAQUE, name=kind, code=_OPAQUE_BLOCKS[kind]))
            out.append(Opaque(index, DIALECT, "block", block))
            self._has_content = True
        else:
            self._ignored.add(key)
            self.context.losses.add(LossCode.UNKNOWN_EVENT, f"content_block {quote_word(str(kind))}")

    def _open_prose(self, key: int, kind: BlockKind, text: Any, out: list[Event]) -> None:
        index = self._blocks.start(key, kind)
        self._has_content = True
        out.append(BlockStart(index, kind))
        if text and type(text) is str:
            out.append(Delta(index, text))

    def _open_call(self, key: int, block: Json, out: list[Event]) -> None:
        call_id, name = block.get("id"), block.get("name")
        if type(name) is not str or not name:
            raise UpstreamProtocolError("upstream started a tool_use block without a name")
        index = self._blocks.start(key, _TOOL)
        if self._ids is None:
            self._ids = set()
        if type(call_id) is not str or not call_id or call_id in self._ids:  # the result must name one, and only one
            repeated = type(call_id) is str and call_id
            self._record_repair(
                "a call with the id of another" if repeated else "a call without an id", code=LossCode.CALL_ID
            )
            call_id = sanitize_call_id(f"{reply_id(self._id, 'call_')}_{index}", _LONGEST_MINTED_ID)
        self._ids.add(call_id)
        self._has_content = True
        out.append(BlockStart(index, _TOOL, call_id, self.context.names.get(name, name)))
        self._arguments[key] = Arguments(self._room, name)
        self._calls.append(self._arguments[key])
        self._early.watch(key, self._arguments[key])
        if initial := block.get("input"):
            self._initial_input[key] = initial if type(initial) is str else dumps(initial).decode()

    def _delta(self, event: Json, out: list[Event]) -> None:
        key = event.get("index")
        delta = event.get("delta")
        if type(key) is not int:
            key = self._last_index(key, "content_block_delta")
        entry = self._blocks.open.get(key)
        if entry is None:
            if key in self._ignored or self._is_late(key, delta):
                return
            raise UpstreamProtocolError(f"upstream continued block {key}, which is not open")
        if type(delta) is not dict:
            raise UpstreamProtocolError(_malformed("content_block_delta"))
        index, kind = entry
        form = delta.get("type")
        if type(form) is str and form in _DELTA_KIND and kind is not _OPAQUE:
            text = delta.get(_TEXT_KEY[form])
            if _DELTA_KIND[form] is not kind or type(text) is not str:
                text = self._repair_fragment(form, kind, text)
            if kind is _TOOL:
                self._arguments[key].add(text)
            elif kind is _REASONING and key in self._thinking:
                self._thinking[key].add_text(text)
            if text:
                out.append(Delta(index, text))
                if kind is _TOOL:
                    self._early.after_delta(key, out)
        elif form == "signature_delta" and kind is _REASONING:
            self._add_signature(key, delta.get("signature"), out)
        elif form == "citations_delta" and kind is _TEXT:
            out.append(Annotation(index, read_citation(delta.get("citation"))))
        elif kind is _OPAQUE:
            out.append(Opaque(index, DIALECT, "delta", delta))
        elif form in ("signature_delta", "citations_delta"):
            raise UpstreamProtocolError(f"upstream sent {form} in a {kind} block")
        else:
            self.context.losses.add(LossCode.UNKNOWN_EVENT, quote_word(str(form)))

    def _is_late(self, key: int, delta: Any) -> bool:
        """True for white space behind a call that was ended early. Raises UpstreamProtocolError for anything else."""
        text = delta.get("partial_json") if type(delta) is dict else None
        return self._early.late(key, text if type(text) is str else "?", self._name_of(key))

    def _name_of(self, key: int) -> str:
        return self._arguments[key].name if key in self._arguments else ""

    def _last_index(self, key: Any, what: str) -> int:
        """The block of an event that does not tell its index: the last one."""
        if key is not None:
            raise UpstreamProtocolError(_malformed(what))
        self._record_repair("a block came without its index")
        return self._last

    def _repair_fragment(self, form: str, kind: BlockKind, text: Any) -> str:
        """A fragment that is no text: arguments that the server forgot to encode, or none."""
        if _DELTA_KIND[form] is kind is _TOOL and (text is None or type(text) is dict):
            self._record_repair(
                "arguments came as an object instead of its text" if text else "a fragment of arguments is null"
            )
            return dumps(text).decode() if text is not None else ""
        raise UpstreamProtocolError(f"upstream sent {form} in a {kind} block")

    def _add_signature(self, key: int, signature: Any, out: list[Event]) -> None:
        if key in self._thinking:
            self._thinking[key].add_signature(signature)
        else:
            out.append(Opaque(self._blocks.open[key][0], DIALECT, "signature", signature))

    def _stop_block(self, event: Json, out: list[Event]) -> None:
        key = event.get("index")
        if type(key) is not int:
            key = self._last_index(key, "content_block_stop")
        if key in self._ignored:
            self._ignored.discard(key)
            return
        if key in self._early.ended:
            del self._early.ended[key]
            return
        self._flush_block(key, out)
        entry = self._blocks.open.get(key)
        index = self._blocks.end(key)
        if entry is not None and entry[1] is _TOOL and key == self._last and self._arguments[key].is_blank():
            self._pending_call = index  # a guessed argument would run a real tool (mapping §6.3)
        else:
            out.append(BlockEnd(index))

    def _end_pending_call(self, out: list[Event], *, complete: bool = True) -> None:
        """End the block that waits, now that something follows it, or nothing."""
        if self._pending_call is not None:
            out.append(BlockEnd(self._pending_call, complete))
            self._pending_call = None

    def _flush_block(self, key: Any, out: list[Event]) -> None:
        """What a block is given with its end."""
        entry = self._blocks.open.get(key)
        if entry is None:
            return
        index = entry[0]
        buffer = self._thinking.pop(key, None)
        if buffer is not None:
            # Unsigned as well: some servers sign nothing and still want their own blocks back (mapping §5.4).
            block = buffer.block()
            out.append(Opaque(index, DIALECT, "signature", block["signature"], block))
        initial = self._initial_input.pop(key, None)
        if initial is not None and not self._arguments[key]:
            self._record_repair("the arguments of a call came whole in content_block_start")
            self._arguments[key].add(initial)
            out.append(Delta(index, initial))


def _malformed(what: str) -> str:
    return f"upstream sent a malformed {what}"

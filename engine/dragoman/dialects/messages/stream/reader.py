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
from dragoman.dialects.messages.stream.read_thinking import Thought
from dragoman.dialects.messages.wire import DIALECT, OPAQUE_BLOCKS, read_citation, read_stop_details, read_usage, settle
from dragoman.dialects.shared.block_index import BlockMap
from dragoman.dialects.shared.early_call_ends import EarlyEnds
from dragoman.dialects.shared.stream_codec import RunCallback, StreamReader, ignore_run
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
_FITS = {"text_delta": BlockKind.TEXT, "thinking_delta": BlockKind.REASONING, "input_json_delta": BlockKind.TOOL}


class MessagesReader(StreamReader):
    """See the module's docstring."""

    __slots__ = (
        "_arguments",
        "_blocks",
        "_calls",
        "_counted",
        "_early",
        "_finished",
        "_given",
        "_id",
        "_ids",
        "_ignored",
        "_last",
        "_room",
        "_spoken",
        "_started",
        "_thoughts",
        "_told",
        "_usage",
        "_waiting",
    )

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._blocks = BlockMap(context.limits)
        self._early = EarlyEnds(self._blocks, context)
        self._started = False
        self._finished = False
        self._spoken = False
        self._id = ""
        self._ids: set[str] | None = None
        """The ids that calls were given."""
        self._last = -1
        """The index of the block that was started last, for servers that leave it out."""
        self._counted = False
        """Did the end count the output. What `message_start` says of it is no final count."""
        self._room = Room(context.limits)
        self._calls: list[Arguments] = []
        self._usage: Json = {}
        self._told: Usage | None = None
        """What `_usage` says, if it has not changed since it was asked for."""
        self._ignored: set[int] = set()
        self._thoughts: dict[int, Thought] = {}
        """Open thinking blocks, kept whole only for clients that bring them back."""
        self._arguments: dict[int, Arguments] = {}
        """By upstream index, of the call that was last open there."""
        self._given: dict[int, str] = {}
        """Arguments that came whole in the start of a call: they count unless the usual fragments follow."""
        self._waiting: int | None = None
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

    def follow(self, said: Delta) -> RunCallback | None:
        """See `StreamReader.follow`."""
        for key, (index, kind) in self._blocks.open.items():
            if index == said.index and type(key) is int:
                if kind is _TOOL:
                    return self._arguments[key].add_all if self._early.is_last(index) else None
                return self._thoughts[key].think_on if key in self._thoughts else ignore_run
        return None

    def read_eof(self, out: list[Event]) -> None:
        """Only `message_stop` ends the stream; anything less was cut (mapping §9.6). Of a server that is known to leave
        it out, the stop reason is the end: nothing but it is missing."""
        if not self._finished or self.context.profile.message_stop:
            raise StreamTruncated
        self._end(out)

    def _end(self, out: list[Event]) -> None:
        self._mend("the stream ended without message_stop", "message_stop")
        self._stop(out)

    def _mend(self, what: str, at: Path | str = "content", code: LossCode = LossCode.REPLY_REPAIRED) -> None:
        """A row for what was read as the one thing that it can mean."""
        self.context.losses.add_once(code, at, what)

    # --- the message ---------------------------------------------------------------------------------------------

    def _start(self, event: Json, out: list[Event]) -> None:
        message = event.get("message")
        if self._started or type(message) is not dict:
            raise UpstreamProtocolError("upstream sent message_start twice" if self._started else _bad("message"))
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
                self._counts(),
            )
        )

    def _message_delta(self, event: Json, out: list[Event]) -> None:
        self._need_start()
        usage = event.get("usage")
        if type(usage) is dict:
            self._told = None
            self._usage.update((key, value) for key, value in usage.items() if value is not None)
            self._counted |= usage.get("output_tokens") is not None
        delta = event.get("delta")
        if type(delta) is not dict or not (native := delta.get("stop_reason")):
            return
        if self._finished:
            self._mend("a second stop_reason", _STOP_REASON)
        else:
            self._finish(str(native), delta, out)

    def _finish(self, native: str, delta: Json, out: list[Event]) -> None:
        still_open = list(self._blocks.open)
        losses = self.context.losses
        reason = settle(native, calls=bool(self._calls), content=self._spoken, losses=losses, at=_STOP_REASON)
        for key in still_open:
            self._complete(key, out)
        if reason not in CUTS:
            for arguments in self._calls:
                arguments.check()
        self._let_go(out, complete=reason not in CUTS)
        if still_open or self._early.ended:
            self._mend("a block ended without content_block_stop")
            out.extend(BlockEnd(self._blocks.end(key), reason not in CUTS) for key in still_open)
        sequence = delta.get("stop_sequence")
        stop = Stop(reason, native, sequence if type(sequence) is str else None)
        out.append(Finish(stop, self._counts(), read_stop_details(delta.get("stop_details"))))
        self._finished = True

    def _stop(self, out: list[Event]) -> None:
        self._need_start()
        if not self._finished:
            raise StreamTruncated("upstream sent message_stop before a stop_reason")
        out.append(End(self._counts()))
        if not self._counted and self._usage.get("output_tokens"):
            self.context.losses.add_once(
                LossCode.USAGE_ESTIMATED, "usage", "only message_start counted, before the reply was made"
            )
        self.done = True

    def _counts(self) -> Usage | None:
        if self._told is None and self._usage:
            self._told = read_usage(self._usage)
        return self._told

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
            self._mend("a block came without its index")
            key = self._last + 1
        if type(key) is not int or type(block) is not dict:
            raise UpstreamProtocolError(_bad("content_block_start"))
        self._last = key
        self._let_go(out)
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
                self._thoughts[key] = Thought(block, self._room)
            if signature := block.get("signature"):
                self._sign(key, signature, out)
        elif kind == "tool_use":
            self._open_call(key, block, out)
        elif type(kind) is str and kind in _OPAQUE_BLOCKS:
            index = self._blocks.start(key, _OPAQUE)
            out.append(BlockStart(index, _OPAQUE, name=kind, code=_OPAQUE_BLOCKS[kind]))
            out.append(Opaque(index, DIALECT, "block", block))
            self._spoken = True
        else:
            self._ignored.add(key)
            self.context.losses.add(LossCode.UNKNOWN_EVENT, f"content_block {quote_word(str(kind))}")

    def _open_prose(self, key: int, kind: BlockKind, text: Any, out: list[Event]) -> None:
        index = self._blocks.start(key, kind)
        self._spoken = True
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
            twin = type(call_id) is str and call_id
            self._mend("a call with the id of another" if twin else "a call without an id", code=LossCode.CALL_ID)
            call_id = sanitize_call_id(f"{reply_id(self._id, 'call_')}_{index}", _LONGEST_MINTED_ID)
        self._ids.add(call_id)
        self._spoken = True
        out.append(BlockStart(index, _TOOL, call_id, self.context.names.get(name, name)))
        self._arguments[key] = Arguments(self._room, name)
        self._calls.append(self._arguments[key])
        self._early.watch(key, self._arguments[key])
        if given := block.get("input"):
            self._given[key] = given if type(given) is str else dumps(given).decode()

    def _delta(self, event: Json, out: list[Event]) -> None:
        key = event.get("index")
        delta = event.get("delta")
        if type(key) is not int:
            key = self._speaking(key, "content_block_delta")
        entry = self._blocks.open.get(key)
        if entry is None:
            if key in self._ignored or self._is_late(key, delta):
                return
            raise UpstreamProtocolError(f"upstream continued block {key}, which is not open")
        if type(delta) is not dict:
            raise UpstreamProtocolError(_bad("content_block_delta"))
        index, kind = entry
        form = delta.get("type")
        if type(form) is str and form in _FITS and kind is not _OPAQUE:
            text = delta.get(_TEXT_KEY[form])
            if _FITS[form] is not kind or type(text) is not str:
                text = self._spelled(form, kind, text)
            if kind is _TOOL:
                self._arguments[key].add(text)
            elif kind is _REASONING and key in self._thoughts:
                self._thoughts[key].think(text)
            if text:
                out.append(Delta(index, text))
                if kind is _TOOL:
                    self._early.after_delta(key, out)
        elif form == "signature_delta" and kind is _REASONING:
            self._sign(key, delta.get("signature"), out)
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

    def _speaking(self, key: Any, what: str) -> int:
        """The block of an event that does not tell its index: the last one."""
        if key is not None:
            raise UpstreamProtocolError(_bad(what))
        self._mend("a block came without its index")
        return self._last

    def _spelled(self, form: str, kind: BlockKind, text: Any) -> str:
        """A fragment that is no text: arguments that the server forgot to encode, or none."""
        if _FITS[form] is kind is _TOOL and (text is None or type(text) is dict):
            self._mend("arguments came as an object instead of its text" if text else "a fragment of arguments is null")
            return dumps(text).decode() if text is not None else ""
        raise UpstreamProtocolError(f"upstream sent {form} in a {kind} block")

    def _sign(self, key: int, signature: Any, out: list[Event]) -> None:
        if key in self._thoughts:
            self._thoughts[key].sign(signature)
        else:
            out.append(Opaque(self._blocks.open[key][0], DIALECT, "signature", signature))

    def _stop_block(self, event: Json, out: list[Event]) -> None:
        key = event.get("index")
        if type(key) is not int:
            key = self._speaking(key, "content_block_stop")
        if key in self._ignored:
            self._ignored.discard(key)
            return
        if key in self._early.ended:
            del self._early.ended[key]
            return
        self._complete(key, out)
        entry = self._blocks.open.get(key)
        index = self._blocks.end(key)
        if entry is not None and entry[1] is _TOOL and key == self._last and self._arguments[key].is_blank():
            self._waiting = index  # a guessed argument would run a real tool (mapping §6.3)
        else:
            out.append(BlockEnd(index))

    def _let_go(self, out: list[Event], *, complete: bool = True) -> None:
        """End the block that waits, now that something follows it, or nothing."""
        if self._waiting is not None:
            out.append(BlockEnd(self._waiting, complete))
            self._waiting = None

    def _complete(self, key: Any, out: list[Event]) -> None:
        """What a block is given with its end."""
        entry = self._blocks.open.get(key)
        if entry is None:
            return
        index = entry[0]
        thought = self._thoughts.pop(key, None)
        if thought is not None:
            # Unsigned as well: some servers sign nothing and still want their own blocks back (mapping §5.4).
            block = thought.block()
            out.append(Opaque(index, DIALECT, "signature", block["signature"], block))
        given = self._given.pop(key, None)
        if given is not None and not self._arguments[key]:
            self._mend("the arguments of a call came whole in content_block_start")
            self._arguments[key].add(given)
            out.append(Delta(index, given))


def _bad(what: str) -> str:
    return f"upstream sent a malformed {what}"

"""Messages stream to canonical events.

Messages names its blocks itself, so this reader maps its indexes, checks that every delta fits an open block, and lays
the cumulative usage of `message_delta` over that of `message_start` (overwriting, never adding). What it does not know
it leaves out with its whole index, counted (mapping §9.6).
"""

from __future__ import annotations

from typing import Any

import orjson

from ...blocks import BlockMap
from ...context import ReplyContext
from ...errors import StreamTruncated, UpstreamProtocolError
from ...events import (
    CUTS,
    Annotation,
    BlockEnd,
    BlockStart,
    Delta,
    Deltas,
    End,
    Error,
    Event,
    Finish,
    Kind,
    Opaque,
    Ping,
    Start,
    Stop,
    StopReason,
    Usage,
)
from ...jsontext import dumps
from ...losses import Code
from ...model import Json
from ..arguments import Arguments, Room
from ..stream import Note, StreamReader, no_note
from .failure import read_error_frame
from .wire import DIALECT, OPAQUE_BLOCKS, read_citation, read_stop, read_stop_details, read_usage

_TEXT_KEY = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_OPAQUE_BLOCKS = {**OPAQUE_BLOCKS, "redacted_thinking": Code.REASONING_ENCRYPTED}
_FITS = {"text_delta": Kind.TEXT, "thinking_delta": Kind.REASONING, "input_json_delta": Kind.TOOL}


class MessagesReader(StreamReader):
    """See the module's docstring."""

    __slots__ = (
        "_arguments",
        "_blocks",
        "_calls",
        "_finished",
        "_given",
        "_ignored",
        "_room",
        "_spoken",
        "_started",
        "_thoughts",
        "_usage",
    )

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._blocks = BlockMap(context.limits)
        self._started = False
        self._finished = False
        self._spoken = False
        self._room = Room(context.limits)
        self._calls: list[Arguments] = []
        self._usage: Json = {}
        self._ignored: set[int] = set()
        self._thoughts: dict[int, _Thought] = {}
        """Open thinking blocks, kept whole only for clients that bring them back."""
        self._arguments: dict[int, Arguments] = {}
        """By upstream index, of the call that was last open there."""
        self._given: dict[int, str] = {}
        """Arguments that came whole in the start of a call: they count unless the usual fragments follow."""

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
            self.context.losses.add(Code.UNKNOWN_EVENT, str(name))

    def follow(self, said: Delta) -> Note | None:
        """See `StreamReader.follow`."""
        for key, (index, kind) in self._blocks.open.items():
            if index == said.index and type(key) is int:
                if kind is Kind.TOOL:
                    return self._arguments[key].add_all
                return self._thoughts[key].think_on if key in self._thoughts else no_note
        return None

    def read_eof(self, out: list[Event]) -> None:
        """Only `message_stop` ends the stream; anything less was cut."""
        raise StreamTruncated

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
        out.append(
            Start(
                upstream_id if type(upstream_id) is str else "",
                model if type(model) is str else "",
                self._counts(),
            )
        )

    def _message_delta(self, event: Json, out: list[Event]) -> None:
        self._need_start()
        usage = event.get("usage")
        if type(usage) is dict:
            self._usage.update((key, value) for key, value in usage.items() if value is not None)
        delta = event.get("delta")
        if type(delta) is not dict or self._finished:
            return
        native = delta.get("stop_reason")
        if native is not None:
            self._finish(str(native), delta, out)

    def _finish(self, native: str | None, delta: Json, out: list[Event]) -> None:
        if self._blocks.open:
            raise UpstreamProtocolError("upstream finished the message with blocks still open")
        losses = self.context.losses
        reason = read_stop(native)
        if reason is None:
            if native is None and not self._spoken:
                raise UpstreamProtocolError("upstream ended the message without a stop_reason or any content")
            losses.add(Code.STOP_UNKNOWN, "delta.stop_reason", f"read {native!r} as end_turn")
            reason = StopReason.END
        if reason is StopReason.END and self._calls:
            reason = StopReason.TOOL_CALLS
        elif reason is StopReason.TOOL_CALLS and not self._calls:
            losses.add(Code.FINISH_FIXED, "delta.stop_reason", "no call was made; read as end_turn")
            reason = StopReason.END
        if reason not in CUTS:
            for arguments in self._calls:
                arguments.check()
        sequence = delta.get("stop_sequence")
        stop = Stop(reason, native, sequence if type(sequence) is str else None)
        out.append(Finish(stop, self._counts(), read_stop_details(delta.get("stop_details"))))
        self._finished = True

    def _stop(self, out: list[Event]) -> None:
        self._need_start()
        if self._finished:
            out.append(End(self._counts()))
        else:
            self._finish(None, {}, out)
            out.append(End())
        self.done = True

    def _counts(self) -> Usage | None:
        return read_usage(self._usage) if self._usage else None

    def _need_start(self) -> None:
        if not self._started:
            raise UpstreamProtocolError("upstream sent an event before message_start")

    # --- blocks --------------------------------------------------------------------------------------------------

    def _start_block(self, event: Json, out: list[Event]) -> None:
        self._need_start()
        if self._finished:
            raise UpstreamProtocolError("upstream started a block after the stop_reason")
        key, block = event.get("index"), event.get("content_block")
        if type(key) is not int or type(block) is not dict:
            raise UpstreamProtocolError(_bad("content_block_start"))
        kind = block.get("type")
        if kind == "text":
            self._open_prose(key, Kind.TEXT, block.get("text"), out)
            index = self._blocks.open[key][0]
            citations = block.get("citations")
            if type(citations) is list:
                out.extend(Annotation(index, read_citation(citation)) for citation in citations)
        elif kind == "thinking":
            self._open_prose(key, Kind.REASONING, block.get("thinking"), out)
            if self.context.seal is not None:
                self._thoughts[key] = _Thought(block, self._room)
            if signature := block.get("signature"):
                self._sign(key, signature, out)
        elif kind == "tool_use":
            self._open_call(key, block, out)
        elif type(kind) is str and kind in _OPAQUE_BLOCKS:
            index = self._blocks.start(key, Kind.OPAQUE)
            out.append(BlockStart(index, Kind.OPAQUE, name=kind, code=_OPAQUE_BLOCKS[kind]))
            out.append(Opaque(index, DIALECT, "block", block))
            self._spoken = True
        else:
            self._ignored.add(key)
            self.context.losses.add(Code.UNKNOWN_EVENT, f"content_block {kind}")

    def _open_prose(self, key: int, kind: Kind, text: Any, out: list[Event]) -> None:
        index = self._blocks.start(key, kind)
        self._spoken = True
        out.append(BlockStart(index, kind))
        if text and type(text) is str:
            out.append(Delta(index, text))

    def _open_call(self, key: int, block: Json, out: list[Event]) -> None:
        call_id, name = block.get("id"), block.get("name")
        if type(call_id) is not str or type(name) is not str or not name:
            raise UpstreamProtocolError("upstream started a tool_use block without an id or a name")
        index = self._blocks.start(key, Kind.TOOL)
        self._spoken = True
        out.append(BlockStart(index, Kind.TOOL, call_id, self.context.names.get(name, name)))
        self._arguments[key] = Arguments(self._room, name)
        self._calls.append(self._arguments[key])
        if given := block.get("input"):
            self._given[key] = given if type(given) is str else dumps(given).decode()

    def _delta(self, event: Json, out: list[Event]) -> None:
        key = event.get("index")
        delta = event.get("delta")
        if type(key) is not int:
            raise UpstreamProtocolError(_bad("content_block_delta"))
        entry = self._blocks.open.get(key)
        if entry is None:
            if key in self._ignored:
                return
            raise UpstreamProtocolError(f"upstream continued block {key}, which is not open")
        if type(delta) is not dict:
            raise UpstreamProtocolError(_bad("content_block_delta"))
        index, kind = entry
        form = delta.get("type")
        if type(form) is str and form in _FITS and kind is not Kind.OPAQUE:
            text = delta.get(_TEXT_KEY[form])
            if _FITS[form] is not kind or type(text) is not str:
                raise UpstreamProtocolError(f"upstream sent {form} in a {kind} block")
            if kind is Kind.TOOL:
                self._arguments[key].add(text)
            elif kind is Kind.REASONING and key in self._thoughts:
                self._thoughts[key].think(text)
            if text:
                out.append(Delta(index, text))
        elif form == "signature_delta" and kind is Kind.REASONING:
            self._sign(key, delta.get("signature"), out)
        elif form == "citations_delta" and kind is Kind.TEXT:
            out.append(Annotation(index, read_citation(delta.get("citation"))))
        elif kind is Kind.OPAQUE:
            out.append(Opaque(index, DIALECT, "delta", delta))
        elif form in ("signature_delta", "citations_delta"):
            raise UpstreamProtocolError(f"upstream sent {form} in a {kind} block")
        else:
            self.context.losses.add(Code.UNKNOWN_EVENT, str(form))

    def _sign(self, key: int, signature: Any, out: list[Event]) -> None:
        if key in self._thoughts:
            self._thoughts[key].sign(signature)
        else:
            out.append(Opaque(self._blocks.open[key][0], DIALECT, "signature", signature))

    def _stop_block(self, event: Json, out: list[Event]) -> None:
        key = event.get("index")
        if type(key) is not int:
            raise UpstreamProtocolError(_bad("content_block_stop"))
        if key in self._ignored:
            self._ignored.discard(key)
            return
        index = self._blocks.end(key)
        thought = self._thoughts.pop(key, None)
        if thought is not None:
            # Unsigned as well: some servers sign nothing and still want their own blocks back (mapping §5.4).
            block = thought.block()
            out.append(Opaque(index, DIALECT, "signature", block["signature"], block))
        given = self._given.pop(key, None)
        if given is not None and not self._arguments[key]:
            self._arguments[key].add(given)
            out.append(Delta(index, given))
        out.append(BlockEnd(index))


class _Thought:
    """A thinking block as it was streamed, to be given back whole."""

    __slots__ = ("_room", "_signature", "_start", "_text")

    def __init__(self, start: Json, room: Room) -> None:
        self._room = room
        self._start = start
        self._text: list[str] = []
        self._signature: list[str] = []
        self.think(start.get("thinking"))

    def think(self, text: Any) -> None:
        """Take more text. Raises LimitExceeded."""
        if type(text) is str:
            self._room.take(len(text))
            self._text.append(text)

    def think_on(self, run: Deltas) -> bool:
        """Take more texts; False, and none is taken, if there is no room for all."""
        if not self._room.fits(len(run.said)):
            return False
        self._text.append(run.said)
        return True

    def sign(self, signature: Any) -> None:
        """Take more of the signature. Raises LimitExceeded."""
        if type(signature) is str:
            self._room.take(len(signature))
            self._signature.append(signature)

    def block(self) -> Json:
        return {**self._start, "thinking": "".join(self._text), "signature": "".join(self._signature)}


def _bad(what: str) -> str:
    return f"upstream sent a malformed {what}"

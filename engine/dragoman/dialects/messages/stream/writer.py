"""Writes canonical events as a Messages stream (mapping §9.7).

A block gets its index when its start is written. A block of text or reasoning is deferred until its first text: the API
rejects empty blocks when the client sends them back, and whole replies have none either. The bytes around the text of a
delta are built once per block. A refusal becomes a text block and `stop_reason: refusal` at the end.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar

from dragoman.canonical.events import (
    Annotation,
    BlockEnd,
    BlockKind,
    BlockStart,
    Citation,
    Delta,
    End,
    Error,
    Event,
    Finish,
    Logprobs,
    Opaque,
    Ping,
    Start,
    StopReason,
    TextRun,
    Usage,
)
from dragoman.canonical.request import Json
from dragoman.canonical.service_report import ServiceReport
from dragoman.dialects.messages.block_types import DIRECT
from dragoman.dialects.messages.citations import write_citation
from dragoman.dialects.messages.errors import write_error_frame
from dragoman.dialects.messages.reply_fields import BLOCKS
from dragoman.dialects.messages.stop_and_usage import (
    DIALECT,
    record_hidden_tier,
    write_full_usage,
    write_stop,
    write_stop_details,
    write_tier,
    write_usage,
)
from dragoman.dialects.shared.json_fields import record_unknown
from dragoman.dialects.shared.stream_writer import Frames, StreamWriter, Writes
from dragoman.errors import UpstreamProtocolError
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.tools.names import reply_id, sanitize_call_id
from dragoman.wire.json_codec import dump_str, dumps

_REFUSED = (StopReason.REFUSAL, StopReason.FILTERED)
_REFUSAL_MAX = 65_536
"""Characters of a reply up to which the text of a refusal is kept for `stop_details`."""
_MESSAGE_START = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":%b,"type":"message","role":"assistant",'
    b'"model":%b,"content":[],"stop_reason":null,"stop_sequence":null,"stop_details":null,"container":null,'
    b'"usage":%b}}\n\n'
)
_START_USAGE = (
    b'{"input_tokens":%d,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0,'
    b'"output_tokens_details":null,"server_tool_use":null,"cache_creation":null,"inference_geo":null,"service_tier":%b}'
)
"""The usage of a `message_start` whose upstream has counted nothing yet."""
_BLOCK_START = b'event: content_block_start\ndata: {"type":"content_block_start","index":%d,"content_block":%b}\n\n'
_BLOCK_DELTA = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":%b}\n\n'
_BLOCK_STOP = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n'
_MESSAGE_DELTA = b'event: message_delta\ndata: {"type":"message_delta","delta":%b,"usage":%b}\n\n'
_MESSAGE_STOP = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
_PING = b'event: ping\ndata: {"type":"ping"}\n\n'
_ERROR = b"event: error\ndata: %b\n\n"
_TEXT_PREFIX = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":'
"""The frame of a delta up to its text. Parameters: index, type of the delta, the field of its text."""
_TEXT_END = b"}}\n\n"
_EMPTY: dict[BlockKind, Json] = {
    "text": {"type": "text", "text": "", "citations": None},
    "refusal": {"type": "text", "text": "", "citations": None},
    "reasoning": {"type": "thinking", "thinking": "", "signature": ""},
}
_DELTA = {
    "text": (b"text_delta", b"text"),
    "refusal": (b"text_delta", b"text"),
    "reasoning": (b"thinking_delta", b"thinking"),
    "tool": (b"input_json_delta", b"partial_json"),
}


class MessagesWriter(StreamWriter):
    """Writes one reply as a Messages stream."""

    one_open: ClassVar[bool] = True

    __slots__ = (
        "_count",
        "_deferred",
        "_held",
        "_indexes",
        "_last",
        "_pending_opaque",
        "_prefixes",
        "_refusal_texts",
        "_start_tier",
        "_start_usage",
        "_text_size",
    )

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._prefixes: dict[int, bytes] = {}
        """Open block → the frame of its deltas up to the text; b"" while its start is not written."""
        self._indexes: dict[int, int] = {}
        """Open block → the index that was written."""
        self._pending_opaque: dict[int, BlockStart] = {}
        """Opaque blocks whose payload, and so their dialect, has not arrived."""
        self._deferred: dict[int, tuple[BlockKind, list[Citation]]] = {}
        """Blocks without text so far: their kind, and the citations that came before the text."""
        self._count = 0
        """The number of blocks that were written, the index of the next one."""
        self._start_usage: Usage | None = None
        """The usage that `message_start` had, if the upstream counted the input."""
        self._start_tier: str | None = None
        """The service tier that `message_start` had."""
        self._refusal_texts: dict[int, list[str]] = {}
        """Refusal block → its texts."""
        self._text_size = 0
        """Characters that were written."""
        self._held: str | None = None
        """The signature of a block without text, which is written before the next block (knob `last_signature`)."""
        self._last: BlockKind | None = None
        """The kind of the last block that was written."""

    def delta(self, event: Delta, out: Frames) -> None:
        """Write one text of a block."""
        prefix = self._prefixes.get(event.index)
        if prefix is None:
            raise UpstreamProtocolError(f"upstream continued block {event.index}, which is not open")
        text = event.text
        if text and (prefix or (prefix := self._open_deferred(event.index, out))):
            self._text_size += len(text)
            out.append(prefix + dump_str(text) + _TEXT_END)
            if self._refusal_texts and event.index in self._refusal_texts and self._text_size <= _REFUSAL_MAX:
                self._refusal_texts[event.index].append(text)

    def deltas(self, event: TextRun) -> bytes | None:
        """Write a run of texts of one block; None if they have to be written one by one."""
        prefix = self._prefixes.get(event.index)
        if not prefix or self._refusal_texts:
            return None
        self._text_size += len(event.text)
        encoded = event.encoded
        between = encoded[0] if len(encoded) == 1 else (_TEXT_END + prefix).join(encoded)
        return prefix + between + _TEXT_END

    def __repr__(self) -> str:
        return (
            f"<MessagesWriter {self.phase} blocks={self._count} open={len(self._indexes)}"
            f" deferred={len(self._deferred)} characters={self._text_size}>"
        )

    def _start(self, event: Start, out: Frames) -> None:
        context = self.context
        known = event.usage if event.usage is not None and event.usage.input_total is not None else None
        self._start_usage = known
        self._start_tier = tier = write_tier(event.tier)
        if known is None:
            usage = _START_USAGE % (context.input_estimate, b"null" if tier is None else dump_str(tier))
        else:
            usage = dumps(write_full_usage(known, None if event.tier is None else ServiceReport(event.tier)))
        message_id = reply_id(event.id or context.request_id, "msg_")
        model = context.model if context.knobs.echo_model == "requested" else event.model
        out.append(_MESSAGE_START % (dump_str(message_id), dump_str(model), usage))

    # --- blocks --------------------------------------------------------------------------------------------------

    def _start_block(self, event: BlockStart, out: Frames) -> None:
        kind = event.kind
        if self._held is not None:
            self._write_held(out)
        if kind == "opaque":
            self._prefixes[event.index] = b""
            self._pending_opaque[event.index] = event
            return
        if kind == "tool":
            if event.custom:
                raise UpstreamProtocolError(f"upstream called the free-text tool {event.name!r}; Messages has none")
            if event.namespace is not None or event.search:
                raise UpstreamProtocolError(
                    f"upstream called {event.name!r} in a way that no Messages client can be given"
                )
            call_id = sanitize_call_id(event.call_id, 256)
            block = {"type": "tool_use", "id": call_id, "name": event.name, "input": {}, "caller": DIRECT}
            own = self._open(event.index, block, out)
            self._last = kind
            self._prefixes[event.index] = _text_prefix(kind, own)
            return
        if kind == "refusal":
            self._refusal_texts[event.index] = []
        self._prefixes[event.index] = b""
        self._deferred[event.index] = kind, []

    def _open_deferred(self, index: int, out: Frames) -> bytes:
        """Write the start of a deferred block. Return the prefix of its deltas, b"" if the block is not deferred."""
        deferred = self._deferred.pop(index, None)
        if deferred is None:
            return b""
        if not self._deferred:
            self._deferred.clear()  # its table would stay as large as it was, for as long as the stream lasts
        kind, citations = deferred
        self._last = kind
        own = self._count
        self._count = own + 1
        self._indexes[index] = own
        out.append(_empty_block(kind, own))
        prefix = self._prefixes[index] = _text_prefix(kind, own)
        for citation in citations:
            self._write_citation(index, citation, out)
        return prefix

    def _open(self, index: int, block: Any, out: Frames) -> int:
        """Write the start of a block. Return the index that was written."""
        own = self._count
        self._count = own + 1
        self._indexes[index] = own
        out.append(_BLOCK_START % (own, dumps(block)))
        return own

    def _end_block(self, event: BlockEnd, out: Frames) -> None:
        self._prefixes.pop(event.index, None)
        own = self._indexes.pop(event.index, None)
        if own is not None:
            out.append(_BLOCK_STOP % own)
        elif (deferred := self._deferred.pop(event.index, None)) is not None:
            if deferred[1]:
                self.context.losses.add(LossCode.CITATIONS, "citations")
        elif self._pending_opaque:
            self._drop_opaque(event.index)

    def _opaque(self, event: Opaque, out: Frames) -> None:
        if event.origin != DIALECT:
            self._write_foreign(event, out)
        elif event.form == "block" and event.index in self._pending_opaque:
            del self._pending_opaque[event.index]
            self._open(event.index, event.payload, out)
        elif event.form == "signature":
            if (block := event.native) is not None and not BLOCKS["thinking"].issuperset(block):
                record_unknown(block, BLOCKS["thinking"], ("content_block",), self.context.losses)
            self._open_deferred(event.index, out)
            signature = event.payload or ""  # None: a whole reply of a server that does not sign
            self._write_delta(event.index, {"type": "signature_delta", "signature": signature}, out)
        elif event.form == "delta":
            self._write_delta(event.index, event.payload, out)

    def _write_foreign(self, event: Opaque, out: Frames) -> None:
        """Write reasoning of another dialect as an envelope; drop any other opaque block."""
        if event.index in self._pending_opaque:
            self._drop_opaque(event.index)
        elif event.index not in self._indexes and event.index not in self._deferred:
            return  # of a block that was dropped
        elif event.native is not None and self.context.envelope is not None:
            signature = self.context.envelope.wrap(event.origin, event.native)
            if event.index in self._deferred and self.context.knobs.last_signature == "drop":
                self._held = signature
                return
            self._open_deferred(event.index, out)
            self._write_delta(event.index, {"type": "signature_delta", "signature": signature}, out)
        elif event.payload is not None:
            self.context.losses.add(LossCode.REASONING_ENCRYPTED, event.form)

    def _write_held(self, out: Frames) -> None:
        """Write the held signature as a block of its own."""
        own, signature = self._count, self._held
        self._count, self._held, self._last = own + 1, None, "reasoning"
        out.append(_empty_block("reasoning", own))
        out.append(_BLOCK_DELTA % (own, dumps({"type": "signature_delta", "signature": signature})))
        out.append(_BLOCK_STOP % own)

    def _drop_opaque(self, index: int) -> None:
        block = self._pending_opaque.pop(index, None)
        if block is not None:
            self.context.losses.add(LossCode(block.code), block.name)

    def _annotate(self, event: Annotation, out: Frames) -> None:
        if (deferred := self._deferred.get(event.index)) is not None:
            deferred[1].append(event.citation)
        else:
            self._write_citation(event.index, event.citation, out)

    def _write_citation(self, index: int, citation: Citation, out: Frames) -> None:
        written = write_citation(citation, self.context.envelope)
        if written is None:
            self.context.losses.add(LossCode.CITATIONS, "annotations")
        else:
            self._write_delta(index, {"type": "citations_delta", "citation": written}, out)

    def _write_delta(self, index: int, delta: Json, out: Frames) -> None:
        own = self._indexes.get(index)
        if own is not None:
            out.append(_BLOCK_DELTA % (own, dumps(delta)))

    # --- the end -------------------------------------------------------------------------------------------------

    def _finish(self, event: Finish, out: Frames) -> None:
        stop = event.stop
        if self._held is not None:
            if self._last == "text":
                self.context.losses.add(LossCode.REASONING_SIGNATURE, "signature", "left out behind the last text")
            else:
                self._write_held(out)
        delta: Json = {
            "stop_reason": write_stop(stop.reason),
            "stop_sequence": stop.sequence,
            "stop_details": None,
            "container": None,
        }
        if stop.reason in _REFUSED:
            wording = "".join(text for block in self._refusal_texts.values() for text in block)
            delta["stop_details"] = write_stop_details(event.refusal, wording)
        usage = event.usage or Usage()
        base = self._start_usage
        if usage.output_total is None or (usage.input_total is None and base is None):
            # About four characters make a token; clients need an estimate for their context meters (mapping §9.4).
            self.context.losses.add(LossCode.USAGE_ESTIMATED, "usage", "counted from the streamed text")
            estimate = Usage(input_total=self.context.input_estimate, output_total=(self._text_size + 3) // 4)
            base = estimate if base is None else base.merged_onto(estimate)
        service = self.context.service
        record_hidden_tier(service, self._start_tier, self.context.losses)
        written = write_usage(usage.merged_onto(base), service)
        out.append(_MESSAGE_DELTA % (dumps(delta), dumps(written)))

    def _end(self, event: End, out: Frames) -> None:
        if self.context.moderation is not None:
            self.context.losses.add(LossCode.UNKNOWN_FIELD, "moderation")
        out.append(_MESSAGE_STOP)

    def _fail(self, event: Error, out: Frames) -> None:
        # Without message_delta and message_stop, which would make the reply look successful (mapping §10.3).
        out.append(_ERROR % dumps(write_error_frame(event.failure, self.context.request_id or None)))

    def _ping(self, event: Event, out: Frames) -> None:
        out.append(_PING)

    writes: ClassVar[Writes] = {
        Start: _start,
        BlockStart: _start_block,
        BlockEnd: _end_block,
        Finish: _finish,
        End: _end,
        Annotation: _annotate,
        Opaque: _opaque,
        Logprobs: _ping,  # Messages has none, and its clients cannot request them
        Ping: _ping,
        Error: _fail,
    }


@lru_cache(maxsize=256)
def _empty_block(kind: BlockKind, index: int) -> bytes:
    """Return the frame that starts a block of text or reasoning."""
    return _BLOCK_START % (index, dumps(_EMPTY[kind]))


@lru_cache(maxsize=256)
def _text_prefix(kind: BlockKind, index: int) -> bytes:
    """Return the frame of a block's deltas up to their text."""
    form, field = _DELTA[kind]
    return _TEXT_PREFIX % (index, form, field)

"""Canonical events to a Chat stream.

Nothing marks a block's border except a tool call's first fragment. The bytes around the one changing string are built
once per stream. The rules the official SDK's accumulator sets (role, id and name once, tool indexes from 0, list deltas
at most once, usage last) are what shapes it: mapping §9.7.
"""

from __future__ import annotations

from typing import ClassVar

from dragoman.canonical.events import (
    Annotation,
    BlockEnd,
    BlockKind,
    BlockStart,
    Citation,
    Delta,
    End,
    Error,
    Finish,
    Logprobs,
    Opaque,
    Ping,
    Start,
    StopReason,
    TextRun,
)
from dragoman.canonical.request import Json
from dragoman.dialects.chat.citations import write_citation
from dragoman.dialects.chat.errors import write_error_frame
from dragoman.dialects.chat.wire import record_missing_usage, write_finish_reason, write_usage
from dragoman.dialects.openai.logprobs import write_logprobs
from dragoman.dialects.openai.refusals import DECLINED
from dragoman.dialects.shared.stream_codec import Frames, StreamWriter, Writes
from dragoman.errors import UpstreamProtocolError
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.tools.names import reply_id, sanitize_call_id
from dragoman.wire.json_codec import dump_str, dumps
from dragoman.wire.sse import Frame

# CPython 3.11 takes twenty times as long to find a member in its class.
_TEXT, _REFUSAL, _REASONING, _TOOL, _OPAQUE = (
    BlockKind.TEXT,
    BlockKind.REFUSAL,
    BlockKind.REASONING,
    BlockKind.TOOL,
    BlockKind.OPAQUE,
)
_DONE = b"[DONE]"
_BLANK_LINE = dump_str("\n\n")
_Around = tuple[bytes, bytes, bytes, bool]
"""What stands before, between (if its text is sent twice) and after a block's text, and whether it is `content`."""
_NOTHING: _Around = (b"", b"", b"", False)
_REASONING_FIELDS: dict[str, tuple[bytes, ...]] = {
    "reasoning_content": (b"reasoning_content",),
    "reasoning": (b"reasoning",),
    "both": (b"reasoning_content", b"reasoning"),
    "off": (),
}


class ChatWriter(StreamWriter):
    """See the module's docstring."""

    __slots__ = (
        "_around",
        "_calls",
        "_cited",
        "_encoded",
        "_fresh",
        "_gaps",
        "_head",
        "_length",
        "_logged",
        "_spans",
        "_spoken",
        "_tail",
    )

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._head = b""
        self._tail = b""
        self._around: dict[int, _Around] = {}
        self._encoded: dict[int, tuple[bytes, bytes, bool]] = {}
        """The same as encoded frames have it, for texts that are told once."""
        self._calls = 0
        self._fresh: dict[int, BlockKind] = {}
        self._spoken: set[BlockKind] = set()
        self._gaps: set[BlockKind] = set()
        self._length = 0
        self._spans: dict[int, tuple[int, int]] = {}
        self._cited: list[tuple[int, Citation]] = []
        self._logged: Frame | None = None
        """The last chunk with log probabilities: it takes no others."""

    def _start(self, event: Start, out: Frames) -> None:
        context = self.context
        model = context.model if context.knobs.echo_model == "requested" else event.model
        created = context.created if event.created is None else event.created
        self._head = (
            b'{"id":'
            + dump_str(reply_id(event.id or context.request_id, "chatcmpl-"))
            + b',"object":"chat.completion.chunk","created":%d,"model":' % created
            + dump_str(model)
            + b',"choices":[{"index":0,"delta":'
        )
        self._tail = b',"finish_reason":null}]' + (b',"usage":null}' if context.include_usage else b"}")
        self._emit(b'{"role":"assistant","content":""}', out)

    def _emit(self, delta: bytes, out: Frames) -> None:
        out.append(Frame("", self._head + delta + self._tail))

    # --- blocks --------------------------------------------------------------------------------------------------

    def _start_block(self, event: BlockStart, out: Frames) -> None:
        kind = event.kind
        if event.apart:
            self._gaps |= self._spoken & {_TEXT}
        if kind is not _TEXT:
            self._gaps |= self._spoken & {_TEXT, kind} if kind is _REASONING else self._spoken & {_TEXT}
        if kind is _TOOL:
            self._around[event.index] = self._start_call(event, out)
            return
        fields = self._fields(event)
        if not fields:
            self._around[event.index] = _NOTHING
            return
        middle = b',"' + fields[1] + b'":' if len(fields) == 2 else b""
        before = self._head + b'{"' + fields[0] + b'":'
        self._around[event.index] = before, middle, b"}" + self._tail, kind is _TEXT
        self._fresh[event.index] = kind

    def _fields(self, event: BlockStart) -> tuple[bytes, ...]:
        """The delta's fields that a block's text goes to."""
        if event.kind is _TEXT:
            return (b"content",)
        if event.kind is _REFUSAL:
            return (b"refusal",)
        if event.kind is _OPAQUE:
            self.context.losses.add(LossCode(event.code), event.name)
            return ()
        fields = _REASONING_FIELDS[self.context.knobs.reasoning_field]
        if not fields:
            self.context.losses.add(LossCode.REASONING_MODE, "reasoning", "not shown (reasoning_field = off)")
        return fields

    def _start_call(self, event: BlockStart, out: Frames) -> _Around:
        if event.namespace is not None or event.search:
            raise UpstreamProtocolError(f"upstream called {event.name!r} in a way that no Chat client can be given")
        index = self._calls
        self._calls = index + 1
        call = dump_str(sanitize_call_id(event.call_id, 64))
        body, text = (b"custom", b"input") if event.custom else (b"function", b"arguments")
        self._emit(
            b'{"tool_calls":[{"index":%d,"id":%b,"type":"%b","%b":{"name":%b,"%b":""}}]}'
            % (index, call, body, body, dump_str(event.name), text),
            out,
        )
        if not event.custom:
            self._fresh[event.index] = _TOOL
        before = self._head + b'{"tool_calls":[{"index":%d,"%b":{"%b":' % (index, body, text)
        return before, b"", b"}}]}" + self._tail, False

    def delta(self, event: Delta, out: Frames) -> None:
        """One piece of a block's text."""
        text = event.text
        around = self._around.get(event.index)
        if around is None:
            raise UpstreamProtocolError(f"upstream continued block {event.index}, which was never started")
        before, middle, after, is_text = around
        if not text or not before:
            return
        if self._fresh and event.index in self._fresh:
            kind = self._fresh.pop(event.index)
            if kind in self._gaps:
                # As in a whole reply: texts join as they are unless another block stood between (mapping §4.2).
                self._gaps.discard(kind)
                out.append(Frame("", before + _BLANK_LINE + (middle and middle + _BLANK_LINE) + after))
                self._length += 2 if is_text else 0
            self._spoken.add(kind)
            if is_text:
                if self._calls:
                    self.context.losses.add(LossCode.BLOCK_ORDER, "content", "put with the text before the calls")
                self._spans[event.index] = self._length, self._length
        if is_text:
            self._length += len(text)
        literal = dump_str(text)
        out.append(Frame("", before + literal + middle + literal + after if middle else before + literal + after))

    def deltas(self, event: TextRun) -> bytes | None:
        """Texts of one block, all at once."""
        index = event.index
        around = self._encoded.get(index)
        if around is None:
            before, middle, after, is_text = self._around.get(index, _NOTHING)
            if middle or not before or index in self._fresh:
                return None
            around = self._encoded[index] = b"data: " + before, after + b"\n\n", is_text
        head, tail, is_text = around
        if is_text:
            self._length += len(event.text)
        spelled = event.encoded
        return head + (spelled[0] if len(spelled) == 1 else (tail + head).join(spelled)) + tail

    def _log(self, event: Logprobs, out: Frames) -> None:
        """Log probabilities stand on the chunk of their text, as OpenAI sends them, else on one without any."""
        before = self._around.get(event.index, _NOTHING)[0]
        last = out[-1] if out and before else None
        data = last.data if isinstance(last, Frame) and last is not self._logged else None
        if data is None or not data.startswith(before):
            data = self._head + b"{}" + self._tail
            out.append(Frame("", data))
        told = b',"logprobs":' + dumps(write_logprobs(event.tokens))
        out[-1] = self._logged = Frame("", data[: -len(self._tail)] + told + self._tail)

    def _end_block(self, event: BlockEnd, out: Frames) -> None:
        index = event.index
        if index in self._spans:
            self._spans[index] = self._spans[index][0], self._length
        elif self._fresh.pop(index, None) is _TOOL and event.complete:
            # A call without arguments: clients parse the string, and "" is no JSON (mapping §6.3).
            before, _, after, _ = self._around[index]
            out.append(Frame("", before + b'"{}"' + after))

    def _lose(self, event: Opaque, out: Frames) -> None:
        if event.form == "signature":
            if event.payload:  # third parties sign with nothing
                self.context.losses.add(LossCode.REASONING_SIGNATURE, "signature")
        elif event.form in ("encrypted_content", "reasoning_details"):
            self.context.losses.add(LossCode.REASONING_ENCRYPTED, event.form)
        # The payload of an opaque block was counted when the block started.

    def _annotate(self, event: Annotation, out: Frames) -> None:
        self._cited.append((event.index, event.citation))

    def _annotations(self) -> list[Json]:
        """The citations that Chat can carry, each with the extent of its text within `content`."""
        written = []
        for index, citation in self._cited:
            span = self._spans.get(index)  # none: nothing was said that could be cited
            note = write_citation(citation, *span) if span is not None else None
            if note is None:
                self.context.losses.add(LossCode.CITATIONS, "citations")
            else:
                written.append(note)
        return written

    # --- the end -------------------------------------------------------------------------------------------------

    def _finish(self, event: Finish, out: Frames) -> None:
        losses = self.context.losses
        stop = event.stop
        shown = _TEXT in self._spoken or self._calls > 0
        if event.refusal is not None and event.refusal.category:
            losses.add(LossCode.REFUSAL_CATEGORY, "stop_details.category")
        if stop.reason is StopReason.FILTERED and stop.native == "refusal":
            wording = event.refusal.explanation if event.refusal is not None else None
            if not shown:
                self._emit(b'{"refusal":' + dump_str(wording or DECLINED) + b"}", out)
            elif wording:
                losses.add(LossCode.REFUSAL_EXPLANATION, "stop_details.explanation")
        if self._cited and (annotations := self._annotations()):
            self._emit(b'{"annotations":' + dumps(annotations) + b"}", out)
        reason = write_finish_reason(stop, self.context.knobs, shown=shown)
        tail = self._tail.replace(b'"finish_reason":null', b'"finish_reason":' + dump_str(reason), 1)
        out.append(Frame("", self._head + b"{}" + tail))
        if not self.context.include_usage:
            return
        record_missing_usage(event.usage, losses)
        if event.usage is None:
            return
        head = self._head[: self._head.rindex(b',"choices":')]
        out.append(Frame("", head + b',"choices":[],"usage":' + dumps(write_usage(event.usage)) + b"}"))

    def _end(self, event: End, out: Frames) -> None:
        out.append(Frame("", _DONE))

    def _fail(self, event: Error, out: Frames) -> None:
        # The connection closes after this, without [DONE]: every SDK raises on it (mapping §10.3).
        out.append(Frame("", dumps(write_error_frame(event.failure, self.context.request_id or None))))

    def _ping(self, event: Ping, out: Frames) -> None:
        out.append(Frame("", None))

    writes: ClassVar[Writes] = {
        Start: _start,
        BlockStart: _start_block,
        BlockEnd: _end_block,
        Finish: _finish,
        End: _end,
        Annotation: _annotate,
        Opaque: _lose,
        Logprobs: _log,
        Ping: _ping,
        Error: _fail,
    }

"""Writes canonical events as a Chat stream (mapping §9.7).

Chat marks no border of a block but the first fragment of a tool call. The bytes around a block's text are built once.
The output follows the rules of the official SDK's accumulator: role, id and name once, tool indexes from 0, list deltas
at most once, usage last.
"""

from __future__ import annotations

from typing import ClassVar

from dragoman.canonical.events import (
    IMAGE,
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
    TextRun,
)
from dragoman.canonical.request import Json
from dragoman.dialects.chat.citations import write_citation
from dragoman.dialects.chat.errors import write_error_frame
from dragoman.dialects.chat.extra_content import EXTRA_KEY, OF_MESSAGE
from dragoman.dialects.chat.images import is_image
from dragoman.dialects.chat.stop_and_usage import DIALECT, record_missing_usage, write_finish_reason, write_usage
from dragoman.dialects.openai.logprobs import write_logprobs
from dragoman.dialects.openai.refusals import DECLINED, is_model_refusal
from dragoman.dialects.shared.service_report import openai_tier, tier_of
from dragoman.dialects.shared.stream_writer import Frames, StreamWriter, Writes
from dragoman.errors import UpstreamProtocolError
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.tools.names import reply_id, sanitize_call_id
from dragoman.wire.json_codec import dump_str, dumps
from dragoman.wire.sse import COMMENT, Frame

_DONE = b"data: [DONE]\n\n"
_CHOICE = b'[{"index":0,"delta":'
"""The choices of a chunk before its delta."""
_ENDS = {False: b"}\n\n", True: b',"usage":null}\n\n'}
"""Usage requested → the end of a chunk's frame after its choices."""
_BLANK_LINE = dump_str("\n\n")
_Template = tuple[bytes, bytes, bytes, bool]
"""The frame's bytes before, between (if it is sent in two fields) and after a block's text; True if the field is
`content`."""
_OMITTED: _Template = (b"", b"", b"", False)
"""Template of a block that is not written."""
_REASONING_FIELDS: dict[str, tuple[bytes, ...]] = {
    "reasoning_content": (b"reasoning_content",),
    "reasoning": (b"reasoning",),
    "both": (b"reasoning_content", b"reasoning"),
    "off": (),
}


class ChatWriter(StreamWriter):
    """Writes one stream. Texts of each field are joined as in a complete reply (mapping §4.2)."""

    __slots__ = (
        "_calls",
        "_citations",
        "_content_length",
        "_head",
        "_logprobs_frame",
        "_new_paragraph",
        "_runs",
        "_signatures",
        "_spans",
        "_tail",
        "_templates",
        "_unwritten",
        "_written_kinds",
    )

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._head = b""
        """Bytes of each chunk's frame before its delta."""
        self._tail = b""
        """Bytes of each chunk's frame after its delta."""
        self._templates: dict[int, _Template] = {}
        self._runs: dict[int, tuple[bytes, bytes, bool]] = {}
        """Templates of the blocks of which several texts may be written at once: nothing comes before the next one."""
        self._calls: list[str] = []
        """Ids of the calls."""
        self._signatures: Json = {}
        """Signed `extra_content` of calls that have not started, by id."""
        self._unwritten: dict[int, BlockKind] = {}
        """Blocks of which no text is written yet."""
        self._written_kinds: set[BlockKind] = set()
        """Kinds of text that were written."""
        self._new_paragraph: set[BlockKind] = set()
        """Kinds whose next text starts a new paragraph, because another block came between."""
        self._content_length = 0
        """Characters of `content` written so far."""
        self._spans: dict[int, tuple[int, int]] = {}
        """Text block → start and end of its text in `content`."""
        self._citations: list[tuple[int, Citation]] = []
        self._logprobs_frame: bytes | None = None
        """The last chunk with log probabilities, to which no more are added."""

    def __repr__(self) -> str:
        return f"<ChatWriter {self.phase} blocks={len(self._templates)} calls={len(self._calls)}>"

    def _start(self, event: Start, out: Frames) -> None:
        context = self.context
        model = context.model if context.knobs.echo_model == "requested" else event.model
        created = context.created if event.created is None else event.created
        self._head = (
            b'data: {"id":'
            + dump_str(event.id if context.begun else reply_id(event.id or context.request_id, "chatcmpl-"))
            + b',"object":"chat.completion.chunk","created":%d,"model":' % created
            + dump_str(model)
            + b',"choices":'
            + _CHOICE
        )
        self._tail = b',"finish_reason":null}]' + _ENDS[context.include_usage]
        self._write_chunk(b'{"role":"assistant","content":""}', out)
        if (stated := self._stated(event.tier, event.moderation)) is not None:
            out[-1] = _with_keys(out[-1], stated)

    def _stated(self, tier: str | None, moderation: Json | None) -> bytes | None:
        """Return the tier that served and the moderation as JSON keys with a comma before each; None without any."""
        stated = b""
        if (tier := openai_tier(tier, self.context.losses)) is not None:
            stated = b',"service_tier":' + dump_str(tier)
        if moderation is not None:
            stated += b',"moderation":' + dumps(moderation)
        return stated or None

    def _write_chunk(self, delta: bytes, out: Frames) -> None:
        out.append(self._head + delta + self._tail)

    # --- blocks --------------------------------------------------------------------------------------------------

    def _start_block(self, event: BlockStart, out: Frames) -> None:
        kind = event.kind
        if event.apart or kind != "text":
            self._new_paragraph |= self._written_kinds & {"text"}
        if kind == "reasoning":
            self._new_paragraph |= self._written_kinds & {"reasoning"}
        if kind == "tool":
            self._templates[event.index] = self._start_call(event, out)
            return
        fields = self._fields(event)
        if not fields:
            self._templates[event.index] = _OMITTED
            return
        middle = b',"' + fields[1] + b'":' if len(fields) == 2 else b""
        before = self._head + b'{"' + fields[0] + b'":'
        self._templates[event.index] = before, middle, b"}" + self._tail, kind == "text"
        self._unwritten[event.index] = kind

    def _fields(self, event: BlockStart) -> tuple[bytes, ...]:
        """Return the delta's fields for a block's text. Empty if it is not written, which is recorded as a loss."""
        if event.kind == "text":
            return (b"content",)
        if event.kind == "refusal":
            return (b"refusal",)
        if event.kind == "opaque" and event.name == IMAGE:
            return ()
        if event.kind == "opaque":
            self.context.losses.add(LossCode(event.code), event.name)
            return ()
        fields = _REASONING_FIELDS[self.context.knobs.reasoning_field]
        if not fields:
            self.context.losses.add(LossCode.REASONING_MODE, "reasoning", "not shown (reasoning_field = off)")
        return fields

    def _start_call(self, event: BlockStart, out: Frames) -> _Template:
        if event.namespace is not None or event.search:
            raise UpstreamProtocolError(f"upstream called {event.name!r} in a way that no Chat client can be given")
        index = len(self._calls)
        self._calls.append(event.call_id)
        extra = self._signatures.pop(event.call_id, None)
        signature = b"" if extra is None else b',"extra_content":' + dumps(extra)
        call = dump_str(sanitize_call_id(event.call_id, 64))
        body, text = (b"custom", b"input") if event.custom else (b"function", b"arguments")
        self._write_chunk(
            b'{"tool_calls":[{"index":%d,"id":%b,"type":"%b","%b":{"name":%b,"%b":""}%b}]}'
            % (index, call, body, body, dump_str(event.name), text, signature),
            out,
        )
        before = self._head + b'{"tool_calls":[{"index":%d,"%b":{"%b":' % (index, body, text)
        after = b"}}]}" + self._tail
        if event.custom:
            self._runs[event.index] = before, after, False
        else:
            self._unwritten[event.index] = "tool"
        return before, b"", after, False

    def delta(self, event: Delta, out: Frames) -> None:
        """Write one text of a block."""
        text = event.text
        template = self._templates.get(event.index)
        if template is None:
            raise UpstreamProtocolError(f"upstream continued block {event.index}, which was never started")
        before, middle, after, is_text = template
        if not text or not before:
            return
        if self._unwritten and event.index in self._unwritten:
            kind = self._unwritten.pop(event.index)
            if kind in self._new_paragraph:
                self._new_paragraph.discard(kind)
                out.append(before + _BLANK_LINE + (middle and middle + _BLANK_LINE) + after)
                self._content_length += 2 if is_text else 0
            self._written_kinds.add(kind)
            if not middle:
                self._runs[event.index] = before, after, is_text
            if is_text:
                if self._calls:
                    self.context.losses.add(LossCode.BLOCK_ORDER, "content", "put with the text before the calls")
                self._spans[event.index] = self._content_length, self._content_length
        if is_text:
            self._content_length += len(text)
        literal = dump_str(text)
        out.append(before + literal + middle + literal + after if middle else before + literal + after)

    def deltas(self, event: TextRun) -> bytes | None:
        """Return several texts of one block, encoded, or None if they must be written one by one."""
        run = self._runs.get(event.index)
        if run is None:
            return None
        head, tail, is_text = run
        if is_text:
            self._content_length += len(event.text)
        pieces = event.encoded
        return head + (pieces[0] if len(pieces) == 1 else (tail + head).join(pieces)) + tail

    def _add_logprobs(self, event: Logprobs, out: Frames) -> None:
        """Add log probabilities to the chunk of their text, as OpenAI sends them, or write a chunk without text."""
        before = self._templates.get(event.index, _OMITTED)[0]
        last = out[-1] if out and before else None
        if not isinstance(last, bytes) or last is self._logprobs_frame or not last.startswith(before):
            last = self._head + b"{}" + self._tail
            out.append(last)
        logprobs = b',"logprobs":' + dumps(write_logprobs(event.tokens))
        out[-1] = self._logprobs_frame = last[: -len(self._tail)] + logprobs + self._tail

    def _end_block(self, event: BlockEnd, out: Frames) -> None:
        index = event.index
        if index in self._spans:
            self._spans[index] = self._spans[index][0], self._content_length
        elif self._unwritten.pop(index, None) == "tool" and event.complete:
            # A call without arguments: clients parse the string, and "" is not JSON (mapping §6.3).
            before, _, after, _ = self._templates[index]
            out.append(before + b'"{}"' + after)

    def _opaque(self, event: Opaque, out: Frames) -> None:
        """Write Gemini's signatures, which Chat clients send back; record any other proof as lost."""
        native = event.native
        if native is not None and EXTRA_KEY in native and event.origin == DIALECT:
            self._write_signatures(native[EXTRA_KEY], out)
        elif event.form == "signature":
            if event.payload:  # compatible servers send empty signatures
                self.context.losses.add(LossCode.REASONING_SIGNATURE, "signature")
        elif event.form == "block" and is_image(event.payload):
            self._write_chunk(b'{"images":' + dumps([event.payload]) + b"}", out)
        elif event.form in ("encrypted_content", "reasoning_details"):
            self.context.losses.add(LossCode.REASONING_ENCRYPTED, event.form)
        # The loss of an opaque block was recorded when the block started.

    def _write_signatures(self, signatures: Json, out: Frames) -> None:
        for call_id, extra in signatures.items():
            if call_id == OF_MESSAGE:
                self._write_chunk(b'{"extra_content":' + dumps(extra) + b"}", out)
            elif call_id in self._calls:
                index = self._calls.index(call_id)
                self._write_chunk(b'{"tool_calls":[{"index":%d,"extra_content":%b}]}' % (index, dumps(extra)), out)
            else:
                self._signatures[call_id] = extra

    def _keep_citation(self, event: Annotation, out: Frames) -> None:
        self._citations.append((event.index, event.citation))

    def _annotations(self) -> list[Json]:
        """Return the citations that Chat supports, with the span of their text in `content`."""
        written = []
        for index, citation in self._citations:
            span = self._spans.get(index)  # None if the block has no text
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
        shown = "text" in self._written_kinds or bool(self._calls)
        if event.refusal is not None and event.refusal.category:
            losses.add(LossCode.REFUSAL_CATEGORY, "stop_details.category")
        if is_model_refusal(stop, event.refusal) and "refusal" not in self._written_kinds:
            explanation = event.refusal.explanation if event.refusal is not None else None
            if not shown:
                self._write_chunk(b'{"refusal":' + dump_str(explanation or DECLINED) + b"}", out)
            elif explanation:
                losses.add(LossCode.REFUSAL_EXPLANATION, "stop_details.explanation")
        if self._citations and (annotations := self._annotations()):
            self._write_chunk(b'{"annotations":' + dumps(annotations) + b"}", out)
        reason = write_finish_reason(stop, event.refusal, self.context.knobs, shown=shown)
        end = _ENDS[self.context.include_usage]
        out.append(b'%b{},"finish_reason":"%b"}]%b' % (self._head, reason.encode(), end))
        if (stated := self._stated(tier_of(self.context), self.context.moderation)) is not None:
            out[-1] = _with_keys(out[-1], stated)
        if not self.context.include_usage:
            return
        record_missing_usage(event.usage, losses)
        if event.usage is None:
            return
        head = self._head[: -len(_CHOICE)]
        out.append(head + b'[],"usage":' + dumps(write_usage(event.usage)) + b"}\n\n")

    def _end(self, event: End, out: Frames) -> None:
        out.append(_DONE)

    def _ping(self, event: Ping, out: Frames) -> None:
        out.append(COMMENT)

    def _write_error(self, event: Error, out: Frames) -> None:
        # No [DONE] follows, and the connection closes. Every SDK raises an error (mapping §10.3).
        out.append(b"data: " + dumps(write_error_frame(event.failure, self.context.request_id or None)) + b"\n\n")

    writes: ClassVar[Writes] = {
        Start: _start,
        BlockStart: _start_block,
        BlockEnd: _end_block,
        Finish: _finish,
        End: _end,
        Annotation: _keep_citation,
        Opaque: _opaque,
        Logprobs: _add_logprobs,
        Ping: _ping,
        Error: _write_error,
    }


def _with_keys(frame: Frame | bytes, keys: bytes) -> bytes:
    """Return the frame of a chunk with more keys at its end."""
    assert isinstance(frame, bytes)
    return frame[:-3] + keys + b"}\n\n"

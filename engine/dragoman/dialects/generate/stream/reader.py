"""Reads streams of `generateContent` into canonical events.

Each frame is a whole response with new parts. Counts are running totals, so the latest are used. There is no last
event: a stream is complete if it ends after a `finishReason` or a blocked prompt. What follows a `finishReason` still
belongs to the reply, such as counts and sources, so its end is written at the end of the stream.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from dragoman.canonical.events import CUTS, Delta, End, Event, Finish, RefusalInfo, Start, Stop, StopReason, Usage
from dragoman.canonical.reply import Reply
from dragoman.canonical.reply_events import reply_of
from dragoman.canonical.request import Json
from dragoman.dialects import Dialect
from dragoman.dialects.errors.fields import reports_error
from dragoman.dialects.errors.read import read_error_payload, unwrapped
from dragoman.dialects.errors.redact import quote_word
from dragoman.dialects.generate.errors import is_error
from dragoman.dialects.generate.grounding import Grounding
from dragoman.dialects.generate.logprobs import read_logprobs
from dragoman.dialects.generate.reply_fields import (
    CONTENT,
    CONTENT_AT,
    PARTS_AT,
    note_tools,
    note_usage,
    record_unknown_candidate,
    record_unknown_counts,
    record_unknown_fields,
)
from dragoman.dialects.generate.snake_case import has_snake_case, in_camel_case
from dragoman.dialects.generate.stop_and_usage import DIALECT, read_finish, read_usage, refusal_of, resolve_stop
from dragoman.dialects.generate.stream.chunk_template import ChunkTemplate, learn
from dragoman.dialects.generate.stream.parts import PartReader
from dragoman.dialects.shared.json_fields import is_empty, is_others_role, kind_of, record_unknown
from dragoman.dialects.shared.service_report import tier_of
from dragoman.dialects.shared.stream_reader import StreamReader
from dragoman.errors import Path, StreamTruncated, UpstreamProtocolError, UpstreamStatusError
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.wire.delta_template import RunCallback
from dragoman.wire.json_codec import loads_exact, with_exact
from dragoman.wire.sse import FrameBatch

_BLOCKED: Final = "BLOCK_REASON_UNSPECIFIED"
_FRUITLESS: Final = 8
"""Consecutive templates without a match after which no more are learnt."""


class GenerateReader(StreamReader):
    """Reads one stream. A complete reply is read as a stream of one chunk (`read_chunk`)."""

    __slots__ = (
        "_counts",
        "_finish",
        "_fruitless",
        "_grounding",
        "_id",
        "_message",
        "_parts",
        "_renamed",
        "_started",
        "_template",
        "_usage",
        "_withheld",
    )

    dialect = Dialect.GENERATE

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._parts = PartReader(context)
        self._grounding: Grounding | None = None
        """None before the first sources."""
        self._started = False
        self._id = ""
        """The `responseId`."""
        self._usage: Usage | None = None
        self._counts = b""
        """The `usageMetadata` of the last chunk, if it was not read."""
        self._template: ChunkTemplate | None = None
        self._fruitless = 0
        """Consecutive templates without a match."""
        self._finish: str | None = None
        """The `finishReason`."""
        self._renamed = False
        """True if the last chunk had keys in snake_case."""
        self._message: Any = None
        """The `finishMessage`."""
        self._withheld: tuple[str, RefusalInfo] | None = None
        """The `blockReason` of the prompt, with its details."""

    def feed(self, frames: FrameBatch, /) -> list[Event]:
        """See `StreamReader.feed`."""
        template = self._template
        if (
            template is not None
            and type(frames) is bytes
            and (run := template.match(frames, template.start, template.end)) is not None
            and self._parts.add_text(run.text, run.pieces)
        ):
            self._counts, self._fruitless = template.counts, 0
            return [run]
        out = super().feed(frames)
        if (learnt := self._template) is not None and learnt is not template and type(frames) is bytes:
            learnt.end_as(frames)
        return out

    def read(self, data: bytes, out: list[Event]) -> None:
        """Read one chunk. Some servers send `[DONE]`, which this API does not have."""
        if (template := self._template) is not None:
            run = template.match(data, template.before, template.after)
            if run is not None and self._parts.add_text(run.text, run.pieces):
                self._counts, self._fruitless = template.counts, 0
                out.append(run)
                return
            self._template = None
        if data == b"[DONE]":
            return
        try:
            chunk = orjson.loads(data)
        except orjson.JSONDecodeError:
            chunk = self.payload(data)
        if type(chunk) is dict and chunk:
            self._read_and_learn(with_exact(data, b"args", chunk), data, out)
        elif type(chunk) is list and chunk and not reports_error(chunk):
            self._read_array(chunk, out)
        else:
            self.read_other(chunk, out)

    def _read_and_learn(self, chunk: Json, data: bytes, out: list[Event]) -> None:
        """Read a chunk, and learn its template if it is a further text of the open block."""
        before, losses = len(out), len(self.context.losses)
        self.read_chunk(chunk, out, has_snake_case(data))
        if (
            self._fruitless < _FRUITLESS
            and not self._renamed
            and len(out) == before + 1
            and type(delta := out[before]) is Delta
            and self.follow(delta) is not None
            and len(self.context.losses) == losses
        ):
            self._template = learn(data, chunk, delta)
            self._fruitless += self._template is not None

    def read_chunk(self, chunk: Json, out: list[Event], mixed: bool = True) -> None:
        """Read a chunk, or a complete reply. Without `mixed` it has no key in snake_case. Raises DragomanError."""
        if "candidates" not in chunk:
            chunk = unwrapped(chunk, self.dialect)
        losses = self.context.losses
        usual = in_camel_case(chunk, losses) if mixed else chunk
        self._renamed, chunk = usual is not chunk, usual
        if is_error(chunk):
            raise UpstreamStatusError(read_error_payload(chunk, self.dialect))
        candidates = chunk.get("candidates")
        if type(candidates) is dict and candidates:
            candidates = [candidates]
            self._repaired(("candidates",), "candidates were an object instead of an array")
        candidate = _only_candidate(candidates)
        finish, reason = candidate.get("finishReason"), None
        if finish:
            if type(finish) is not str:
                raise UpstreamProtocolError("upstream sent a finishReason that is not a string")
            # One that is an error is raised before anything is written: as a first chunk, it becomes an HTTP error.
            reason = read_finish(finish, candidate.get("finishMessage"))
        record_unknown_fields(chunk, losses)
        usage, feedback = chunk.get("usageMetadata"), chunk.get("promptFeedback")
        self._read_last_counts()
        self._read_counts(usage)
        if not self._started:
            self._start(chunk, out)
        if type(feedback) is dict and type(block := feedback.get("blockReason")) is str and block != _BLOCKED:
            self._withheld = block, refusal_of(block, feedback.get("blockReasonMessage"), prompt=True)
        if finish:
            self._end(finish, candidate.get("finishMessage"))
        if candidate:
            self._read_candidate(candidate, out)
        if finish:
            self._parts.release(self._id, out, runs=reason is not StopReason.FILTERED)

    def _read_last_counts(self) -> None:
        """Read the `usageMetadata` of the chunks that were matched with a template."""
        if self._counts:
            counts, self._counts = self._counts, b""
            self._read_counts(self.payload(counts))

    def _read_counts(self, counts: Any) -> None:
        """Read a `usageMetadata`. Its counts are totals, so the latest are used."""
        note_usage(counts, self.context)
        record_unknown_counts(counts, self.context.losses)
        self._usage = read_usage(counts) or self._usage

    def _start(self, chunk: Json, out: list[Event]) -> None:
        self._started = True
        reply_id, model = chunk.get("responseId"), chunk.get("modelVersion")
        self._id = reply_id if type(reply_id) is str else ""
        out.append(Start(self._id, model if type(model) is str else "", self._usage, tier=tier_of(self.context)))

    def _read_candidate(self, candidate: Json, out: list[Event]) -> None:
        record_unknown_candidate(candidate, self.context.losses)
        self._read_content(candidate.get("content"), out)
        note_tools(candidate, self.context)
        if any(key in candidate for key in ("groundingMetadata", "citationMetadata", "urlContextMetadata")):
            self._grounding = self._grounding or Grounding(self.context.losses)
            self._grounding.read(candidate)
        if (tokens := candidate.get("logprobsResult")) and (read := read_logprobs(tokens, self.context)):
            self._parts.add_logprobs(read, out)

    def _end(self, finish: str, message: Any) -> None:
        """Take a `finishReason`. Of several, one that reports a cut reply is kept."""
        if self._finish is not None and self._finish != finish:
            self.context.losses.add_once(LossCode.REPLY_REPAIRED, "candidates[0].finishReason", "a second one")
            if read_finish(self._finish, None) in CUTS:
                return
        self._finish, self._message = finish, message

    def _read_content(self, content: Any, out: list[Event]) -> None:
        if is_empty(content):
            return
        if type(content) is str or type(content) is list:
            content = {"parts": content}
            self._repaired(CONTENT_AT, "the content was its parts")
        if type(content) is not dict:
            raise UpstreamProtocolError(f"upstream sent a content that is {kind_of(content)}")
        if not CONTENT.issuperset(content):
            record_unknown(content, CONTENT, CONTENT_AT, self.context.losses)
        if (role := content.get("role")) != "model" and is_others_role(role):
            raise UpstreamProtocolError(f"upstream sent the role {quote_word(str(role))!r}, expected model")
        parts = content.get("parts")
        if is_empty(parts):
            return
        if type(parts) is str or type(parts) is dict:
            parts = [parts]
            self._repaired(PARTS_AT, "the parts were one part")
        if type(parts) is not list:
            raise UpstreamProtocolError(f"upstream sent parts that are {kind_of(parts)}")
        for part in parts:
            if type(part) is str:
                self._repaired(PARTS_AT, "a part was its text")
                part = {"text": part}
            self._parts.read(part, self._id, out)

    def _repaired(self, at: Path, repair: str) -> None:
        self.context.losses.add_once(LossCode.REPLY_REPAIRED, at, repair)

    def read_eof(self, out: list[Event]) -> None:
        """End the reply. Raises StreamTruncated if it has neither a `finishReason` nor a blocked prompt."""
        parts, native, refusal, whole = self._parts, self._finish, None, False
        self._read_last_counts()
        if native is not None:
            stop = resolve_stop(native, calls=parts.calls.any, shown=parts.shown, losses=self.context.losses)
            if stop.reason is StopReason.FILTERED:
                refusal = refusal_of(native, self._message, prompt=False)
        elif self._withheld is not None:
            native, refusal = self._withheld
            parts.release(self._id, out, runs=False)
            stop = Stop(StopReason.FILTERED, native)
        else:
            raise StreamTruncated
        if refusal is not None and not parts.shown:
            parts.refuse(refusal.explanation or native, out)
            whole = True
        parts.finish(self._grounding, out, complete=whole or stop.reason not in CUTS)
        out.append(Finish(stop, self._usage, refusal))
        out.append(End())
        self.done = True

    # --- bodies that are JSON ------------------------------------------------------------------------------------

    def _read_document(self, data: bytes, out: list[Event]) -> None:
        """Read a body that is JSON: a complete reply, an error, or an array of chunks (a stream without `alt=sse`)."""
        try:
            payload = loads_exact(data)
        except ValueError:
            payload = None
        if type(payload) is not list or reports_error(payload[:1]):
            return super()._read_document(data, out)
        try:
            self._read_array(payload, out)
            self._end_document(out)
        except UpstreamProtocolError as error:
            error.forbid_retry()
            raise

    def _end_document(self, out: list[Event]) -> None:
        """End a reply that is JSON. Raises UpstreamProtocolError if it does not state its end: it is not a cut stream,
        as the JSON is whole."""
        try:
            self.read_eof(out)
        except StreamTruncated:
            raise UpstreamProtocolError(
                "the upstream answered with JSON that has neither a finishReason nor a blocked prompt"
            ) from None

    def _read_array(self, chunks: list[Any], out: list[Event]) -> None:
        for chunk in chunks:
            if type(chunk) is not dict:
                raise UpstreamProtocolError(f"upstream sent an array with a chunk that is {kind_of(chunk)}")
            self.read_chunk(chunk, out)

    def read_reply(self, payload: Json) -> Reply:
        """See `StreamReader.read_reply`."""
        reader, events = GenerateReader(self.context), list[Event]()
        reader.read_chunk(payload, events)
        reader._end_document(events)
        return reply_of(events, DIALECT)

    def follow(self, delta: Delta) -> RunCallback | None:
        """See `StreamReader.follow`."""
        return self._parts.add_text if self._parts.kind is not None and delta.index == self._parts.index else None

    def __repr__(self) -> str:
        blocks = self._parts.blocks
        return f"<GenerateReader blocks={blocks.count} open={len(blocks.open)} finish={self._finish is not None}>"


def _only_candidate(candidates: Any) -> Json:
    """Return the candidate of a chunk, an empty object without one. Raises UpstreamProtocolError for several."""
    if is_empty(candidates):
        return {}
    if type(candidates) is not list:
        raise UpstreamProtocolError(f"upstream sent candidates that are {kind_of(candidates)}")
    # Several are alternatives, not parts of one turn.
    if len(candidates) != 1 or type(candidates[0]) is not dict or (candidates[0].get("index") or 0) != 0:
        raise UpstreamProtocolError("upstream sent a second candidate; exactly one was requested")
    candidate: Json = candidates[0]
    return candidate

"""Chat stream to canonical events.

Chat has no block borders: they are made here, when the kind of delta changes. Tool calls are keyed by their own
`index`; a call ends when its arguments are whole and another block starts, else at the finish. `finish_reason` is held
until the usage chunk, `[DONE]` or the end of the stream, because the usage comes after it (mapping §9.6).
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
    Logprobs,
    Opaque,
    Start,
    Usage,
)
from dragoman.canonical.request import Json
from dragoman.dialects.chat.citations import read_citation
from dragoman.dialects.chat.errors import is_error_frame, read_error_frame
from dragoman.dialects.chat.reasoning_details import KEY, Details, read_details, size_of
from dragoman.dialects.chat.stream.read_calls import StreamedCalls
from dragoman.dialects.chat.wire import (
    DIALECT,
    drop_proofs,
    matched_stop,
    read_finish,
    read_parts,
    read_usage,
    reasoning_text,
    settle,
)
from dragoman.dialects.errors.redact import quote_word
from dragoman.dialects.openai.logprobs import read_logprobs
from dragoman.dialects.openai.settings import read_created
from dragoman.dialects.shared.stream_codec import RunCallback, ignore_run
from dragoman.errors import StreamTruncated, UpstreamProtocolError
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.wire.delta_template import VaryingKeys

# CPython 3.11 takes twenty times as long to find a member in its class.
_TEXT, _REFUSAL, _REASONING = BlockKind.TEXT, BlockKind.REFUSAL, BlockKind.REASONING
_DELTA = ("choices", 0, "delta")
_FINISH = ("choices", 0, "finish_reason")
_PLAIN = frozenset(("role", "content"))
"""All that the delta of nearly every chunk has."""


class ChatReader(StreamedCalls):
    """See the module's docstring."""

    __slots__ = (
        "_details",
        "_fallback",
        "_matched",
        "_prose",
        "_prose_block",
        "_refused",
        "_started",
        "_thoughts",
        "_tokens",
    )

    volatile = VaryingKeys(padding=b"obfuscation")

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._started = False
        self._prose: BlockKind | None = None
        self._prose_block = 0
        self._thoughts: list[str] | None = None
        """The open reasoning block's text, for a server that wants it back and a client that can keep it."""
        self._details: Details | None = None
        """The same in typed pieces, once there is one."""
        self._refused = False
        self._fallback: Usage | None = None
        self._matched: str | None = None
        self._tokens: list[Json] | None = None
        """Log probabilities of the chunk being read, until its text is said."""

    def read(self, data: bytes, out: list[Event]) -> None:
        """One chunk."""
        if data == b"[DONE]":
            if self._finish is None:
                raise StreamTruncated("upstream sent [DONE] before a finish_reason")
            self._end(None, out)
            return
        try:
            chunk = orjson.loads(data)
        except orjson.JSONDecodeError:
            chunk = self.payload(data)
        if type(chunk) is not dict:
            raise UpstreamProtocolError("upstream sent a stream frame that is not a JSON object")
        choices = chunk.get("choices")
        if type(choices) is not list or "error" in chunk:
            if is_error_frame(chunk):
                return self._error(chunk, out)
            if type(choices) is not list:
                self.context.losses.add(LossCode.UNKNOWN_EVENT, quote_word(str(chunk.get("object", "chunk"))))
                return
        usage = chunk.get("usage")
        if not choices:
            return self._no_choice(usage, out)
        if len(choices) != 1:
            raise UpstreamProtocolError(f"upstream sent {len(choices)} choices in one chunk; exactly one was asked for")
        choice = choices[0]
        if type(choice) is not dict or choice.get("index", 0) != 0:
            raise UpstreamProtocolError("upstream sent a second choice; exactly one was asked for")
        if not self._started:
            self._start(chunk, out)
        if usage is not None and self.context.profile.usage_fallback == "last_seen":
            self._fallback = read_usage(usage) or self._fallback
        if logprobs := choice.get("logprobs"):
            if not self.context.logprobs:
                raise UpstreamProtocolError("upstream sent logprobs that were not asked for")
            self._tokens = read_logprobs(logprobs, self.context.losses)
        delta = choice.get("delta")
        if delta:
            self._delta(delta, out)
        if self._tokens:
            self._log(out)
        if native := choice.get("finish_reason"):  # an empty string counts as null (some servers send it)
            if self.context.sent_stops:
                self._matched = self._matched or matched_stop(choice, self.context.sent_stops)
            self._close(native, out)

    def follow(self, said: Delta) -> RunCallback | None:
        """See `StreamReader.follow`."""
        if self._prose is not None and said.index == self._prose_block:
            if self._details is not None:  # what is heard of a text may be a piece's, which has to be kept
                return None
            return ignore_run if self._thoughts is None else self._think_on
        call = next((call for call in self._calls.values() if call.block == said.index), None)
        # A fragment with a name may begin another call, which hangs on what its arguments are.
        if call is None or not call.plain or not self._early.is_last(said.index):
            return None
        return call.arguments.add_all

    def _think_on(self, text: str, pieces: list[str]) -> bool:
        assert self._thoughts is not None
        if not self._room.fits(len(text)):
            return False
        self._thoughts.append(text)
        return True

    def read_eof(self, out: list[Event]) -> None:
        """A stream may end without `[DONE]`, but not without its finish_reason."""
        if self._finish is None:
            raise StreamTruncated
        self.mend("the stream ended without [DONE]", at="")
        self._end(None, out)

    # --- chunks without a choice ---------------------------------------------------------------------------------

    def _error(self, chunk: Json, out: list[Event]) -> None:
        out.append(Error(read_error_frame(chunk)))
        self.done = True

    def _no_choice(self, usage: Any, out: list[Event]) -> None:
        counts = read_usage(usage) if usage is not None else None
        if counts is None:
            return  # a prompt filter's or moderation's chunk
        if self._finish is not None:
            self._end(counts, out)
        elif self.context.profile.usage_fallback == "last_seen":
            self._fallback = counts
        else:
            raise UpstreamProtocolError("upstream sent the usage chunk before a finish_reason")

    # --- deltas --------------------------------------------------------------------------------------------------

    def _start(self, chunk: Json, out: list[Event]) -> None:
        self._started = True
        upstream_id, model, created = chunk.get("id"), chunk.get("model"), chunk.get("created")
        self._id = upstream_id if type(upstream_id) is str else ""
        out.append(Start(self._id, model if type(model) is str else "", None, read_created(created)))

    def _delta(self, delta: Json, out: list[Event]) -> None:
        if type(delta) is not dict:
            raise UpstreamProtocolError("upstream sent a delta that is not an object")
        content = delta.get("content")
        legacy = None
        if "role" in delta and delta["role"] not in (None, "", "assistant"):
            raise UpstreamProtocolError(f"upstream spoke as {delta['role']!r}, not as the assistant")
        plain = delta.keys() <= _PLAIN
        if not plain:
            if reasoning := reasoning_text(delta):
                self._say(_REASONING, reasoning, out)
            if KEY in delta or "thinking_blocks" in delta:
                self._prove(delta, out)
            if delta.get("audio"):
                raise UpstreamProtocolError("upstream sent audio, which no client of another dialect can be given")
            legacy = delta.get("function_call")
        if content:
            if type(content) is list:
                self._parts(content, out)
            else:
                self._say(_TEXT, content, out)
            if self._tokens:
                self._log(out)
        if plain:
            return
        if refusal := delta.get("refusal"):
            self._refused = True
            self._say(_REFUSAL, refusal, out)
        if calls := delta.get("tool_calls"):
            if type(calls) is not list:
                raise UpstreamProtocolError("upstream sent tool_calls that are not an array")
            for position, fragment in enumerate(calls):
                self.read_call(position, fragment, out)
        if legacy:
            self.read_legacy(legacy, out)
        if annotations := delta.get("annotations"):
            self._annotate(annotations, out)

    def _say(self, kind: BlockKind, text: Any, out: list[Event]) -> None:
        if type(text) is not str:
            raise UpstreamProtocolError(f"upstream sent {kind} that is not a string")
        if self._prose is not kind:
            self._begin(kind, out)
        if self._thoughts is not None:
            self._room.take(len(text))
            self._thoughts.append(text)
        out.append(Delta(self._prose_block, text))

    def _begin(self, kind: BlockKind, out: list[Event]) -> None:
        self.hush(out)
        if self._finish is not None:
            self.mend("content came after the finish_reason", at=_DELTA)
        self._early.before_start(out)
        self._prose = kind
        self._prose_block = self._blocks.start(kind, kind)
        out.append(BlockStart(self._prose_block, kind))
        if kind is _REASONING and self.context.envelope is not None and self.context.profile.reasoning_replay:
            self._thoughts = []

    def _prove(self, delta: Json, out: list[Event]) -> None:
        """Proofs beside reasoning: kept where they can come back, else dropped."""
        details = read_details(delta, self.context)
        if not details:
            drop_proofs(delta, _DELTA, self.context.losses)
            return
        if self._prose is not _REASONING:  # the proof of what is not shown
            self._begin(_REASONING, out)
        if self._details is None:
            self._details, self._thoughts = Details(), None  # which hold its text as well
        for piece in details:
            self._room.take(size_of(piece))
            self._details.add(piece)

    def _parts(self, content: list[Any], out: list[Event]) -> None:
        """A delta in parts, as in a request; Mistral's servers tell their reasoning so."""
        self.mend("content came as an array of parts", at=_DELTA)
        for kind, text in read_parts(content, _DELTA, self.context.losses):
            if text:
                self._refused |= kind is _REFUSAL
                self._say(kind, text, out)

    def _log(self, out: list[Event]) -> None:
        """The tokens of the text just said, or of a part of a character that is still to come."""
        assert self._tokens is not None
        tokens, self._tokens = self._tokens, None
        if self._prose is _TEXT:
            out.append(Logprobs(self._prose_block, tokens))
        else:  # of a call, a refusal or reasoning (some servers give those too)
            self.context.losses.add(LossCode.UNKNOWN_FIELD, "choices[0].logprobs.content", "given for what is no text")

    def hush(self, out: list[Event], *, complete: bool = True) -> None:
        """Close the open text, refusal or reasoning block, if there is one."""
        if self._prose is not None:
            if self._details is not None:
                out.append(Opaque(self._prose_block, DIALECT, KEY, None, {KEY: self._details.whole()}))
            elif self._thoughts is not None:
                block = {"reasoning_content": "".join(self._thoughts)}
                out.append(Opaque(self._prose_block, DIALECT, "reasoning_content", None, block))
            self._thoughts = self._details = None
            out.append(BlockEnd(self._blocks.end(self._prose), complete))
            self._prose = None

    def _annotate(self, annotations: Any, out: list[Event]) -> None:
        for note in annotations if type(annotations) is list else (None,):
            if type(note) is dict and self._prose is _TEXT:
                out.append(Annotation(self._prose_block, read_citation(note)))
            else:
                self.context.losses.add(LossCode.CITATIONS, "choices[0].delta.annotations")

    # --- the end -------------------------------------------------------------------------------------------------

    def _close(self, native: Any, out: list[Event]) -> None:
        """A finish_reason: close all blocks, keep the reason."""
        if type(native) is not str:
            raise UpstreamProtocolError("upstream sent a finish_reason that is not a string")
        cut = read_finish(native) in CUTS
        if self._finish is None:
            self._finish = native
        else:
            self.mend("a second finish_reason", at=_FINISH)
            if cut:  # whatever the first one said, this one did not say that the reply is whole
                self._finish = native
        self._close_blocks(native, out)

    def _close_blocks(self, native: str, out: list[Event]) -> None:
        complete = read_finish(native) not in CUTS
        self.hush(out, complete=complete)
        self.end_calls(out, complete=complete)

    def _end(self, usage: Usage | None, out: list[Event]) -> None:
        native = self._finish
        assert native is not None
        if usage is None and self._fallback is not None:
            self.mend("the token counts came before their place", at="usage")
        self._close_blocks(native, out)
        stop = settle(
            native,
            calls=bool(self._calls),
            refusal=self._refused,
            content=self._blocks.count > 0,
            losses=self.context.losses,
            at=_FINISH,
            matched=self._matched,
        )
        out.append(Finish(stop, usage or self._fallback))
        out.append(End())
        self.done = True

"""Reads a Chat stream into canonical events (mapping §9.6).

Chat marks no borders of blocks: `read_text` starts one when the kind of delta changes, `read_calls` keys tool calls by
their `index`. The `finish_reason` is kept until the usage chunk, `[DONE]` or the end of the stream, because the usage
comes after it.
"""

from __future__ import annotations

from typing import Any

import orjson

from dragoman.canonical.events import (
    CUTS,
    Annotation,
    Citation,
    Delta,
    End,
    Error,
    Event,
    Finish,
    Logprobs,
    Ping,
    Start,
    Usage,
)
from dragoman.canonical.reply import Reply
from dragoman.canonical.request import Json
from dragoman.dialects import Dialect
from dragoman.dialects.chat.citations import read_citation
from dragoman.dialects.chat.errors import is_error_frame
from dragoman.dialects.chat.extra_content import EXTRA_KEY, OF_MESSAGE, read_signed
from dragoman.dialects.chat.reasoning_details import DETAILS_KEY
from dragoman.dialects.chat.reasoning_fields import is_signed, plain_text, reasoning_text, record_unread
from dragoman.dialects.chat.reply.read import AUDIO, read_reply
from dragoman.dialects.chat.reply_fields import (
    BODY,
    CHOICE,
    CHOICE_USED,
    MESSAGE,
    completion_text,
    note_usage,
    read_extras,
    read_matched_stop,
    read_sources,
    record_unknown_annotation,
    record_unsigned,
    usage_elsewhere,
)
from dragoman.dialects.chat.stop_and_usage import read_finish_reason, read_usage, resolve_stop_reason
from dragoman.dialects.chat.stream.phases import READER, Phase
from dragoman.dialects.chat.stream.read_calls import ToolCallAssembler
from dragoman.dialects.chat.stream.read_text import TextAssembler
from dragoman.dialects.errors.read import read_error_payload
from dragoman.dialects.errors.redact import quote_word
from dragoman.dialects.openai.logprobs import read_logprobs
from dragoman.dialects.shared.json_fields import is_empty, read_timestamp, record_unknown
from dragoman.dialects.shared.service_report import note_tier, tier_of
from dragoman.dialects.shared.stream_reader import RunCallback, StreamReader
from dragoman.errors import DragomanError, Path, StreamTruncated, UpstreamProtocolError
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.wire.delta_template import VaryingKeys
from dragoman.wire.json_codec import with_exact

_FINISH = ("choices", 0, "finish_reason")
_CHOICE: Path = ("choices", 0)
_DELTA: Path = ("choices", 0, "delta")
_CHOICES = b'{"choices":'

_BACKSLASH = 92


class ChatReader(StreamReader):
    """Reads one stream. Only a single choice is accepted."""

    __slots__ = (
        "_audio",
        "_calls",
        "_early_usage",
        "_finish",
        "_head",
        "_id",
        "_matched",
        "_phase",
        "_plain",
        "_sources",
        "_text",
        "_tokens",
        "_totalled",
    )

    dialect = Dialect.CHAT
    volatile = VaryingKeys(padding=b"obfuscation")

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._text = TextAssembler(context)
        self._calls: ToolCallAssembler | None = None
        """None before the first call."""
        self._phase: Phase = "NEW"
        self._id = ""
        """The upstream's id of the reply."""
        self._head = b""
        """The first bytes of each chunk up to the value of its choices, if they do not have to be read again."""
        self._finish: str | None = None
        """The `finish_reason`."""
        self._matched: str | None = None
        """The stop sequence that ended the reply."""
        self._early_usage: Usage | None = None
        """Usage that arrived before the usage chunk, for servers that send none."""
        self._sources: dict[str, Citation | None] | None = None
        """The web pages that are listed next to the choices, by their URL; None for those that the text cites."""
        self._tokens: list[Json] | None = None
        """Log probabilities of the current chunk, until its text is added."""
        self._totalled = False
        """True if the last chunk had token counts and no content, which shows that the reply is complete."""
        self._audio = False
        self._plain = False
        """True if reasoning came in a field that holds a text only."""

    def read(self, data: bytes, out: list[Event]) -> None:
        """Read one chunk, or `[DONE]`."""
        if data == b"[DONE]":
            if not self._end("[DONE]", None, out):
                raise StreamTruncated("upstream sent [DONE] before a finish_reason")
            return
        head = self._head
        repeated = head and data.startswith(head)
        short = _CHOICES + data[len(head) :] if repeated else data
        try:
            chunk = orjson.loads(short)
        except orjson.JSONDecodeError:
            chunk = self.payload(data)
        if type(chunk) is not dict:
            return self.read_other(chunk, out)
        choices = chunk.get("choices")
        if type(choices) is not list or "error" in chunk:
            if repeated:
                chunk = self.payload(data)
            if is_error_frame(chunk):
                return self._end_in_error(chunk, out)
            if type(choices) is not list and (choices or not chunk.get("usage")):
                return self._no_chunk(chunk, out)
        if not BODY.issuperset(chunk):
            self._read_extras(chunk)
        if tier := chunk.get("service_tier"):
            note_tier(self.context, tier)
        if not choices or not choices[0]:
            return self._no_choice(chunk.get("usage"), out)
        if len(choices) != 1:
            raise UpstreamProtocolError(f"upstream sent {len(choices)} choices in one chunk; exactly one was requested")
        self._read_choice(choices[0], chunk, short, out)

    def _read_choice(self, choice: Any, chunk: Json, data: bytes, out: list[Event]) -> None:
        """Read the choice of a chunk. `data` is the chunk's JSON, perhaps without what is before the choices."""
        if type(choice) is not dict or (choice.get("index") or 0) != 0:
            raise UpstreamProtocolError("upstream sent a second choice; exactly one was requested")
        if "error" in choice and (error := choice["error"]):  # OpenRouter
            return self._end_in_error({"error": error}, out)
        usage, delta = chunk.get("usage"), choice.get("delta")
        if self._phase == "NEW":
            if not delta and choice.get("message"):
                return self.read_whole(chunk, out)
            self._start(chunk, out)
            if usage is None and "error" not in chunk:
                self._head = _head_of(data)
        if not CHOICE.issuperset(choice):
            delta = self._read_choice_extras(choice, delta)
        if not delta and (message := choice.get("message")):
            delta = self._unsent(message)
        if usage is not None and self.context.profile.usage_fallback == "last_seen":
            self._keep_usage(usage)
        if logprobs := choice.get("logprobs"):
            self._tokens = read_logprobs(logprobs, self.context)
        if delta:
            self._totalled = False
            if type(delta) is dict and ("tool_calls" in delta or "function_call" in delta) and choice.get("delta"):
                delta = with_exact(data, b"arguments", chunk)["choices"][0]["delta"]
            self._delta(delta, out)
        elif usage:
            self._totalled = True
        if self._tokens:
            self._add_logprobs(out)
        if native := choice.get("finish_reason"):  # an empty string counts as null (some servers send it)
            self._matched = self._matched or read_matched_stop(choice, self.context)
            self._close(native, out)

    def _end_in_error(self, payload: Json, out: list[Event]) -> None:
        out.append(Error(read_error_payload(payload, Dialect.CHAT)))
        self._advance("error")

    def read_reply(self, payload: Json) -> Reply:
        """See `StreamReader.read_reply`."""
        return read_reply(payload, self.context)

    def follow(self, delta: Delta) -> RunCallback | None:
        """See `StreamReader.follow`."""
        if self._text.kind is not None and delta.index == self._text.index:
            return self._text.on_template()
        return self._calls.on_template(delta.index) if self._calls is not None else None

    def read_eof(self, out: list[Event]) -> None:
        """End a stream without `[DONE]`. Raises StreamTruncated if it has no `finish_reason`."""
        if not self._end("end of stream", None, out):
            raise StreamTruncated

    def fail(self, error: DragomanError, out: list[Event]) -> None:
        """See `StreamReader.fail`."""
        super().fail(error, out)
        self._advance("error")

    def __repr__(self) -> str:
        blocks, calls = self._text.blocks, self._calls.calls if self._calls is not None else {}
        return f"<ChatReader {self._phase} blocks={blocks.count} open={len(blocks.open)} calls={len(calls)}>"

    def _advance(self, event: str) -> None:
        """Move to the next phase, if the event has a transition in this one."""
        self._phase = self._text.phase = phase = READER[self._phase].get(event, self._phase)
        self.done = phase == "ENDED"

    def _repaired(self, repair: str, at: Path | str) -> None:
        """Record a deviation that was repaired."""
        self.context.losses.add_once(LossCode.REPLY_REPAIRED, at, repair)

    # --- vendors' extra keys -------------------------------------------------------------------------------------

    def _read_extras(self, chunk: Json) -> None:
        """Read the keys of a chunk that OpenAI's do not have."""
        read_extras(chunk, self.context)
        if (usage := usage_elsewhere(chunk, {})) is not None:
            self._keep_usage(usage)
        if chunk.get("citations") or chunk.get("search_results"):
            sources = self._sources = self._sources or {}
            for source in read_sources(chunk, (), self.context.losses):
                assert source.url is not None
                if source.url not in sources:
                    self._text.budget.take(len(source.url))
                    sources[source.url] = source

    def _read_choice_extras(self, choice: Json, delta: Any) -> Any:
        """Read the keys of a choice that OpenAI's do not have. Return its delta."""
        if usage := choice.get("usage"):
            self._keep_usage(usage)
        text = {} if delta else completion_text(choice, self.context)
        record_unknown(choice, CHOICE_USED | {"text"} if text else CHOICE_USED, _CHOICE, self.context.losses)
        return text or delta

    def _unsent(self, message: Any) -> Any:
        """Return what of a message in place of a delta no delta had. Some servers end a stream with all of it."""
        if type(message) is not dict:
            return None
        rest = {key: value for key, value in message.items() if not is_empty(value) and key != "role"}
        if self._text.blocks.count or self._text.kind is not None:
            for key in rest.keys() - {"content", "tool_calls"}:
                del rest[key]
        if self._text.shown:
            rest.pop("content", None)
        if self._calls is not None and self._calls.any_started():
            rest.pop("tool_calls", None)
        if rest:
            self._repaired("a chunk had a message instead of a delta", _CHOICE)
        return rest or None

    def _keep_usage(self, usage: Any) -> None:
        note_usage(usage, ("usage",), self.context)
        self._early_usage = read_usage(usage) or self._early_usage

    # --- chunks without a choice ---------------------------------------------------------------------------------

    def _no_chunk(self, payload: Json, out: list[Event]) -> None:
        if payload:
            self.context.losses.add(LossCode.UNKNOWN_EVENT, quote_word(str(payload.get("object", "chunk"))))
        else:
            out.append(Ping())

    def _no_choice(self, usage: Any, out: list[Event]) -> None:
        counts = read_usage(usage) if usage is not None else None
        if counts is None:
            return  # a prompt filter's or moderation's chunk
        note_usage(usage, ("usage",), self.context)
        if not self._end("usage", counts, out):
            self._early_usage, self._totalled = counts, True

    # --- deltas --------------------------------------------------------------------------------------------------

    def _start(self, chunk: Json, out: list[Event]) -> None:
        self._advance("choice")
        upstream_id, model, created = chunk.get("id"), chunk.get("model"), chunk.get("created")
        self._id = upstream_id if type(upstream_id) is str else ""
        context, name = self.context, model if type(model) is str else ""
        out.append(Start(self._id, name, None, read_timestamp(created), tier_of(context), context.moderation))

    def _delta(self, delta: Any, out: list[Event]) -> None:
        if type(delta) is not dict:
            raise UpstreamProtocolError("upstream sent a delta that is not an object")
        if "role" in delta and delta["role"] not in (None, "", "assistant"):
            raise UpstreamProtocolError(f"upstream sent the role {delta['role']!r}, expected assistant")
        content = delta.get("content")
        plain, legacy = True, None
        for key, value in delta.items():  # some servers send all members, nearly all of them empty
            if value and key != "content" and key != "role":
                plain = False
                break
        if not plain:
            if not MESSAGE.issuperset(delta):
                record_unknown(delta, MESSAGE, _DELTA, self.context.losses)
            self._read_reasoning(delta, out)
            if EXTRA_KEY in delta:
                if (extra := read_signed(delta)) is not None:
                    self._text.add_signature(OF_MESSAGE, extra)
                else:
                    record_unsigned(delta, _DELTA, self.context.losses)
            if delta.get("audio"):
                self._audio = True
                self.context.losses.add_once(LossCode.UNKNOWN_EVENT, "choices[0].delta.audio", AUDIO)
            legacy = delta.get("function_call")
        if content:
            if type(content) is list:
                self._text.add_parts(content, out)
            else:
                self._text.add("text", content, out)
            if self._tokens:
                self._add_logprobs(out)
        if plain:
            return
        if refusal := delta.get("refusal"):
            self._text.add("refusal", refusal, out)
        fragments = delta.get("tool_calls")
        if fragments or legacy:
            self._read_calls(fragments, legacy, out)
        if annotations := delta.get("annotations"):
            self._annotate(annotations, out)
        if images := delta.get("images"):
            self._text.add_images(images, out)

    def _read_reasoning(self, delta: Json, out: list[Event]) -> None:
        if text := plain_text(delta):
            self._plain = True
            self._text.add("reasoning", text, out)
        elif not (text := reasoning_text(delta)):
            record_unread(delta, _DELTA, self.context.losses)
        elif self._plain and self._text.kind == "reasoning" and is_signed(delta):  # LiteLLM
            self._repaired("a signed detail repeated the text of its deltas", _DELTA)
        else:
            self._text.add("reasoning", text, out)
        if DETAILS_KEY in delta or "thinking_blocks" in delta:
            self._text.add_details(delta, out)

    def _read_calls(self, fragments: Any, legacy: Any, out: list[Event]) -> None:
        calls = self._calls
        if calls is None:
            if is_empty(fragments) and is_empty(legacy):
                return
            calls = self._calls = ToolCallAssembler(self.context, self._text, self._id)
        if fragments:
            if type(fragments) is not list:
                raise UpstreamProtocolError("upstream sent tool_calls that are not an array")
            for position, fragment in enumerate(fragments):
                if fragment:
                    calls.read(position, fragment, out)
        if not is_empty(legacy):
            calls.read_legacy(legacy, out)

    def _add_logprobs(self, out: list[Event]) -> None:
        """Add the log probabilities of the last text, or of a part of a character whose text follows."""
        assert self._tokens is not None
        tokens, self._tokens = self._tokens, None
        if self._text.kind == "text":
            out.append(Logprobs(self._text.index, tokens))
        else:  # some servers send those of calls, refusals and reasoning too
            self.context.losses.add(
                LossCode.UNKNOWN_FIELD, "choices[0].logprobs.content", "sent for something other than text"
            )

    def _annotate(self, annotations: Any, out: list[Event]) -> None:
        for note in annotations if type(annotations) is list else (None,):
            if type(note) is dict and self._text.kind == "text":
                record_unknown_annotation(note, (*_DELTA, "annotations"), self.context.losses)
                citation = read_citation(note)
                if self._sources is not None and citation.url is not None:
                    self._sources[citation.url] = None
                out.append(Annotation(self._text.index, citation))
            else:
                self.context.losses.add(LossCode.CITATIONS, "choices[0].delta.annotations")

    # --- the end -------------------------------------------------------------------------------------------------

    def _close(self, native: Any, out: list[Event]) -> None:
        """Close all blocks at a `finish_reason`, which is kept for the end."""
        if type(native) is not str:
            raise UpstreamProtocolError("upstream sent a finish_reason that is not a string")
        cut = read_finish_reason(native) in CUTS
        if self._phase == "FINISHED":
            self._repaired("a second finish_reason", _FINISH)
        if self._finish is None or cut:  # of several, one that reports a cut reply is kept
            self._finish = native
        self._advance("finish_reason")
        if self._sources:
            self._cite_sources(out)
        self._close_blocks(out, complete=not cut, final=cut)

    def _are_calls_complete(self) -> bool:
        calls = self._calls.calls.values() if self._calls is not None else ()
        return all(call.is_complete() for call in calls if not call.is_blank())

    def _cite_sources(self, out: list[Event]) -> None:
        """Add the sources next to the choices to the open text."""
        assert self._sources is not None
        for url, source in self._sources.items():
            if source is None:
                continue
            self._sources[url] = None
            if self._text.kind == "text":
                out.append(Annotation(self._text.index, source))
            else:
                self.context.losses.add_once(LossCode.CITATIONS, "citations", "there was no text to cite them")

    def _close_blocks(self, out: list[Event], *, complete: bool, final: bool = True) -> None:
        self._text.close(out, complete=complete)
        if self._calls is not None:
            self._calls.close(out, complete=complete, final=final)
        self._text.write_signatures(out)

    def _end(self, event: str, usage: Usage | None, out: list[Event]) -> bool:
        """End the reply. False if the event does not end it in this phase.

        Without a `finish_reason`, token counts and `[DONE]` end it, if all of its calls are complete.
        """
        if event not in READER[self._phase]:
            if event != "[DONE]" or not self._totalled or not self._are_calls_complete():
                return False
        elif self._audio and not self._text.blocks.count:
            raise UpstreamProtocolError("upstream reply holds audio only")
        native = self._finish
        if self._sources:
            self._cite_sources(out)
        if event == "end of stream":
            self._repaired("the stream ended without [DONE]", "")
        if usage is None and self._early_usage is not None:
            self._repaired("the token counts arrived before their place", "usage")
        # They may have continued after the finish.
        if self._text.kind is not None or self._calls is not None or self._text.signatures:
            self._close_blocks(out, complete=read_finish_reason(native) not in CUTS)
        stop = resolve_stop_reason(
            native,
            calls=self._calls is not None and self._calls.any_started(),
            refusal=self._text.refused,
            shown=self._text.shown,
            losses=self.context.losses,
            at=_FINISH,
            matched=self._matched,
        )
        out.append(Finish(stop, usage or self._early_usage))
        out.append(End())
        self._phase, self.done = "ENDED", True
        return True


def _head_of(data: bytes) -> bytes:
    """Return the first bytes of a chunk up to its choices; nothing if they have more than plain members."""
    end = data.find(b"[")
    head = data[:end]
    # Without escapes and other braces, the choices are a member of the chunk itself.
    if head.rstrip().endswith(b'"choices":') and head.rfind(b"{") == 0 and _BACKSLASH not in head:
        return head
    return b""

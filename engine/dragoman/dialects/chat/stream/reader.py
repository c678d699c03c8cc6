"""Reads a Chat stream into canonical events (mapping §9.6).

The content of the only choice is read by `read_content`. The `finish_reason` is kept until the usage chunk, `[DONE]` or
the end of the stream, because the usage comes after it.
"""

from __future__ import annotations

from typing import Any

import orjson

from dragoman.canonical.events import CUTS, Delta, End, Error, Event, Finish, Ping, Start, Usage
from dragoman.canonical.reply import Reply
from dragoman.canonical.request import Json
from dragoman.dialects import Dialect
from dragoman.dialects.chat.errors import is_error_frame
from dragoman.dialects.chat.odd_forms import usual_chunk
from dragoman.dialects.chat.reply.read import read_reply
from dragoman.dialects.chat.reply_fields import (
    BODY,
    CHOICE,
    CHOICE_USED,
    completion_text,
    note_usage,
    read_extras,
    read_matched_stop,
    usage_elsewhere,
)
from dragoman.dialects.chat.stop_and_usage import read_finish_reason, read_usage, resolve_stop_reason
from dragoman.dialects.chat.stream.phases import READER, Phase
from dragoman.dialects.chat.stream.read_content import ContentReader
from dragoman.dialects.errors.read import read_error_payload
from dragoman.dialects.errors.redact import quote_word
from dragoman.dialects.openai.logprobs import read_logprobs
from dragoman.dialects.shared.json_fields import count_of, read_timestamp, record_unknown
from dragoman.dialects.shared.service_report import note_tier, tier_of
from dragoman.dialects.shared.stream_reader import StreamReader
from dragoman.errors import DragomanError, Path, StreamTruncated, UpstreamProtocolError
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.wire.delta_template import RunCallback, VaryingKeys
from dragoman.wire.json_codec import with_exact

_FINISH = ("choices", 0, "finish_reason")
_CHOICE: Path = ("choices", 0)
_CHOICES = b'{"choices":'

_BACKSLASH = 92


class ChatReader(StreamReader):
    """Reads one stream. Only a single choice is accepted."""

    __slots__ = (
        "_content",
        "_early_usage",
        "_finish",
        "_head",
        "_index",
        "_matched",
        "_phase",
        "_totalled",
    )

    dialect = Dialect.CHAT
    volatile = VaryingKeys(padding=b"obfuscation")

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._content = ContentReader(context)
        self._phase: Phase = "NEW"
        self._head = b""
        """The first bytes of each chunk up to the value of its choices, if they do not have to be read again."""
        self._index = 0
        """The index of the only choice."""
        self._finish: str | None = None
        """The `finish_reason`."""
        self._matched: str | None = None
        """The stop sequence that ended the reply."""
        self._early_usage: Usage | None = None
        """Usage that arrived before the usage chunk, for servers that send none."""
        self._totalled = False
        """True if the last chunk had token counts and no content, which shows that the reply is complete."""

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
                if (usual := usual_chunk(data, self.context.losses)) is not None:
                    return self.read(usual, out)
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
        if type(choice) is not dict or (choice.get("index") or 0) != self._index:
            self._take_index(choice)
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
            delta = self._content.unsent(message)
        if usage is not None and self.context.profile.usage_fallback == "last_seen":
            self._keep_usage(usage)
        if logprobs := choice.get("logprobs"):
            self._content.tokens = read_logprobs(logprobs, self.context)
        if delta:
            self._totalled = False
            if type(delta) is dict and ("tool_calls" in delta or "function_call" in delta) and choice.get("delta"):
                delta = with_exact(data, b"arguments", chunk)["choices"][0]["delta"]
            self._content.add(delta, out)
        elif usage:
            self._totalled = True
        if self._content.tokens:
            self._content.add_logprobs(out)
        if native := choice.get("finish_reason"):  # an empty string counts as null (some servers send it)
            self._matched = self._matched or read_matched_stop(choice, self.context)
            self._close(native, out)

    def _take_index(self, choice: Any) -> None:
        """Take the index of the only choice, which some servers do not count from 0.

        Raises UpstreamProtocolError for another choice.
        """
        stated = choice.get("index", self._index) if type(choice) is dict else None
        index = count_of(stated)
        if index is None or (self._phase != "NEW" and index != self._index):
            raise UpstreamProtocolError("upstream sent a second choice; exactly one was requested")
        self._content.record_repair("the index of the only choice was not 0", (*_CHOICE, "index"))
        self._index = index

    def _end_in_error(self, payload: Json, out: list[Event]) -> None:
        out.append(Error(read_error_payload(payload, Dialect.CHAT)))
        self._advance("error")

    def read_reply(self, payload: Json) -> Reply:
        """See `StreamReader.read_reply`."""
        return read_reply(payload, self.context)

    def follow(self, delta: Delta) -> RunCallback | None:
        """See `StreamReader.follow`."""
        return self._content.follow(delta)

    def read_eof(self, out: list[Event]) -> None:
        """End a stream without `[DONE]`. Raises StreamTruncated if it has no `finish_reason`."""
        if not self._end("end of stream", None, out):
            raise StreamTruncated

    def fail(self, error: DragomanError, out: list[Event]) -> None:
        """See `StreamReader.fail`."""
        super().fail(error, out)
        self._advance("error")

    def __repr__(self) -> str:
        return f"<ChatReader {self._phase} {self._content.summary()}>"

    def _advance(self, event: str) -> None:
        """Move to the next phase, if the event has a transition in this one."""
        self._phase = self._content.text.phase = phase = READER[self._phase].get(event, self._phase)
        self.done = phase == "ENDED"

    # --- vendors' extra keys -------------------------------------------------------------------------------------

    def _read_extras(self, chunk: Json) -> None:
        """Read the keys of a chunk that OpenAI's do not have."""
        read_extras(chunk, self.context)
        if (usage := usage_elsewhere(chunk, {})) is not None:
            self._keep_usage(usage)
        if chunk.get("citations") or chunk.get("search_results"):
            self._content.add_sources(chunk)

    def _read_choice_extras(self, choice: Json, delta: Any) -> Any:
        """Read the keys of a choice that OpenAI's do not have. Return its delta."""
        if usage := choice.get("usage"):
            self._keep_usage(usage)
        text = {} if delta else completion_text(choice, self.context)
        record_unknown(choice, CHOICE_USED | {"text"} if text else CHOICE_USED, _CHOICE, self.context.losses)
        return text or delta

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

    def _start(self, chunk: Json, out: list[Event]) -> None:
        self._advance("choice")
        upstream_id, model, created = chunk.get("id"), chunk.get("model"), chunk.get("created")
        self._content.reply_id = reply_id = upstream_id if type(upstream_id) is str else ""
        context, name = self.context, model if type(model) is str else ""
        out.append(Start(reply_id, name, None, read_timestamp(created), tier_of(context), context.moderation))

    # --- the end -------------------------------------------------------------------------------------------------

    def _close(self, native: Any, out: list[Event]) -> None:
        """Close all blocks at a `finish_reason`, which is kept for the end."""
        if type(native) is not str:
            raise UpstreamProtocolError("upstream sent a finish_reason that is not a string")
        cut = read_finish_reason(native) in CUTS
        if self._phase == "FINISHED":
            self._content.record_repair("a second finish_reason", _FINISH)
        if self._finish is None or cut:  # of several, one that reports a cut reply is kept
            self._finish = native
        self._advance("finish_reason")
        if self._content.sources:
            self._content.cite_sources(out)
        self._content.close(out, complete=not cut, final=cut)

    def _end(self, event: str, usage: Usage | None, out: list[Event]) -> bool:
        """End the reply. False if the event does not end it in this phase.

        Without a `finish_reason`, token counts and `[DONE]` end it, if all of its calls are complete.
        """
        content = self._content
        if content.finish and event not in READER[self._phase]:
            self._close(content.finish, out)
        if event not in READER[self._phase]:
            if event != "[DONE]" or not self._totalled or not content.are_calls_complete():
                return False
        elif content.audio and not content.text.blocks.count:
            raise UpstreamProtocolError("upstream reply holds audio only")
        native = self._finish
        if content.sources:
            content.cite_sources(out)
        if event == "end of stream":
            content.record_repair("the stream ended without [DONE]", "")
        if usage is None and self._early_usage is not None:
            content.record_repair("the token counts arrived before their place", "usage")
        if content.is_open():
            content.close(out, complete=read_finish_reason(native) not in CUTS)
        stop = resolve_stop_reason(
            native,
            calls=content.calls is not None and content.calls.any_started(),
            refusal=content.text.refused,
            shown=content.text.shown,
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

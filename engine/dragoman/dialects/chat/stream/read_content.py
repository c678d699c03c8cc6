"""The content of the only choice of a Chat stream: what its deltas add, and the tokens and sources of its text.

Chat marks no borders of blocks: `read_text` starts one when the kind of delta changes, `read_calls` keys tool calls by
their `index`.
"""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.events import Annotation, Citation, Delta, Event, Logprobs
from dragoman.canonical.request import Json
from dragoman.dialects.chat.citations import read_citation
from dragoman.dialects.chat.extra_content import EXTRA_KEY, OF_MESSAGE, read_signed
from dragoman.dialects.chat.odd_forms import FINISH, calls_in
from dragoman.dialects.chat.reasoning_details import DETAILS_KEY
from dragoman.dialects.chat.reasoning_fields import is_signed, plain_text, reasoning_text, record_unread
from dragoman.dialects.chat.reply.read import AUDIO
from dragoman.dialects.chat.reply_fields import MESSAGE, read_sources, record_unknown_annotation, record_unsigned
from dragoman.dialects.chat.stream.read_calls import LEGACY, ToolCallAssembler
from dragoman.dialects.chat.stream.read_text import TextAssembler
from dragoman.dialects.shared.json_fields import is_empty, is_others_role, record_unknown
from dragoman.errors import Path, UpstreamProtocolError
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.wire.delta_template import RunCallback

_CHOICE: Final[Path] = ("choices", 0)
_DELTA: Final[Path] = ("choices", 0, "delta")
_LEGACY_ONLY: Final = frozenset((LEGACY,))


class ContentReader:
    """Reads the content of one stream."""

    __slots__ = ("_context", "_plain", "audio", "calls", "finish", "reply_id", "sources", "text", "tokens")

    def __init__(self, context: ReplyContext) -> None:
        self._context = context
        self.reply_id = ""
        """The upstream's id of the reply."""
        self.text = TextAssembler(context)
        self.calls: ToolCallAssembler | None = None
        """None before the first call."""
        self.sources: dict[str, Citation | None] | None = None
        """The web pages that are listed next to the choices, by their URL; None for those that the text cites."""
        self.tokens: list[Json] | None = None
        """Log probabilities of the current chunk, until its text is added."""
        self.audio = False
        """True if there is an audio, which is dropped."""
        self.finish: Any = None
        """The `finish_reason` inside the last delta that had one."""
        self._plain = False
        """True if reasoning came in a field that holds a text only."""

    def record_repair(self, repair: str, at: Path | str) -> None:
        """Record a deviation that was repaired."""
        self._context.losses.add_once(LossCode.REPLY_REPAIRED, at, repair)

    def follow(self, delta: Delta) -> RunCallback | None:
        """See `StreamReader.follow`."""
        if self.text.kind is not None and delta.index == self.text.index:
            return self.text.on_template()
        return self.calls.on_template(delta.index) if self.calls is not None else None

    def summary(self) -> str:
        """Return the numbers of blocks and calls, for a `repr`."""
        blocks, calls = self.text.blocks, self.calls.calls if self.calls is not None else ()
        return f"blocks={blocks.count} open={len(blocks.open)} calls={len(calls)}"

    def add(self, delta: Any, out: list[Event]) -> None:
        """Read a delta. Raises UpstreamProtocolError and LimitExceeded."""
        if type(delta) is not dict:
            raise UpstreamProtocolError("upstream sent a delta that is not an object")
        if "role" in delta and delta["role"] != "assistant" and is_others_role(delta["role"]):
            raise UpstreamProtocolError(f"upstream sent the role {delta['role']!r}, expected assistant")
        content = delta.get("content")
        plain, legacy = True, None
        for key, value in delta.items():  # some servers send all members, nearly all of them empty
            if value and key != "content" and key != "role":
                plain = False
                break
        if not plain:
            if not MESSAGE.issuperset(delta):
                self._read_unknown(delta)
            self._read_reasoning(delta, out)
            if EXTRA_KEY in delta:
                if (extra := read_signed(delta)) is not None:
                    self.text.add_signature(OF_MESSAGE, extra)
                else:
                    record_unsigned(delta, _DELTA, self._context.losses)
            if delta.get("audio"):
                self.audio = True
                self._context.losses.add_once(LossCode.UNKNOWN_EVENT, "choices[0].delta.audio", AUDIO)
            legacy = delta.get("function_call")
        if content:
            if type(content) is list or type(content) is dict:
                self.text.add_parts(content, out)
            else:
                self.text.add("text", content, out)
            if self.tokens:
                self.add_logprobs(out)
        if plain:
            return
        if refusal := delta.get("refusal"):
            self.text.add("refusal", refusal, out)
        fragments = delta.get("tool_calls")
        if fragments or legacy:
            self._read_calls(fragments, legacy, out)
        if annotations := delta.get("annotations"):
            self._annotate(annotations, out)
        if images := delta.get("images"):
            self.text.add_images(images, out)

    def _read_unknown(self, delta: Json) -> None:
        """Record the unknown keys of a delta, and keep its `finish_reason`, whose place is in the choice."""
        known = MESSAGE
        if finish := delta.get("finish_reason"):
            self.record_repair(FINISH, (*_CHOICE, "finish_reason"))
            known |= {"finish_reason"}
            self.finish = finish
        record_unknown(delta, known, _DELTA, self._context.losses)

    def _read_reasoning(self, delta: Json, out: list[Event]) -> None:
        if text := plain_text(delta):
            self._plain = True
            self.text.add("reasoning", text, out)
        elif not (text := reasoning_text(delta)):
            record_unread(delta, _DELTA, self._context.losses)
        elif self._plain and self.text.kind == "reasoning" and is_signed(delta):  # LiteLLM
            self.record_repair("a signed detail repeated the text of its deltas", _DELTA)
        else:
            self.text.add("reasoning", text, out)
        if DETAILS_KEY in delta or "thinking_blocks" in delta:
            self.text.add_details(delta, out)

    def _read_calls(self, fragments: Any, legacy: Any, out: list[Event]) -> None:
        calls = self.calls
        if calls is None:
            if is_empty(fragments) and is_empty(legacy):
                return
            calls = self.calls = ToolCallAssembler(self._context, self.text, self.reply_id)
        if fragments:
            if type(fragments) is not list:
                fragments = calls_in(fragments, (*_DELTA, "tool_calls"), self._context.losses)
            if type(fragments) is not list:
                raise UpstreamProtocolError("upstream sent tool_calls that are not an array")
            for position, fragment in enumerate(fragments):
                if fragment:
                    calls.read(position, fragment, out)
        if not is_empty(legacy) and not fragments and _LEGACY_ONLY.issuperset(calls.calls):
            calls.read_legacy(legacy, out)
        elif not is_empty(legacy):  # the same call, for clients of either kind
            self.record_repair("a legacy function_call next to tool calls was left out", (*_DELTA, "function_call"))

    def add_logprobs(self, out: list[Event]) -> None:
        """Add the log probabilities of the last text, or of a part of a character whose text follows."""
        assert self.tokens is not None
        tokens, self.tokens = self.tokens, None
        if self.text.kind == "text":
            out.append(Logprobs(self.text.index, tokens))
        else:  # some servers send those of calls, refusals and reasoning too
            self._context.losses.add(
                LossCode.UNKNOWN_FIELD, "choices[0].logprobs.content", "sent for something other than text"
            )

    def _annotate(self, annotations: Any, out: list[Event]) -> None:
        for note in annotations if type(annotations) is list else (None,):
            if type(note) is dict and self.text.kind == "text":
                record_unknown_annotation(note, (*_DELTA, "annotations"), self._context.losses)
                citation = read_citation(note)
                if self.sources is not None and citation.url is not None:
                    self.sources[citation.url] = None
                out.append(Annotation(self.text.index, citation))
            else:
                self._context.losses.add(LossCode.CITATIONS, "choices[0].delta.annotations")

    def unsent(self, message: Any) -> Any:
        """Return what of a message in place of a delta no delta had. Some servers end a stream with all of it."""
        if type(message) is not dict:
            return None
        rest = {key: value for key, value in message.items() if not is_empty(value) and key != "role"}
        if self.text.blocks.count or self.text.kind is not None:
            for key in rest.keys() - {"content", "tool_calls"}:
                del rest[key]
        if self.text.shown:
            rest.pop("content", None)
        if self.calls is not None and self.calls.any_started():
            rest.pop("tool_calls", None)
        if rest:
            self.record_repair("a chunk had a message instead of a delta", _CHOICE)
        return rest or None

    def add_sources(self, chunk: Json) -> None:
        """Keep the sources that are listed next to the choices. Raises LimitExceeded."""
        sources = self.sources = self.sources or {}
        for source in read_sources(chunk, (), self._context.losses):
            assert source.url is not None
            if source.url not in sources:
                self.text.budget.take(len(source.url))
                sources[source.url] = source

    def are_calls_complete(self) -> bool:
        """True if the arguments of all calls are whole."""
        calls = self.calls.calls.values() if self.calls is not None else ()
        return all(call.is_complete() for call in calls if not call.is_blank())

    def cite_sources(self, out: list[Event]) -> None:
        """Add the sources next to the choices to the open text."""
        assert self.sources is not None
        for url, source in self.sources.items():
            if source is None:
                continue
            self.sources[url] = None
            if self.text.kind == "text":
                out.append(Annotation(self.text.index, source))
            else:
                self._context.losses.add_once(LossCode.CITATIONS, "citations", "there was no text to cite them")

    def close(self, out: list[Event], *, complete: bool, final: bool = True) -> None:
        """Close the open blocks, see `ToolCallAssembler.close`."""
        self.text.close(out, complete=complete)
        if self.calls is not None:
            self.calls.close(out, complete=complete, final=final)
        self.text.write_signatures(out)

    def is_open(self) -> bool:
        """True if there may be blocks to close: some continue after the finish."""
        return self.text.kind is not None or self.calls is not None or bool(self.text.signatures)

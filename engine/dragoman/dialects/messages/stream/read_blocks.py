"""The content blocks of an upstream Messages stream: their starts, deltas and ends.

The upstream's block indexes are mapped to canonical ones, and every delta must fit an open block. Unknown blocks are
dropped and recorded.
"""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.events import (
    Annotation,
    BlockEnd,
    BlockKind,
    BlockStart,
    Delta,
    Event,
    Opaque,
)
from dragoman.canonical.request import Json
from dragoman.dialects.errors.redact import quote_word
from dragoman.dialects.messages.block_types import OPAQUE_BLOCKS
from dragoman.dialects.messages.citations import known_citations, read_citation
from dragoman.dialects.messages.reply_fields import (
    DELTAS,
    TEXT_KEYS,
    record_unknown_block,
    record_unknown_citation,
)
from dragoman.dialects.messages.stop_and_usage import DIALECT
from dragoman.dialects.messages.stream.read_calls import CallReader
from dragoman.dialects.messages.stream.read_thinking import ThinkingReader
from dragoman.dialects.shared.block_index import BlockMap
from dragoman.dialects.shared.json_fields import count_of, is_empty, record_unknown
from dragoman.dialects.shared.stream_reader import ignore_run
from dragoman.dialects.shared.streamed_arguments import ReplyBudget
from dragoman.errors import Path, UpstreamProtocolError
from dragoman.losses import LossCode
from dragoman.reply_context import ReplyContext
from dragoman.wire.delta_template import RunCallback

_OPAQUE_BLOCKS = {**OPAQUE_BLOCKS, "redacted_thinking": LossCode.REASONING_ENCRYPTED}
INDEX: Final = "the index of a block was not an integer"
_DELTA_KEYS: Final = {key: kind for kind, key in TEXT_KEYS.items()}
_BLOCK_KEYS: Final = {"text": "text", "thinking": "thinking", "input": "tool_use"}
"""Key of a delta or a block → its type, where that is missing."""
_NO_KEYS: frozenset[str] = frozenset()
_DELTA_KIND: Final[dict[str, BlockKind]] = {
    "text_delta": "text",
    "thinking_delta": "reasoning",
    "input_json_delta": "tool",
}
_PROSE: Final[frozenset[BlockKind]] = frozenset(("text", "reasoning"))


class BlockReader:
    """Reads the blocks of one message. The upstream's block indexes are called keys here, canonical ones indexes."""

    __slots__ = ("_budget", "_context", "_first", "_ignored", "_last", "_thinking", "blocks", "calls", "shown")

    def __init__(self, context: ReplyContext) -> None:
        self._context = context
        self.blocks = BlockMap(context.limits)
        self.shown = False
        """True once there is anything else than reasoning."""
        self._last = -1
        """The upstream's index of the block that was started last, for servers that leave it out."""
        self._budget = ReplyBudget(context.limits)
        """Characters that may be kept until the end of the stream."""
        self.calls: CallReader | None = None
        """None before the first call."""
        self._thinking: ThinkingReader | None = None
        """None before the first thinking block."""
        self._first: dict[int, str] = {}
        """Texts of the starts of blocks, until it is known whether their deltas repeat them."""
        self._ignored: set[int] = set()
        """The upstream's indexes of blocks of unknown types."""

    def record_repair(self, done: str, at: Path | str = "content") -> None:
        """Record a fault that has only one possible meaning and was read so."""
        self._context.losses.add_once(LossCode.REPLY_REPAIRED, at, done)

    def follow(self, delta: Delta) -> RunCallback | None:
        """Return the callback for further deltas of the block of `delta`, see `StreamReader`."""
        for key, (index, kind) in self.blocks.open.items():
            if index == delta.index and type(key) is int:
                if kind == "tool":
                    calls = self.calls
                    return calls.arguments[key].add_all if calls is not None and calls.early.is_last(index) else None
                thinking = self._thinking
                return thinking.buffers[key].add_run if thinking is not None and key in thinking.buffers else ignore_run
        return None

    def summary(self) -> str:
        """Return the numbers of blocks and calls, for a `repr`."""
        calls = self.calls.all if self.calls is not None else ()
        return f"blocks={self.blocks.count} open={len(self.blocks.open)} calls={len(calls)}"

    # --- starts --------------------------------------------------------------------------------------------------

    def start(self, event: Json, message_id: str, out: list[Event]) -> None:
        """Read a `content_block_start` of the message with this id. Raises UpstreamProtocolError."""
        key, block = event.get("index"), event.get("content_block")
        if key is None:
            self.record_repair("a block had no index")
            key = self._last + 1
        elif type(key) is not int and (key := count_of(key)) is not None:
            self.record_repair(INDEX)
        if type(key) is not int or type(block) is not dict:
            raise UpstreamProtocolError(malformed("content_block_start"))
        self._last = key
        calls = self.calls
        if calls is not None:
            calls.end_pending(out)
            if key in calls.early.ended:
                raise UpstreamProtocolError(f"upstream started block {key} twice")
            calls.early.before_start(out)
        if key in self.blocks.open:
            self._end_replaced(key, out)
        kind = block.get("type")
        if kind is None and (kind := _type_of(block, _BLOCK_KEYS)) is not None:
            block = {**block, "type": kind}
            self.record_repair("a block had no type")
        record_unknown_block(block, ("content_block",), self._context)
        if kind == "text":
            self._open_prose(key, "text", block.get("text"), out)
            index = self.blocks.open[key][0]
            if citations := block.get("citations"):
                self._cite(index, citations, ("content_block", "citations"), out)
        elif kind == "thinking":
            self._open_prose(key, "reasoning", block.get("thinking"), out)
            if self._thinking is None:
                self._thinking = ThinkingReader(self._budget, self._context)
            self._thinking.start(key, self.blocks.open[key][0], block, out)
        elif kind == "tool_use":
            if calls is None:
                calls = self.calls = CallReader(self.blocks, self._budget, self._context)
            calls.start(key, block, message_id, out)
            self.shown = True
        elif type(kind) is str and kind in _OPAQUE_BLOCKS:
            index = self.blocks.start(key, "opaque")
            out.append(BlockStart(index, "opaque", name=kind, code=_OPAQUE_BLOCKS[kind]))
            out.append(Opaque(index, DIALECT, "block", block))
            self.shown = True
        else:
            self._ignored.add(key)
            self._context.losses.add(LossCode.UNKNOWN_EVENT, f"content_block {quote_word(str(kind))}")

    def _end_replaced(self, key: int, out: list[Event]) -> None:
        """End a text or reasoning in whose place another block starts (Ollama; ollama/ollama#17101)."""
        if self.blocks.open[key][1] in _PROSE:
            self.record_repair("a block started in the place of an open one")
            self._flush(key, out)
            out.append(BlockEnd(self.blocks.end(key)))

    def _open_prose(self, key: int, kind: BlockKind, text: Any, out: list[Event]) -> None:
        index = self.blocks.start(key, kind)
        out.append(BlockStart(index, kind))
        if text and type(text) is str:
            if kind == "text":
                self._budget.take(len(text))
                self._first[key] = text
            else:
                out.append(Delta(index, text))

    def _write_first(self, key: int, index: int, text: str, out: list[Event]) -> None:
        """Emit the text of a block's start, unless `text`, which follows it, repeats it (MiniMax; cline/cline#9215)."""
        first = self._first.pop(key, "")
        if not first:
            return
        if text.startswith(first):
            self.record_repair("a delta repeated the text of its block's start")
            return
        self.shown = True
        out.append(Delta(index, first))

    def _change_kind(self, key: int, kind: BlockKind, out: list[Event]) -> None:
        """Go on with a block of the kind that a delta has, in place of the open one."""
        self.record_repair("a block had deltas of another kind")
        self._flush(key, out)
        out.append(BlockEnd(self.blocks.end(key)))
        self._open_prose(key, kind, None, out)
        if kind == "reasoning":
            if self._thinking is None:
                self._thinking = ThinkingReader(self._budget, self._context)
            self._thinking.start(key, self.blocks.open[key][0], {"type": "thinking"}, out)

    # --- deltas --------------------------------------------------------------------------------------------------

    def delta(self, event: Json, out: list[Event]) -> None:
        """Read a `content_block_delta`. Raises UpstreamProtocolError."""
        key = event.get("index")
        delta = event.get("delta")
        if type(key) is not int:
            key = self._last_index(key, "content_block_delta")
        entry = self.blocks.open.get(key)
        if not delta:
            return
        if entry is None:
            if key in self._ignored or _is_empty(delta) or (self.calls is not None and self.calls.is_late(key, delta)):
                return
            raise UpstreamProtocolError(f"upstream continued block {key}, which is not open")
        if type(delta) is not dict:
            raise UpstreamProtocolError(malformed("content_block_delta"))
        kind, form = entry[1], delta.get("type")
        if type(form) is not str or form not in DELTAS:
            meant = _type_of(delta, _DELTA_KEYS)
            if meant is not None and (type(form) is not str or _DELTA_KIND[meant] == kind):
                delta, form = {**delta, "type": meant}, meant
                self.record_repair("a delta had no type, or one of the server's own")
        if kind != "opaque" and (known := DELTAS.get(str(form), _NO_KEYS)) and not known.issuperset(delta):
            record_unknown(delta, known, ("delta",), self._context.losses)
        if type(form) is str and form in _DELTA_KIND and kind != "opaque":
            self._text_delta(key, form, delta, out)
        else:
            self._other_delta(key, form, delta, out)

    def _text_delta(self, key: int, form: str, delta: Json, out: list[Event]) -> None:
        """Read a delta with a text: of prose, of reasoning, or of a call's arguments."""
        index, kind = self.blocks.open[key]
        text = delta.get(TEXT_KEYS[form])
        if _DELTA_KIND[form] != kind or type(text) is not str:
            if _is_empty(delta) and (text is not None or kind != "tool"):
                return
            if type(text) is str and kind in _PROSE and (meant := _DELTA_KIND[form]) in _PROSE:
                self._change_kind(key, meant, out)
                index, kind = self.blocks.open[key]
            else:
                text = self._repair_fragment(form, kind, text)
        if key in self._first and text:
            self._write_first(key, index, text, out)
        calls = self.calls if kind == "tool" else None
        if calls is not None:
            text = calls.arguments[key].pass_on(text)
        elif kind == "reasoning" and (thinking := self._thinking) is not None and key in thinking.buffers:
            thinking.buffers[key].add_text(text)
        if text:
            out.append(Delta(index, text))
            if kind == "text":
                self.shown = True
        if calls is not None:
            calls.early.after_delta(key, out)

    def _other_delta(self, key: int, form: Any, delta: Json, out: list[Event]) -> None:
        """Read a delta with a signature or a citation, or of an opaque or unknown kind."""
        index, kind = self.blocks.open[key]
        if form == "signature_delta" and kind == "reasoning" and self._thinking is not None:
            self._thinking.sign(key, index, delta.get("signature"), out)
        elif form == "citations_delta" and kind == "text":
            if citation := delta.get("citation"):
                self._cite(index, [citation], ("delta", "citation"), out)
        elif kind == "opaque":
            out.append(Opaque(index, DIALECT, "delta", delta))
        elif _is_empty(delta):
            return
        elif form in ("signature_delta", "citations_delta"):
            raise UpstreamProtocolError(f"upstream sent {form} in a {kind} block")
        else:
            self._context.losses.add(LossCode.UNKNOWN_EVENT, quote_word(str(form)))

    def _cite(self, index: int, citations: Any, at: Path, out: list[Event]) -> None:
        for citation in known_citations(citations, at, self._context.losses):
            record_unknown_citation(citation, at, self._context)
            out.append(Annotation(index, read_citation(citation)))

    def _last_index(self, key: Any, what: str) -> int:
        """Return the index of an event in which it is no integer, or missing: then it is that of the last block.

        `what` is the event's name.
        """
        if key is not None:
            if (count := count_of(key)) is None:
                raise UpstreamProtocolError(malformed(what))
            return count
        self.record_repair("a block had no index")
        return self._last

    def _repair_fragment(self, form: str, kind: BlockKind, text: Any) -> str:
        """Return the text of a fragment that is not a string, if there is only one possible meaning."""
        fits = _DELTA_KIND[form] == kind == "tool" and (text is None or type(text) is dict)
        if fits and self.calls is not None:
            return self.calls.repair_fragment(text)
        raise UpstreamProtocolError(f"upstream sent {form} in a {kind} block")

    # --- ends ----------------------------------------------------------------------------------------------------

    def stop(self, event: Json, out: list[Event]) -> None:
        """Read a `content_block_stop`."""
        key = event.get("index")
        if type(key) is not int:
            key = self._last_index(key, "content_block_stop")
        if key in self._ignored:
            self._ignored.discard(key)
            return
        calls = self.calls
        if calls is not None and key in calls.early.ended:
            del calls.early.ended[key]
            return
        entry = self.blocks.open.get(key)
        if entry is None:
            self.record_repair("a block ended that was not open")
            return
        self._flush(key, out)
        index = self.blocks.end(key)
        if calls is not None and entry[1] == "tool":
            calls.end(key, index, out, last=key == self._last)
        else:
            out.append(BlockEnd(index))

    def end_all(self, out: list[Event], *, complete: bool) -> None:
        """End the blocks that are open at the stop reason; `complete` is False if the reply was cut.

        Raises UpstreamProtocolError for invalid arguments in a complete reply.
        """
        calls = self.calls
        if calls is None and not self.blocks.open:
            return
        still_open = list(self.blocks.open)
        for key in still_open:
            self._flush(key, out)
        if calls is not None:
            if complete:
                for arguments in calls.all:
                    arguments.check()
            calls.end_pending(out, complete=complete)
        if still_open or (calls is not None and calls.early.ended):
            self.record_repair("a block ended without content_block_stop")
            out.extend(BlockEnd(self.blocks.end(key), complete) for key in still_open)

    def _flush(self, key: Any, out: list[Event]) -> None:
        """Emit whatever a block holds back until its end."""
        entry = self.blocks.open.get(key)
        if entry is None:
            return
        self._write_first(key, entry[0], "", out)
        if entry[1] == "reasoning" and self._thinking is not None:
            self._thinking.flush(key, entry[0], out)
        elif entry[1] == "tool" and self.calls is not None:
            self.calls.flush(key, entry[0], out)


def malformed(what: str) -> str:
    """Return the message for an event or a member of another type than it must have."""
    return f"upstream sent a malformed {what}"


def _type_of(value: Json, keys: dict[str, str]) -> str | None:
    """Return the type of a block or delta that has none, by the only key that shows it; None if no key does."""
    found = [kind for key, kind in keys.items() if key in value]
    return found[0] if len(found) == 1 else None


def _is_empty(delta: Any) -> bool:
    """True for a delta that has nothing but its type."""
    return type(delta) is dict and is_empty({**delta, "type": None})

"""Checks the Messages streams that Dragoman writes against the dialect's grammar (messages §8, §8.1, §9).

The rules are those that the official SDKs depend on: event names equal the types; one `message_start`; blocks start
empty, with indexes that count up from 0; deltas match the kind of their block, which is open; one `message_delta` with
the stop reason; `message_stop` or `error` is last. This module shares no code with the writer, so that a fault of the
writer is found.
"""

from __future__ import annotations

import re
from typing import Final

from dragoman.canonical.request import Json
from dragoman.dialects.messages.stream.usual_frames import END, START
from dragoman.reply_context import ReplyContext
from dragoman.stages.output_validator import (
    NO_CHANGE,
    GrammarError,
    SoleText,
    Template,
    Validator,
    counted,
    member,
    payload_of,
)

_REASONS: Final = frozenset(
    (
        "end_turn",
        "max_tokens",
        "stop_sequence",
        "tool_use",
        "pause_turn",
        "refusal",
        "model_context_window_exceeded",
        "compaction",
    )
)
_EMPTY: Final = {"text": ("text",), "thinking": ("thinking", "signature"), "tool_use": ("input",)}
"""Type of block → its fields that are present and empty at its start."""
_OWNERS: Final = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("tool_use", "partial_json"),
    "signature_delta": ("thinking", "signature"),
    "citations_delta": ("text", "citation"),
}
"""Type of delta → the type of block that it belongs to, and the field that holds its content."""
_KNOWN_BLOCKS: Final = frozenset((*_EMPTY, "redacted_thinking"))
_SIGNED: Final = "signed"
"""The type of a thinking block after its signature, which is its last delta."""


_REPEATED: Final = frozenset(("content_block_start", "content_block_stop", "message_stop"))
"""Events that are the same bytes in most streams."""
_REPEATED_MAX: Final = 120
"""Longest payload of an event that is remembered, in bytes."""
_KNOWN_EVENTS: Final[dict[bytes, tuple[str, int, str]]] = {}
"""Payload of a valid event → its name, index and type of block. Other streams then skip parsing it."""
_KNOWN_EVENTS_MAX: Final = 128
_TEXT_TEMPLATES: Final[dict[tuple[int, str], Template]] = {}
"""Index and type of a block → the template of its deltas. Only for the first hundred blocks of a stream."""
_BLOCK_STOP: Final = b"event: content_block_stop\n"
_INDEX: Final = re.compile(rb'event: content_block_delta\ndata: \{"type":"content_block_delta","index":(\d+),')


class MessagesValidator(Validator):
    """Encodes the frames of one Messages stream and checks them against the grammar.

    `GrammarError`s are reported by the base class; the stream continues unchanged.
    """

    __slots__ = ("_calls", "_count", "_open", "_reason", "_started")

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._started = False
        self._count = 0
        self._open: dict[int, str] = {}
        """Index → type of the open blocks."""
        self._calls: list[str] = []
        """The ids of all calls."""
        self._reason: str | None = None
        """The stop reason, once `message_delta` was written."""

    def read(self, name: str, payload: bytes) -> SoleText | None:
        """Check one event. Raises GrammarError.

        Returns the text of a delta, `NO_CHANGE` for an event that changes no state, else None.
        """
        known = _KNOWN_EVENTS.get(payload)
        if known is None or known[0] != name or not self._started:
            sole_text = self._event(name, payload_of(payload))
            if name in _REPEATED and len(payload) <= _REPEATED_MAX and len(_KNOWN_EVENTS) < _KNOWN_EVENTS_MAX:
                _remember_event(name, payload)
            return sole_text
        if name == "content_block_stop":
            self._close(known[1])
        elif name == "content_block_start":
            self._open_block(known[1], known[2])
        else:
            self._stop()
        return None

    def take_usual(self, data: bytes) -> int:
        """See `Validator.take_usual`."""
        if not self._started:
            match = START.match(data)
            if match is None:
                return 0
            self._started = True
            self.position += 1
            if match.lastindex:
                self.position += 1
                block = 0, "text" if match.lastindex == 1 else "thinking"
                self._open_block(*block)
                if (known := _TEXT_TEMPLATES.get(block)) is not None:
                    self.add_template(known)
            return match.end()
        match = END.match(data)
        if match is None or not self._may_end(match[1], match[2]):
            return 0
        self._open.clear()
        self._reason = match[2].decode()
        self.position += 2 if match[1] is None else 3
        self.ended = True
        self.drop_template()
        return match.end()

    def texts_end(self, data: bytes, start: int) -> int:
        """See `Validator.texts_end`."""
        at = data.find(_BLOCK_STOP, start)
        return at if at >= 0 else len(data)

    def _may_end(self, index: bytes | None, reason: bytes) -> bool:
        """True if the stream may end now, with the stop of this block before it if there is one."""
        if self._reason is not None or len(self._open) != (index is not None):
            return False
        if index is not None and int(index) not in self._open:
            return False
        return reason == b"max_tokens" or (reason == b"tool_use") is bool(self._calls)

    def restore_templates(self, name: str) -> None:
        """Offer the templates that earlier streams set for the open blocks."""
        for block in self._open.items():
            if (known := _TEXT_TEMPLATES.get(block)) is not None:
                self.add_template(known)

    def set_template(self, low: bytes, tail: bytes, size: int) -> None:
        """Set the template of the next delta, also for later streams."""
        super().set_template(low, tail, size)
        found = _INDEX.match(low)
        if found is not None and len(found[1]) < 3:
            index = int(found[1])
            _TEXT_TEMPLATES[index, self._open[index]] = self._known[-1]

    def _event(self, name: str, payload: Json) -> SoleText | None:
        if not name or payload.get("type") != name:
            raise GrammarError("an event whose name is not its type: the SDK does not see it")
        if name == "content_block_delta":
            return self._delta(payload)
        if name == "ping":
            return NO_CHANGE
        if name == "error":
            error = member(payload, "error", dict)
            if not member(error, "type", str) or not member(error, "message", str):
                raise GrammarError("an error without a type or a message")
            self.ended = True
        elif name == "message_start":
            self._start(member(payload, "message", dict))
        elif not self._started:
            raise GrammarError("an event before message_start")
        elif name == "content_block_start":
            self._block(payload)
        elif name == "content_block_stop":
            self._close(member(payload, "index", int))
        elif name == "message_delta":
            self._finish(payload)
        elif name == "message_stop":
            self._stop()
        else:
            raise GrammarError("an event that is not of the dialect")
        return None

    def _start(self, message: Json) -> None:
        if self._started:
            raise GrammarError("message_start twice (T-13)")
        self._started = True
        message_id, model = message.get("id"), message.get("model")
        if type(message_id) is not str or not message_id or type(model) is not str:
            raise GrammarError("message_start without an id or a model")
        if message.get("type") != "message" or message.get("role") != "assistant":
            raise GrammarError("message_start without a message of the assistant's")
        if message.get("content") != [] or message.get("stop_reason") is not None:
            raise GrammarError("message_start that has content or stops already")
        counted(message.get("usage"), "input_tokens", "output_tokens")

    def _block(self, payload: Json) -> None:
        index = member(payload, "index", int)
        block = member(payload, "content_block", dict)
        kind = member(block, "type", str)
        for key in _EMPTY.get(kind, ()):
            if block.get(key):
                raise GrammarError("a block that starts with content: clients lose it")
            if key not in block:
                raise GrammarError("a block that starts without its own fields")
        if kind == "tool_use":
            call_id = member(block, "id", str)
            if not call_id or not member(block, "name", str):
                raise GrammarError("a call without id or name")
            if call_id in self._calls:
                raise GrammarError("a call id twice")
            self._calls.append(call_id)
        self._open_block(index, kind)

    def _open_block(self, index: int, kind: str) -> None:
        if self._reason is not None:
            raise GrammarError("a block after message_delta")
        if index != self._count:
            raise GrammarError("a block whose index is not the next")
        if self._open and self.context.knobs.block_order != "interleave":
            raise GrammarError("two blocks open at a time, although block_order forbids it")
        self._count = index + 1
        self._open[index] = kind

    def _close(self, index: int) -> None:
        if self._open.pop(index, None) is None:
            raise GrammarError("a stop of a block that is not open (T-02)")

    def _stop(self) -> None:
        if self._reason is None:
            raise GrammarError("message_stop without message_delta")
        self.ended = True

    def _delta(self, payload: Json) -> SoleText | None:
        index, delta = member(payload, "index", int), member(payload, "delta", dict)
        block = self._open.get(index)
        if block is None:
            raise GrammarError("a delta of a block that is not open (T-02)")
        kind = member(delta, "type", str)
        if block not in _KNOWN_BLOCKS:
            if block == _SIGNED:
                raise GrammarError("a delta after the signature, which comes last")
            return NO_CHANGE
        owner, key = _OWNERS.get(kind, ("", ""))
        if owner != block:
            raise GrammarError("a delta of another kind than its block (T-12)")
        text = member(delta, key, dict if key == "citation" else str)
        if key == "signature":
            self._open[index] = _SIGNED
            return None
        return SoleText(key.encode(), text) if type(text) is str else NO_CHANGE

    def _finish(self, payload: Json) -> None:
        if self._open:
            raise GrammarError("message_delta while a block is open")
        if self._reason is not None:
            raise GrammarError("message_delta twice")
        delta = member(payload, "delta", dict)
        reason, sequence = delta.get("stop_reason"), delta.get("stop_sequence")
        if reason not in _REASONS:
            raise GrammarError("a stop_reason that the dialect does not have")
        if sequence is not None and (type(sequence) is not str or reason != "stop_sequence"):
            raise GrammarError("a stop_sequence with another reason")
        if reason == "tool_use" and not self._calls:
            raise GrammarError("stop_reason tool_use without a call")
        if reason in ("end_turn", "stop_sequence") and self._calls:
            raise GrammarError("calls, but not stop_reason tool_use")
        if (details := delta.get("stop_details")) is not None and (
            type(details) is not dict or details.get("type") != "refusal" or reason != "refusal"
        ):
            raise GrammarError("details of a refusal with another reason")
        counted(payload.get("usage"), "output_tokens")
        self._reason = reason


def _remember_event(name: str, payload: bytes) -> None:
    """Remember a valid event, unless it holds anything of its stream, such as a call id."""
    event = payload_of(payload)
    kind = event["content_block"]["type"] if name == "content_block_start" else ""
    if kind in ("", "text", "thinking"):
        _KNOWN_EVENTS[payload] = name, event.get("index", 0), kind

"""The grammar of a Responses stream that was written (responses §7, §8, §8.3, §9).

The rules are those of the SDK's state machine and of agents: sequence numbers without a gap, items and parts announced
before their deltas and done before the end, ids that do not change, and one last snapshot with the finished items.

The bytes before and after a delta's text are learned once per process for each kind of text; only the item's own fields
differ between streams.
"""

from __future__ import annotations

from typing import Final

from dragoman.canonical.request import Json
from dragoman.dialects.responses.stream.usual_frames import ENDED_TEXT, STARTED_TEXT, ended_text, started_text
from dragoman.dialects.responses.stream.validate_items import CALLS, HOMES, ValidatedItem, ValidatedPart
from dragoman.dialects.responses.stream.validate_snapshots import ValidatedSnapshots, check_end
from dragoman.reply_context import ReplyContext
from dragoman.stages.output_validator import (
    NO_CHANGE,
    GrammarError,
    SoleText,
    Template,
    Validator,
    is_text,
    member,
    payload_of,
)
from dragoman.wire.json_codec import dump_str
from dragoman.wire.sse import COMMENT, LF, FrameBatch

_BEGINNINGS: Final = frozenset(("response.created", "response.in_progress", "response.queued"))
_TERMINALS: Final = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
}
_SNAPSHOT_EVENTS: Final = _BEGINNINGS.union(_TERMINALS)
_DELTAS: Final = {
    "response.output_text.delta": "output_text",
    "response.refusal.delta": "refusal",
    "response.reasoning_text.delta": "reasoning_text",
    "response.reasoning_summary_text.delta": "summary_text",
    "response.function_call_arguments.delta": "function_call",
    "response.custom_tool_call_input.delta": "custom_tool_call",
}
_DONE: Final = {name.removesuffix("delta") + "done": kind for name, kind in _DELTAS.items()}
_COMPLETED: Final = b'event: response.completed\ndata: {"type":"response.completed","sequence_number":%d,'
_NUMBER: Final = b'"sequence_number":%d,'
_TEXT_DONE: Final = b"event: response.output_text.done\n"
_NEVER: Final = b"\n%d"
"""A prefix that no frame has."""
_TEMPLATES: Final[dict[str, tuple[bytes, bytes, bytes]]] = {}
"""Kind of text → the bytes of its deltas before the item's own fields, after them, and after the text."""


class ResponsesValidator(Validator):
    """Encodes the frames of a Responses stream and checks them against the dialect's grammar."""

    __slots__ = ("_items", "_next", "_prefix", "_snapshots")

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._next = 0
        self._snapshots = ValidatedSnapshots()
        self._items: list[ValidatedItem] = []
        self._prefix = _NEVER
        """The bytes before the text in deltas of the current item, to be formatted with the sequence number."""

    # --- templates: their prefix contains the sequence number ---------------------------------------------------------

    def feed(self, frames: FrameBatch, /) -> bytes:
        """Returns the bytes of all frames, unchanged."""
        if type(frames) is bytes and len(frames) < self._most and frames.startswith(self._prefix % self._next):
            self._next += 1
            return frames
        return super().feed(frames)

    def texts_end(self, data: bytes, start: int) -> int:
        """See `Validator.texts_end`."""
        at = data.find(_TEXT_DONE, start)
        return at if at >= 0 else len(data)

    def matches_template(self, data: bytes) -> bool:
        """True if these are the next deltas of one item, with the bytes of a checked one around their texts."""
        number = self._next
        low = self._prefix % number
        if not data.startswith(low):
            for known in self._known:
                low = known.low % number
                if data.startswith(low):
                    self._prefix, self._tail = known.low, known.tail
                    self._most = 0
                    break
            else:
                return False
        tail = self._tail
        if not data.endswith(tail):
            return False
        frames, odd = divmod(data.count(b"\n"), 3)
        if odd:
            return False
        if frames == 1:
            if not is_text(data, len(low), len(tail)):
                return False
            if len(data) < 2 * (len(low) + len(tail)):
                self._most = len(data) + 1
        elif (
            data.count(self._prefix.partition(_NUMBER)[0]) != frames  # there are no other frames between them
            or not data.startswith(self._prefix % (number + frames - 1), data.rfind(b"\n\n", 0, -2) + 2)
        ):
            return False
        self._next = number + frames
        return True

    def set_template(self, low: bytes, tail: bytes, size: int) -> None:
        """Learn the bytes around a delta's text: the next delta may have the same ones, except for the number."""
        before, found, after = low.replace(b"%", b"%%").partition(_NUMBER % (self._next - 1))
        if not found:
            return
        prefix = before + _NUMBER + after
        self._prefix, self._tail, self._most = prefix, tail, size + 1
        self.add_template(Template(prefix, b"", tail))
        for index, item in enumerate(self._items):
            head, found, tail_fields = prefix.partition(_place(index, item))
            if found:
                _TEMPLATES[_kind(item)] = head, tail_fields, tail

    def restore_templates(self, name: str) -> None:
        """Build the template of a new item from one of an earlier stream, with this item's own fields."""
        if (
            name.endswith(".added")
            and self._items
            and (item := self._items[-1]).done is None
            and len(item.parts) < 2
            and (known := _TEMPLATES.get(_kind(item))) is not None
        ):
            self._restore(known, _place(len(self._items) - 1, item))

    def _restore(self, known: tuple[bytes, bytes, bytes], place: bytes) -> None:
        """Set the template of a new item, whose own fields are `place`."""
        self._prefix, self._tail = known[0] + place + known[1], known[2]
        self.add_template(Template(self._prefix, b"", self._tail))

    def drop_template(self) -> None:
        """Forget the templates: the deltas they match may be invalid from here on."""
        self._prefix, self._tail, self._known = _NEVER, b"", ()
        self._most = 0

    # --- events --------------------------------------------------------------------------------------------------

    def read(self, name: str, payload: bytes) -> SoleText | None:
        """Check one event. Returns its text if it is nothing but a delta."""
        if name in _SNAPSHOT_EVENTS:
            self._snapshot(name, payload)
            return None
        event = self._event(name, payload)
        kind = _DELTAS.get(name)
        if kind is not None:
            return self._delta(event, kind)
        kind = _DONE.get(name)
        if kind is not None:
            self._text_done(event, kind)
        elif name == "response.output_item.added":
            self._item_added(event)
        elif name == "response.output_item.done":
            self._open_item(event).finish(member(event, "item", dict), _item_of(payload))
        elif name in ("response.content_part.added", "response.reasoning_summary_part.added"):
            self._part_added(event)
        elif name in ("response.content_part.done", "response.reasoning_summary_part.done"):
            self._part_done(event)
        elif name == "keepalive":
            return NO_CHANGE
        elif name == "response.output_text.annotation.added":
            part = self._open_part(event, "output_text")
            member(event, "annotation", dict)
            if member(event, "annotation_index", int) != part.annotations:
                raise GrammarError("an annotation_index that is not the next")
            part.annotations += 1
        else:
            raise GrammarError("an event that is not of the dialect")
        return None

    def _event(self, name: str, payload: bytes) -> Json:
        event = payload_of(payload)
        if not name or event.get("type") != name:
            raise GrammarError("an event whose name is not its type")
        if event.get("sequence_number") != self._next:
            raise GrammarError("a sequence_number that is not the next")
        self._next += 1
        if event.get("error"):
            raise GrammarError("an error at the top level: the SDK raises, and agents do not see the reason")
        if self._snapshots.identity is None and name != "response.created":
            raise GrammarError("an event before response.created")
        return event

    # --- frames of a usual form --------------------------------------------------------------------------------------

    def take_usual(self, data: bytes) -> int:
        """See `Validator.take_usual`."""
        items = self._items
        if items and items[-1].open_text():
            return self._usual_text_end(data, items[-1])
        at = 0
        if self._snapshots.identity is None:
            at = self._snapshots.usual_start(data)
            if not at:
                return 0
            self._next += 2
            self.position += 2
        index = len(items)
        started = started_text(data, at, self._next, index)
        if started is None:
            return at
        literal, at_end = started
        item_id = literal.decode()
        if items and any(other.id == item_id for other in items):
            return at
        items.append(ValidatedItem.text(item_id))
        self._next += STARTED_TEXT
        self.position += STARTED_TEXT
        if self._known:
            self.drop_template()
        if (known := _TEMPLATES.get("output_text")) is not None:
            self._restore(known, b'"item_id":"%b","output_index":%d,' % (literal, index))
        # An upstream's keep-alive often comes before the first text.
        return at_end + len(COMMENT) if data.startswith(COMMENT, at_end) else at_end

    def _usual_text_end(self, data: bytes, item: ValidatedItem) -> int:
        """Take the last frames of a text item, and `response.completed` if `data` ends with it. Returns their size."""
        items, number = self._items, self._next
        ended = ended_text(data, number, len(items) - 1, item.id.encode("utf-8", "surrogatepass"))
        if ended is None:
            return 0
        encoded, at = ended
        item.close(encoded)
        number += ENDED_TEXT
        self._next = number
        self.position += ENDED_TEXT
        self.drop_template()
        head, end = _COMPLETED % number, len(data) - 2
        if not data.startswith(head, at):
            return at
        at_snapshot = at + len(head)
        if data.find(b"\n", at_snapshot) != end or data[-1] != LF:
            return at
        try:
            if not self._snapshots.is_expected_end(data, at_snapshot, end, items):
                return at
        except (GrammarError, LookupError):
            return at  # the frame is checked by itself, which reports it
        self._next = number + 1
        self.position += 1
        self.ended = True
        return len(data)

    # --- the response ------------------------------------------------------------------------------------------------

    def _snapshot(self, name: str, payload: bytes) -> None:
        """Check an event that consists of a snapshot."""
        head = b'{"type":"%b","sequence_number":%d,' % (name.encode(), self._next)
        snapshots, items = self._snapshots, self._items
        if payload.startswith(head):
            at = len(head)
            first = name == "response.created" and snapshots.identity is None
            again = name == "response.in_progress" and snapshots.identity is not None and not items
            if (first or again) and snapshots.is_known_start(payload, at, len(payload)):
                self._next += 1
                return
            if name == "response.completed" and snapshots.is_expected_end(payload, at, len(payload), items):
                self._next += 1
                self.ended = True
                return
        else:
            at = 0
        snapshot = snapshots.read(self._event(name, payload), payload, at)
        if name in _TERMINALS:
            check_end(_TERMINALS[name], snapshot, items)
            self.ended = True
        elif items or snapshot["status"] not in ("in_progress", "queued"):
            raise GrammarError("a beginning after the first item, or with another status")

    # --- items and parts ---------------------------------------------------------------------------------------------

    def _item_added(self, event: Json) -> None:
        if member(event, "output_index", int) != len(self._items):
            raise GrammarError("an output_index that is not the next")
        item = ValidatedItem.announced(member(event, "item", dict))
        for other in self._items:
            if other.id == item.id or (item.call_id is not None and other.call_id == item.call_id):
                raise GrammarError("an item id or a call_id twice")
        self._items.append(item)

    def _open_item(self, event: Json) -> ValidatedItem:
        index = event.get("output_index")
        if type(index) is not int or not 0 <= index < len(self._items) or self._items[index].done is not None:
            raise GrammarError("an event of an item that is not open")
        return self._items[index]

    def _addressed_item(self, event: Json) -> ValidatedItem:
        item = self._open_item(event)
        if event.get("item_id") != item.id:
            raise GrammarError("an item_id that is not its item's")
        return item

    def _open_call(self, event: Json, kind: str) -> ValidatedItem:
        item = self._addressed_item(event)
        if item.type != kind:
            raise GrammarError("arguments of an item of another type")
        if item.arguments is not None:
            raise GrammarError("more arguments after their end")
        return item

    def _open_part(self, event: Json, kind: str) -> ValidatedPart:
        parts = self._addressed_item(event).parts
        index = event.get("summary_index" if kind == "summary_text" else "content_index")
        if type(index) is not int or not 0 <= index < len(parts):
            raise GrammarError("a part that was not announced: the SDK raises")
        part = parts[index]
        if part.kind != kind or part.done:
            raise GrammarError("an event of a part of another kind, or of a closed one")
        return part

    def _part_added(self, event: Json) -> None:
        raw = member(event, "part", dict)
        kind = member(raw, "type", str)
        home, key = HOMES.get(kind, ("", ""))
        item = self._addressed_item(event)
        if item.type != home:
            raise GrammarError("a part that its item cannot have")
        place = "summary_index" if kind == "summary_text" else "content_index"
        if member(event, place, int) != len(item.parts) or raw.get(key) != "" or raw.get("annotations"):
            raise GrammarError("a part that is not the next, or starts with content")
        item.add_part(kind)

    def _part_done(self, event: Json) -> None:
        raw = member(event, "part", dict)
        part = self._open_part(event, str(raw.get("type")))
        if part.text is None:
            raise GrammarError("a part done before its text")
        part.check_repeated(raw)
        part.done = True

    def _delta(self, event: Json, kind: str) -> SoleText | None:
        text = member(event, "delta", str)
        if kind in CALLS:
            self._open_call(event, kind)
        elif self._open_part(event, kind).text is not None:
            raise GrammarError("a delta after its end")
        return NO_CHANGE if event.get("logprobs") else SoleText(b"delta", text)

    def _text_done(self, event: Json, kind: str) -> None:
        """Check the `.done` event of a text or of arguments."""
        if kind in CALLS:
            item = self._open_call(event, kind)
            if kind == "function_call" and event.get("name") != item.name:
                raise GrammarError("arguments done under another name")
            item.arguments = hash(member(event, CALLS[kind], str))
            return
        part = self._open_part(event, kind)
        if part.text is not None:
            raise GrammarError("a text done twice")
        part.text = hash(member(event, HOMES[kind][1], str))


def _item_of(payload: bytes) -> bytes:
    """Returns the item's JSON in an `output_item.done` in the writer's format, else nothing."""
    at = payload.find(b',"item":{') if payload.startswith(b'{"type":"response.output_item.done","seq') else -1
    return payload[at + 8 : -1] if at > 0 else b""


def _place(index: int, item: ValidatedItem) -> bytes:
    """Returns the fields that identify the item in its events, in the writer's format."""
    return b'"item_id":%b,"output_index":%d,' % (dump_str(item.id).replace(b"%", b"%%"), index)


def _kind(item: ValidatedItem) -> str:
    return item.parts[-1].kind if item.parts else item.type

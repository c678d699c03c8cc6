"""The grammar of a Responses stream (responses §7, §8, §8.3, §9).

The rules are those of the SDK's state machine and of agents: sequence numbers without a gap, items and parts announced
before their deltas and done before the end, ids that do not change, and one last snapshot with the finished items.
Texts and items are compared by digests, so a long stream takes little memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dragoman.stages.grammar.checker import LIMIT, Grammar
from dragoman.stages.grammar.responses_items import Item, Part
from dragoman.stages.grammar.responses_values import PART_OF, check_end, check_logprobs, check_response
from dragoman.stages.grammar.values import (
    GrammarError,
    Json,
    an_object,
    count,
    digest,
    key_set,
    members,
    parse_object,
    require,
    string,
)

_BEGINNINGS: Final = key_set("response.created", "response.in_progress", "response.queued")
_TERMINALS: Final = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
}
_CHANGING: Final = key_set(
    "status", "output", "usage", "error", "incomplete_details", "completed_at", "moderation", "service_tier"
)
"""Keys that differ between the snapshots of one response. All others repeat the request. The tier is the one that
serves, which an upstream may state at the end only."""
_SNAPSHOT: Final = key_set("type", "sequence_number", "response")
_ITEM: Final = key_set("type", "sequence_number", "output_index", "item")
_AT: Final = key_set("type", "sequence_number", "item_id", "output_index")
_OBFUSCATION: Final = key_set("obfuscation")
_ITEM_SIZE: Final = 2048
_PART_SIZE: Final = 1024
_ANNOTATION_SIZE: Final = 64
"""Bytes that an item, a part and an annotation take, apart from their ids and names."""


class ResponsesGrammar(Grammar):
    """The grammar of one Responses stream. `own` is True for one of Dragoman, whose snapshots have every key."""

    def __init__(self, *, own: bool = True, limit: int = LIMIT) -> None:
        super().__init__(limit)
        self._own = own
        self._next = 0
        self._echo: bytes | None = None
        """A digest of the keys of the first snapshot that do not change, except for `store`."""
        self._store: Any = None
        self._items: list[Item] = []
        self._ids: set[str] = set()
        self._call_ids: set[str] = set()

    def read(self, event: str, data: str | None) -> None:
        """Read one event or comment."""
        if data is None:
            return
        payload = parse_object(data)
        name = payload.get("type")
        require(event and event == name, "an event whose name is not its type")
        number = payload.get("sequence_number")
        if event == "keepalive" and type(number) is int and number == max(self._next - 1, 0):
            return  # the number of the last event: a forwarded stream leaves no room for another one
        require(type(number) is int and number == self._next, "a sequence_number that is not the next")
        self._next += 1
        if event == "keepalive":
            return
        require("error" not in payload, "an error at the top level: the SDK raises, and agents do not see the reason")
        require(self._echo is not None or event == "response.created", "an event before response.created")
        if event in _BEGINNINGS:
            self._begin(event, self._snapshot(payload))
        elif event in _TERMINALS:
            self._terminal(_TERMINALS[event], self._snapshot(payload))
        elif (handler := _HANDLERS.get(event)) is not None:
            handler(self, payload)
        else:
            raise GrammarError("an event that is not of the dialect")

    # --- the response ------------------------------------------------------------------------------------------------

    def _snapshot(self, event: Json) -> Json:
        members(event, _SNAPSHOT, key_set(), "an event of a snapshot")
        response = check_response(event["response"], own=self._own)
        fixed = {key: value for key, value in response.items() if key not in _CHANGING and key != "store"}
        echo, store = digest(fixed), response.get("store")
        if self._echo is None:
            require(event["type"] == "response.created", "an event before response.created")
            self._echo, self._store = echo, store
            return response
        require(event["type"] != "response.created", "response.created twice")
        # A response that has failed is not stored, whatever the first snapshot announced.
        unstored = response["status"] == "failed" and store is False
        require(echo == self._echo and (unstored or store == self._store), "a snapshot that differs from the first one")
        return response

    def _begin(self, name: str, response: Json) -> None:
        require(not self._items, "a beginning after the first item")
        require(response["output"] == [], "a beginning with output")
        require(response["status"] in ("in_progress", "queued"), "a beginning with another status")
        for key in ("error", "incomplete_details", "usage", "completed_at"):
            require(response.get(key) is None, "a beginning with a key that only an end has")

    def _terminal(self, status: str, response: Json) -> None:
        require(response["status"] == status, "a terminal event whose response has another status")
        check_end(response)
        output = response["output"]
        require(len(output) == len(self._items), "a last snapshot with another number of items than the stream")
        for raw, item in zip(output, self._items, strict=True):
            item.check_final(raw, status)
        self.ended = True

    # --- items -------------------------------------------------------------------------------------------------------

    def _item_added(self, event: Json) -> None:
        members(event, _ITEM, key_set(), "output_item.added")
        # The SDK tolerates gaps, but then the positions in the snapshot are not the indexes.
        index = count(event["output_index"], "output_index")
        require(index == len(self._items), "an output_index that is not the next")
        item = Item.announced(event["item"])
        call_id = item.constant["call_id"]
        require(item.id not in self._ids and call_id not in self._call_ids, "an item id or a call_id twice")
        self.keep(_ITEM_SIZE + sum(len(value) for value in item.constant.values() if type(value) is str))
        self._items.append(item)
        self._ids.add(item.id)
        if call_id is not None:
            self._call_ids.add(call_id)

    def _item_done(self, event: Json) -> None:
        members(event, _ITEM, key_set(), "output_item.done")
        self._open_item(event).end(event["item"])

    def _open_item(self, event: Json) -> Item:
        index = count(event["output_index"], "output_index")
        require(index < len(self._items) and self._items[index].done is None, "an event of an item that is not open")
        return self._items[index]

    def _addressed(self, event: Json, kind: str) -> Item:
        item = self._open_item(event)
        require(event["item_id"] == item.id, "an item_id that is not its item's")
        require(item.type == kind, "an event that its item cannot have")
        return item

    # --- texts -------------------------------------------------------------------------------------------------------

    def _part_added(self, event: Json) -> None:
        summary = event["type"] == "response.reasoning_summary_part.added"
        place = "summary_index" if summary else "content_index"
        members(event, _AT | {place, "part"}, key_set(), "the start of a part")
        kind = an_object(event["part"], "part is not an object").get("type")
        home = "reasoning" if summary and kind == "summary_text" else PART_OF.get(kind if type(kind) is str else "")
        require(home is not None and (not summary or kind == "summary_text"), "a part of an unknown type")
        item = self._addressed(event, str(home))
        parts, others = (item.summaries, item.parts) if summary else (item.parts, item.summaries)
        require(not others, "reasoning as text and as summary")
        index = event[place]
        require(type(index) is int and index == len(parts), "a part that is not the next")
        self.keep(_PART_SIZE)
        part = Part(str(kind))
        part.check(event["part"])
        parts.append(part)

    def _part(self, event: Json, kind: str, more: frozenset[str], optional: frozenset[str] = _OBFUSCATION) -> Part:
        """Return the open part of this type that an event is about. `more` are further keys of the event."""
        summary = kind == "summary_text"
        place = "summary_index" if summary else "content_index"
        members(event, _AT | more | {place}, optional, "an event of a part")
        item = self._addressed(event, "reasoning" if summary else PART_OF.get(kind, ""))
        parts = item.summaries if summary else item.parts
        index = count(event[place], place)
        require(index < len(parts), "a part that was not announced: the SDK raises")
        part = parts[index]
        require(part.kind == kind and not part.done, "an event of a part of another kind, or of a closed one")
        return part

    def _delta(self, event: Json) -> None:
        kind, _, more = _TEXTS[event["type"].removesuffix(".delta")]
        part = self._part(event, kind, more | {"delta"})
        part.add(string(event["delta"], "delta"))
        if "logprobs" in more:
            check_logprobs(event["logprobs"])

    def _text_done(self, event: Json) -> None:
        kind, key, more = _TEXTS[event["type"].removesuffix(".done")]
        part = self._part(event, kind, more | {key})
        part.end_text(event[key])
        if "logprobs" in more:
            check_logprobs(event["logprobs"])

    def _part_done(self, event: Json) -> None:
        summary = event["type"] == "response.reasoning_summary_part.done"
        raw = an_object(event.get("part"), "part is not an object")
        kind = "summary_text" if summary else string(raw.get("type"), "the type of a part")
        require(summary or kind in PART_OF, "a part of an unknown type")
        self._part(event, kind, key_set("part"), key_set("status") if summary else key_set()).end(raw)

    def _annotation(self, event: Json) -> None:
        part = self._part(event, "output_text", key_set("annotation_index", "annotation"))
        self.keep(_ANNOTATION_SIZE)
        part.annotate(event["annotation_index"], event["annotation"])

    # --- calls -------------------------------------------------------------------------------------------------------

    def _call_delta(self, event: Json) -> None:
        kind, _ = _ARGUMENTS[event["type"].removesuffix(".delta")]
        members(event, _AT | {"delta"}, _OBFUSCATION, "a delta of arguments")
        self._addressed(event, kind).add_arguments(string(event["delta"], "delta"))

    def _call_done(self, event: Json) -> None:
        kind, key = _ARGUMENTS[event["type"].removesuffix(".done")]
        members(
            event, _AT | {key, "name"} if kind == "function_call" else _AT | {key}, key_set(), "the end of arguments"
        )
        item = self._addressed(event, kind)
        item.end_arguments(event[key], event.get("name", item.constant["name"]))


_TEXTS: Final = {
    "response.output_text": ("output_text", "text", key_set("logprobs")),
    "response.refusal": ("refusal", "refusal", key_set()),
    "response.reasoning_text": ("reasoning_text", "text", key_set()),
    "response.reasoning_summary_text": ("summary_text", "text", key_set()),
}
"""Beginning of the names of a text's events → the type of its part, the key of the complete text, and further keys."""
_ARGUMENTS: Final = {
    "response.function_call_arguments": ("function_call", "arguments"),
    "response.custom_tool_call_input": ("custom_tool_call", "input"),
}
"""Beginning of the names of the events of arguments → the type of the call, and the key of the complete arguments."""
_HANDLERS: Final[dict[str, Callable[[ResponsesGrammar, Json], None]]] = {
    "response.output_item.added": ResponsesGrammar._item_added,
    "response.output_item.done": ResponsesGrammar._item_done,
    "response.content_part.added": ResponsesGrammar._part_added,
    "response.content_part.done": ResponsesGrammar._part_done,
    "response.reasoning_summary_part.added": ResponsesGrammar._part_added,
    "response.reasoning_summary_part.done": ResponsesGrammar._part_done,
    "response.output_text.annotation.added": ResponsesGrammar._annotation,
    **dict.fromkeys((f"{name}.delta" for name in _TEXTS), ResponsesGrammar._delta),
    **dict.fromkeys((f"{name}.done" for name in _TEXTS), ResponsesGrammar._text_done),
    **dict.fromkeys((f"{name}.delta" for name in _ARGUMENTS), ResponsesGrammar._call_delta),
    **dict.fromkeys((f"{name}.done" for name in _ARGUMENTS), ResponsesGrammar._call_done),
}

"""The items of a Responses reply: their shapes and their ids, the same for a stream and a whole reply.

One block is one item with at most one part (mapping §9.7). A call is an item of its own beside the messages; its item
id is minted, its `call_id` is the upstream's (mapping §11).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from dragoman.canonical.events import BlockKind
from dragoman.canonical.request import Json
from dragoman.tools.names import sanitize_call_id
from dragoman.wire.json_codec import loads

_LONGEST_CALL_ID: Final = 64


class ItemShape(NamedTuple):
    """One kind of item: its type, what its id begins with, where its text stands and which events tell it."""

    type: str
    prefix: str
    key: str
    """The field of the item (of its part, if it has one) and of the `.done` event that holds the text."""
    events: str = ""
    """What the names of its `.delta` and `.done` events begin with; "" if it has none."""
    part: str = ""
    """The type of its part."""
    part_list: str = ""
    """The field of the item that holds the part."""


TEXT: Final = ItemShape("message", "msg_", "text", "response.output_text", "output_text", "content")
REFUSAL: Final = ItemShape("message", "msg_", "refusal", "response.refusal", "refusal", "content")
REASONING: Final = ItemShape("reasoning", "rs_", "text", "response.reasoning_text", "reasoning_text", "content")
SUMMARY: Final = ItemShape("reasoning", "rs_", "text", "response.reasoning_summary_text", "summary_text", "summary")
FUNCTION: Final = ItemShape("function_call", "fc_", "arguments", "response.function_call_arguments")
CUSTOM: Final = ItemShape("custom_tool_call", "ctc_", "input", "response.custom_tool_call_input")
SEARCH: Final = ItemShape("tool_search_call", "tsc_", "arguments")


def shape_of(kind: BlockKind, *, custom: bool = False, search: bool = False, summary: bool = False) -> ItemShape:
    """The shape of a block. `summary` is the knob `reasoning_surface`."""
    if kind is BlockKind.TEXT:
        return TEXT
    if kind is BlockKind.TOOL:
        return CUSTOM if custom else SEARCH if search else FUNCTION
    if kind is BlockKind.REFUSAL:
        return REFUSAL
    return SUMMARY if summary else REASONING


class OutputItem:
    """One output item. `proof` is what its `encrypted_content` holds."""

    __slots__ = ("annotations", "call_id", "encrypted_content", "id", "index", "logprobs", "name", "namespace", "shape")

    def __init__(
        self,
        shape: ItemShape,
        item_id: str,
        index: int,
        call_id: str = "",
        name: str = "",
        namespace: str | None = None,
    ) -> None:
        self.shape = shape
        self.id = item_id
        self.index = index
        self.call_id = call_id
        self.name = name
        self.namespace = namespace
        self.encrypted_content: str | None = None
        self.annotations: list[Json] = []
        self.logprobs: list[Json] = []

    def part(self, text: Any) -> Json:
        """The item's one part."""
        shape = self.shape
        part: Json = {"type": shape.part, shape.key: text}
        if shape is TEXT:
            part["annotations"] = self.annotations
            part["logprobs"] = self.logprobs
        return part

    def build(self, status: str, text: Any = None) -> Json:
        """The item with the text it has (None before there is any); the arguments of a search are an object."""
        shape = self.shape
        parts = [] if text is None else [self.part(text)]
        if shape.type == "message":
            return {"type": "message", "id": self.id, "role": "assistant", "status": status, "content": parts}
        if shape.type == "reasoning":
            item: Json = {"type": "reasoning", "id": self.id, "summary": [], "status": status}
            if parts:
                item[shape.part_list] = parts
            if self.encrypted_content is not None:
                item["encrypted_content"] = self.encrypted_content
            return item
        item = {"type": shape.type, "id": self.id, "call_id": self.call_id}
        if shape is SEARCH:
            item |= {"execution": "client", "arguments": {} if text is None else text}
        else:
            item |= {"name": self.name, shape.key: "" if text is None else text}
        item["status"] = status
        if self.namespace:
            item["namespace"] = self.namespace
        return item


class ItemFactory:
    """Makes the items of one reply, in order. `base` is the body of the reply's id."""

    __slots__ = ("_base", "_calls", "_count", "_minted")

    def __init__(self, base: str) -> None:
        self._base = base
        self._count = 0
        self._minted: dict[str, int] = {}
        self._calls: set[str] = set()

    def new(self, shape: ItemShape) -> OutputItem:
        """The next item."""
        number = self._minted[shape.prefix] = self._minted.get(shape.prefix, 0) + 1
        index = self._count
        self._count = index + 1
        return OutputItem(shape, f"{shape.prefix}{self._base}{number}", index)

    def new_call(self, shape: ItemShape, call_id: str, name: str, namespace: str | None) -> OutputItem:
        """The next item, a call. A call id that is missing or came before is minted: the SDK refuses twins."""
        item = self.new(shape)
        fitted = sanitize_call_id(call_id or f"{self._base}:{item.index}", _LONGEST_CALL_ID)
        if fitted in self._calls:
            fitted = sanitize_call_id(f"{self._base}:{item.index}:{fitted}", _LONGEST_CALL_ID)
        self._calls.add(fitted)
        item.call_id, item.name, item.namespace = fitted, name, namespace
        return item


def parse_arguments(text: str) -> Json | None:
    """The arguments of a call that are a whole JSON object, else None: agents run whatever call is told as done."""
    try:
        value = loads(text)
    except ValueError:
        return None
    return value if type(value) is dict else None

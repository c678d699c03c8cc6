"""Shapes and ids of the items of a Responses reply, used by streams and whole replies.

One block is one item with at most one part (mapping §9.7). A call is an item next to the messages. Item ids are minted;
the `call_id` is the upstream's (mapping §11).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, NamedTuple

from dragoman.canonical.events import BlockKind
from dragoman.canonical.request import Json
from dragoman.dialects.responses.built_in_items import BUILT_IN_CALLS
from dragoman.dialects.shared.json_fields import parse_object
from dragoman.tools.built_in_tools import APPLY_PATCH, LOCAL_SHELL, SHELL
from dragoman.tools.names import sanitize_call_id

_LONGEST_CALL_ID: Final = 64


class ItemShape(NamedTuple):
    """One kind of item: its `type`, the `prefix` of its ids, where its text stands and how its events are named."""

    type: str
    prefix: str
    key: str
    """The field that holds the text, in the item (in its part, if it has one) and in the `.done` event."""
    events: str = ""
    """Prefix of the names of its `.delta` and `.done` events; "" if it has none."""
    part: str = ""
    """The type of its part."""
    part_list: str = ""
    """The field of the item that lists its parts."""
    held: bool = False
    """True if the item is written once its arguments are complete: they are its fields, and no JSON text."""


TEXT: Final = ItemShape("message", "msg_", "text", "response.output_text", "output_text", "content")
REFUSAL: Final = ItemShape("message", "msg_", "refusal", "response.refusal", "refusal", "content")
REASONING: Final = ItemShape("reasoning", "rs_", "text", "response.reasoning_text", "reasoning_text", "content")
SUMMARY: Final = ItemShape("reasoning", "rs_", "text", "response.reasoning_summary_text", "summary_text", "summary")
FUNCTION: Final = ItemShape("function_call", "fc_", "arguments", "response.function_call_arguments")
CUSTOM: Final = ItemShape("custom_tool_call", "ctc_", "input", "response.custom_tool_call_input")
SEARCH: Final = ItemShape("tool_search_call", "tsc_", "arguments")
IMAGE_CALL: Final = ItemShape("image_generation_call", "ig_", "result")
COMPACTION: Final = ItemShape("compaction", "cmp_", "encrypted_content")
_PREFIXES: Final = {SHELL: "sh_", LOCAL_SHELL: "lsh_", APPLY_PATCH: "apc_"}
BUILT_IN: Final = {
    call.tool: ItemShape(kind, _PREFIXES[call.tool], call.key, held=True) for kind, call in BUILT_IN_CALLS.items()
}
"""The shapes of calls of built-in tools, by tool."""
CUT_BUILT_IN: Final = "a call of a built-in tool was left out"


def shape_of(kind: BlockKind, *, custom: bool = False, search: bool = False, summary: bool = False) -> ItemShape:
    """Return the shape of a block's item. `summary` is True if the knob `reasoning_surface` is `summary`."""
    if kind == "text":
        return TEXT
    if kind == "tool":
        return CUSTOM if custom else SEARCH if search else FUNCTION
    if kind == "refusal":
        return REFUSAL
    return SUMMARY if summary else REASONING


class OutputItem:
    """One output item."""

    __slots__ = (
        "annotations",
        "call_id",
        "encrypted_content",
        "id",
        "index",
        "logprobs",
        "name",
        "namespace",
        "plain",
        "shape",
    )

    def __init__(self, shape: ItemShape, item_id: str, index: int) -> None:
        self.shape = shape
        self.id = item_id
        self.index = index
        self.call_id = self.name = ""
        self.namespace: str | None = None
        self.plain = False
        """True if the client would take the arguments for ciphertext (`tools.encrypted_arguments`)."""
        self.encrypted_content: str | None = None
        self.annotations: list[Json] = []
        self.logprobs: list[Json] = []

    def part(self, text: Any) -> Json:
        """Return the item's one part."""
        shape = self.shape
        part: Json = {"type": shape.part, shape.key: text}
        if shape is TEXT:
            part["annotations"] = self.annotations
            part["logprobs"] = self.logprobs
        return part

    def build(self, status: str, text: Any = None) -> Json:
        """Return the item. `text` may be None, and is an object for a tool search and for calls of built-in tools."""
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
        if shape is COMPACTION:
            return {"type": "compaction", "id": self.id, "encrypted_content": text or ""}
        if shape is IMAGE_CALL:
            return {"type": shape.type, "id": self.id, "status": status, "result": text}
        item = {"type": shape.type, "id": self.id, "call_id": self.call_id}
        if shape.held:
            return item | {shape.key: text, "status": status}
        if shape is SEARCH:
            item |= {"execution": "client", "arguments": {} if text is None else text}
        else:
            item |= {"name": self.name, shape.key: "" if text is None else text}
        item["status"] = status
        if self.namespace:
            item["namespace"] = self.namespace
        if self.plain:
            item["encrypted_function_args"] = []
        return item


class ItemFactory:
    """Creates the items of one reply, in order. `base` is the reply's id without its prefix.

    `plain_calls` are namespace and name of the tools whose arguments the client would take for ciphertext.
    """

    __slots__ = ("_base", "_calls", "_count", "_minted", "_plain_calls")

    def __init__(self, base: str, plain_calls: Collection[tuple[str | None, str]] = ()) -> None:
        self._base, self._plain_calls = base, plain_calls
        self._count = 0
        self._minted: dict[str, int] = {}
        self._calls: set[str] = set()

    def new(self, shape: ItemShape) -> OutputItem:
        """Return the next item, which is not a call."""
        prefix, index = shape.prefix, self._count
        number = self._minted[prefix] = self._minted.get(prefix, 0) + 1
        self._count = index + 1
        return OutputItem(shape, f"{prefix}{self._base}{number}", index)

    def new_call(self, shape: ItemShape, call_id: str, name: str, namespace: str | None) -> OutputItem:
        """Return the next item, a call. A missing or repeated call id is replaced: the SDK rejects duplicates."""
        item = self.new(shape)
        fitted = sanitize_call_id(call_id or f"{self._base}:{item.index}", _LONGEST_CALL_ID)
        if fitted in self._calls:
            fitted = sanitize_call_id(f"{self._base}:{item.index}:{fitted}", _LONGEST_CALL_ID)
        self._calls.add(fitted)
        item.call_id, item.name, item.namespace = fitted, name, namespace
        if self._plain_calls:
            item.plain = shape is FUNCTION and (namespace, name) in self._plain_calls
        return item


def image_data(payload: Any) -> str | None:
    """Return the base64 of a picture that the model made; None if it is not a data URL, which the item cannot hold."""
    url = payload["image_url"]["url"]
    head, comma, data = url.partition(",")
    return data if comma and head[:5].lower() == "data:" and head.lower().endswith(";base64") else None


def complete_arguments(shape: ItemShape, text: str, complete: bool) -> tuple[str, Any, bool]:
    """Return a finished call's text, the item's arguments, and whether the call is complete.

    Agents run every call that is complete, so its arguments must be a JSON object; empty ones become `{}`.
    """
    if shape is CUSTOM:
        return text, text, complete
    if complete and not text.strip():
        text += "{}"
    arguments = parse_object(text)
    complete = complete and arguments is not None
    if shape is SEARCH:
        return text, arguments if complete else None, complete
    return text, text, complete

"""The output items of a Responses stream that was written, as its client knows them, with the rules for items.

Texts are not kept for this: of each finished text and of each finished item there is a hash.
"""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.request import Json
from dragoman.stages.output_validator import GrammarError, member, payload_of
from dragoman.wire.json_codec import dumps

_PREFIX: Final = {
    "message": "msg_",
    "reasoning": "rs_",
    "function_call": "fc_",
    "custom_tool_call": "ctc_",
    "tool_search_call": "tsc_",
    "compaction": "cmp_",
    "image_generation_call": "ig_",
    "shell_call": "sh_",
    "local_shell_call": "lsh_",
    "apply_patch_call": "apc_",
}
CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
"""Calls that have deltas → the field with their arguments."""
HOMES: Final = {
    "output_text": ("message", "text"),
    "refusal": ("message", "refusal"),
    "reasoning_text": ("reasoning", "text"),
    "summary_text": ("reasoning", "text"),
}
"""Type of part → the type of its item, and the field with its text."""
_LONGEST_CALL_ID: Final = 64


class ValidatedPart:
    """A part of an item. `text` is the hash of its text after the text's `.done` event, else None."""

    __slots__ = ("annotations", "done", "kind", "text")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.annotations = 0
        self.text: int | None = None
        self.done = False

    def check_repeated(self, raw: Any) -> None:
        """Compare the part with the same part in a later event. Raises `GrammarError`."""
        if type(raw) is not dict or raw.get("type") != self.kind:
            raise GrammarError("a part of another kind than was announced")
        if hash(raw.get(HOMES[self.kind][1])) != self.text or len(raw.get("annotations") or ()) != self.annotations:
            raise GrammarError("a part that differs from its earlier events")


class ValidatedItem:
    """An item from its announcement on.

    `done` is the hash and `size` the length of its JSON after `output_item.done`, `arguments` the hash of a call's
    complete arguments, `constants` the hash of the fields that must not change. `cut` is True if it ended incomplete.
    """

    __slots__ = ("arguments", "call_id", "constants", "cut", "done", "id", "name", "parts", "size", "type")

    def __init__(self, kind: str, item_id: str, constants: int, call_id: str | None, name: str | None) -> None:
        self.type = kind
        self.id = item_id
        self.constants = constants
        self.call_id = call_id
        self.name = name
        self.parts: tuple[ValidatedPart, ...] = ()
        self.arguments: int | None = None
        self.cut = False
        self.done: int | None = None
        self.size = 0

    @classmethod
    def text(cls, item_id: str) -> ValidatedItem:
        """Returns a message of the usual form, with its text part."""
        item = cls("message", item_id, _TEXT_CONSTANTS, None, None)
        item.parts = (ValidatedPart("output_text"),)
        return item

    @classmethod
    def announced(cls, raw: Json) -> ValidatedItem:
        """Check an announcement and return the item. Raises `GrammarError`."""
        get = raw.get
        kind, item_id = get("type"), get("id")
        if type(kind) is not str or type(item_id) is not str or not item_id.startswith(_PREFIX.get(kind, "")):
            raise GrammarError("an item without a type, or an id that is not of it")
        if get("content") or get("summary") or get("arguments") or get("input") or get("encrypted_content"):
            raise GrammarError("an item that starts with content")
        if get("status", "in_progress") != "in_progress":
            raise GrammarError("an item that starts with another status")
        if kind == "message" and get("role") != "assistant":
            raise GrammarError("a message that is not the assistant's")
        call_id = name = None
        if kind.endswith("_call") and kind != "image_generation_call":
            call_id, name = member(raw, "call_id", str), get("name")
            if not call_id or len(call_id) > _LONGEST_CALL_ID or (kind in CALLS and not name):
                raise GrammarError("a call without id or name, or an id too long to be sent back")
        return cls(kind, item_id, _constant_fields(raw), call_id, name)

    def add_part(self, kind: str) -> None:
        """Add an announced part. Raises `GrammarError`."""
        if self.parts and self.type == "reasoning" and any(part.kind != kind for part in self.parts):
            raise GrammarError("reasoning as text and as summary")
        self.parts = (*self.parts, ValidatedPart(kind))

    def finish(self, raw: Json, encoded: bytes) -> None:
        """Check the finished item. `encoded` is its JSON if that is certain, else empty. Raises `GrammarError`."""
        status = raw.get("status", "completed")
        if status not in ("completed", "incomplete"):
            raise GrammarError("an item done with another status")
        self.check_unchanged(raw)
        if self.type in CALLS:
            # Codex runs every call that is done; only an incomplete one may lack the `.done` event of its arguments.
            if (self.arguments is not None) is not (status == "completed"):
                raise GrammarError("a call done without its arguments, or cut after them")
            arguments = member(raw, CALLS[self.type], str)
            if self.arguments is not None and hash(arguments) != self.arguments:
                raise GrammarError("a call done with other arguments")
            if self.type == "function_call" and status == "completed":
                payload_of(arguments.encode("utf-8", "surrogatepass"))
        elif self.type == "message" and not self.parts:
            raise GrammarError("a message without a part")
        parts = [*(raw.get("content") or ()), *(raw.get("summary") or ())]
        if len(parts) != len(self.parts):
            raise GrammarError("an item done with another number of parts than it had")
        for part, raw_part in zip(self.parts, parts, strict=True):
            if not part.done:
                raise GrammarError("an item done before its part")
            part.check_repeated(raw_part)
        self.cut = status == "incomplete"
        self.close(encoded or dumps(raw))

    def close(self, encoded: bytes) -> None:
        """Keep the hash and the length of the finished item's JSON in place of its parts."""
        self.done, self.size = hash(encoded), len(encoded)
        self.parts = ()

    def open_text(self) -> bool:
        """True if this is a message with one text part, no part of which is done."""
        if self.done is not None or self.type != "message" or len(self.parts) != 1:
            return False
        part = self.parts[0]
        return part.kind == "output_text" and part.text is None and not part.annotations

    def check_unchanged(self, raw: Json) -> None:
        """Check that the fields of the announcement have not changed. Raises `GrammarError`."""
        if raw.get("id") != self.id or raw.get("type") != self.type or _constant_fields(raw) != self.constants:
            raise GrammarError("an item that changed its id, type or name")

    def check_final(self, raw: Any, status: str) -> None:
        """Check the item in the last snapshot, which has this status. Raises `GrammarError`."""
        if self.done is not None:
            if hash(dumps(raw)) != self.done:
                raise GrammarError("the last snapshot has another item than was done")
            self.check_status(status)
            return
        # Codex runs a free-text call at its `output_item.done`, so the writer sends none for one that was cut.
        withheld = status == "incomplete" and self.type == "custom_tool_call"
        if status != "failed" and not withheld:
            raise GrammarError("an item that was never done")
        if type(raw) is not dict or raw.get("status") != "incomplete":
            raise GrammarError("an open item that is not incomplete in the last snapshot")
        self.check_unchanged(raw)

    def check_status(self, status: str) -> None:
        """Check that the finished item may be part of a response with this status. Raises `GrammarError`."""
        if self.cut and (status == "completed" or self.type == "custom_tool_call"):
            raise GrammarError("an item that was cut, in a complete reply or although it was done")


def _constant_fields(raw: Json) -> int:
    get = raw.get
    return hash((get("call_id"), get("name"), get("role"), get("namespace"), get("execution"), get("phase")))


_TEXT_CONSTANTS: Final = _constant_fields({"role": "assistant"})

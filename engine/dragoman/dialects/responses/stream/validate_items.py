"""The items of a Responses stream that we wrote, as its client knows them: what was told of each, and by which rules.

Texts are not kept for that: of each whole text, and of each item that is done, there is a hash.
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
}
CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
"""Calls that are told in deltas, and where they have what they were called with."""
HOMES: Final = {
    "output_text": ("message", "text"),
    "refusal": ("message", "refusal"),
    "reasoning_text": ("reasoning", "text"),
    "summary_text": ("reasoning", "text"),
}
"""Kind of part → the item it stands in, and where it has its text."""
_LONGEST_CALL_ID: Final = 64


class ValidatedPart:
    """A part of an item. `text` is the hash of its text once that was told whole."""

    __slots__ = ("annotations", "done", "kind", "text")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.annotations = 0
        self.text: int | None = None
        self.done = False

    def check_repeated(self, raw: Any) -> None:
        """Hold the part as it is told again against what was told of it. Raises `Breach`."""
        if type(raw) is not dict or raw.get("type") != self.kind:
            raise GrammarError("a part of another kind than was announced")
        if hash(raw.get(HOMES[self.kind][1])) != self.text or len(raw.get("annotations") or ()) != self.annotations:
            raise GrammarError("a part that is not what was told of it")


class ValidatedItem:
    """An item from its announcement on. `done` is its hash once it was told whole, `size` the length it had then.

    `arguments` is the hash of a call's whole arguments.
    """

    __slots__ = ("arguments", "call_id", "constants", "cut", "done", "id", "name", "parts", "size", "type")

    def __init__(self, raw: Json) -> None:
        """Judge the announcement. Raises `Breach`."""
        get = raw.get
        kind, given = get("type"), get("id")
        if type(kind) is not str or type(given) is not str or not given.startswith(_PREFIX.get(kind, "")):
            raise GrammarError("an item without a type, or an id that is not of it")
        if get("content") or get("summary") or get("arguments") or get("input") or get("encrypted_content"):
            raise GrammarError("an item that starts with content")
        if get("status", "in_progress") != "in_progress":
            raise GrammarError("an item that starts with another status")
        if kind == "message" and get("role") != "assistant":
            raise GrammarError("a message that is not the assistant's")
        self.call_id: str | None = None
        self.name: str | None = None
        if kind.endswith("_call"):
            self.call_id, self.name = member(raw, "call_id", str), get("name")
            if not self.call_id or len(self.call_id) > _LONGEST_CALL_ID or (kind in CALLS and not self.name):
                raise GrammarError("a call without id or name, or an id too long to be sent back")
        self.id: str = given
        self.type: str = kind
        self.constants = _constant_fields(raw)
        self.parts: tuple[ValidatedPart, ...] = ()
        self.arguments: int | None = None
        self.cut = False
        self.done: int | None = None
        self.size = 0

    def add_part(self, kind: str) -> None:
        """A part is announced."""
        if self.parts and self.type == "reasoning" and any(part.kind != kind for part in self.parts):
            raise GrammarError("reasoning as text and as summary")
        self.parts = (*self.parts, ValidatedPart(kind))

    def finish(self, raw: Json, spelled: bytes) -> None:
        """The item is told whole; `spelled` is its JSON if that is sure. Raises `Breach`."""
        status = raw.get("status", "completed")
        if status not in ("completed", "incomplete"):
            raise GrammarError("an item done with another status")
        self.check_unchanged(raw)
        if self.type in CALLS:
            # Codex runs every call that was done; only one that is not whole may lack its own done event.
            if (self.arguments is not None) is not (status == "completed"):
                raise GrammarError("a call done without its arguments, or cut behind them")
            given = member(raw, CALLS[self.type], str)
            if self.arguments is not None and hash(given) != self.arguments:
                raise GrammarError("a call done with other arguments")
            if self.type == "function_call" and status == "completed":
                payload_of(given.encode("utf-8", "surrogatepass"))
        elif self.type == "message" and not self.parts:
            raise GrammarError("a message without a part")
        parts = [*(raw.get("content") or ()), *(raw.get("summary") or ())]
        if len(parts) != len(self.parts):
            raise GrammarError("an item done with more parts or fewer than were told")
        for part, told in zip(self.parts, parts, strict=True):
            if not part.done:
                raise GrammarError("an item done before its part")
            part.check_repeated(told)
        self.cut = status == "incomplete"
        spelled = spelled or dumps(raw)
        self.done, self.size = hash(spelled), len(spelled)
        self.parts = ()

    def check_unchanged(self, raw: Json) -> None:
        """Hold what must not change against the announcement. Raises `Breach`."""
        if raw.get("id") != self.id or raw.get("type") != self.type or _constant_fields(raw) != self.constants:
            raise GrammarError("an item that changed its id, type or name")

    def check_final(self, raw: Any, status: str) -> None:
        """Hold the item in the last snapshot, whose status is given, against what was told. Raises `Breach`."""
        if self.done is not None:
            if hash(dumps(raw)) != self.done:
                raise GrammarError("the last snapshot has another item than was done")
            self.check_status(status)
            return
        # Codex runs free text as soon as it is told as done, so one that was cut is not.
        withheld = status == "incomplete" and self.type == "custom_tool_call"
        if status != "failed" and not withheld:
            raise GrammarError("an item that was never done")
        if type(raw) is not dict or raw.get("status") != "incomplete":
            raise GrammarError("an item that is open, told otherwise in the last snapshot")
        self.check_unchanged(raw)

    def check_status(self, status: str) -> None:
        """May the item, which is done, stand in a response that ended so. Raises `Breach`."""
        if self.cut and (status == "completed" or self.type == "custom_tool_call"):
            raise GrammarError("an item that was cut, in a reply that was not or told as done")


def _constant_fields(raw: Json) -> int:
    get = raw.get
    return hash((get("call_id"), get("name"), get("role"), get("namespace"), get("execution"), get("phase")))

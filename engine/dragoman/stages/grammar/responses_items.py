"""The output items of a Responses stream, with the rules for the events of one item (responses §8)."""

from __future__ import annotations

from typing import Any, Final

from dragoman.stages.grammar.responses_values import CALLS, TEXT_KEY, check_annotation, check_item, check_part
from dragoman.stages.grammar.values import Json, TextDigest, digest, require

_CONSTANT: Final = ("id", "type", "role", "call_id", "name", "namespace", "execution", "phase")
"""Keys of an item that do not change."""
_STREAMED: Final = ("function_call", "custom_tool_call")
"""Calls whose arguments have deltas."""


class Part:
    """A part of an item, with a digest of its text in place of the text."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.text = TextDigest()
        self.annotations: list[bytes] = []
        self.text_done = self.done = False

    def add(self, piece: str) -> None:
        """Add a delta. Raises GrammarError."""
        require(not self.text_done, "a delta after its end")
        self.text.add(piece)

    def end_text(self, text: Any) -> None:
        """Check the complete text. Raises GrammarError."""
        require(not self.text_done, "a text done twice")
        require(self.text.matches(text), "a text that is not what its deltas were")
        self.text_done = True

    def annotate(self, index: Any, annotation: Any) -> None:
        """Add an annotation. Raises GrammarError."""
        require(type(index) is int and index == len(self.annotations), "an annotation_index that is not the next")
        self.annotations.append(digest(check_annotation(annotation)))

    def check(self, raw: Any) -> None:
        """Compare the part with the same part in an event. Raises GrammarError."""
        part = check_part(raw, self.kind)
        require(self.text.matches(part[TEXT_KEY[self.kind]]), "a part that is not what its deltas were")
        annotations = [digest(annotation) for annotation in part.get("annotations", [])]
        require(annotations == self.annotations, "a part with other annotations than its events")

    def end(self, raw: Any) -> None:
        """Check the finished part. Raises GrammarError."""
        require(self.text_done, "a part done before its text")
        self.check(raw)
        self.done = True


class Item:
    """An item from its announcement on. `done` is a digest of the finished item, None before."""

    def __init__(self, start: Json) -> None:
        self.id: str = start["id"]
        self.type: str = start["type"]
        self.constant = {key: start.get(key) for key in _CONSTANT}
        self.parts: list[Part] = []
        self.summaries: list[Part] = []
        self.arguments = TextDigest()
        self.empty = True
        """True while no arguments have arrived."""
        self.whole: bytes | None = None
        """A digest of the complete arguments."""
        self.cut = False
        """True if the item was finished as incomplete."""
        self.done: bytes | None = None

    @classmethod
    def announced(cls, raw: Any) -> Item:
        """Return the item of an announcement. Raises GrammarError."""
        start = check_item(raw)
        for key in ("content", "summary", "arguments", "input", "encrypted_content", "result"):
            # A value of `encrypted_content` would be provisional (responses §5): a client that takes it replays it.
            require(not start.get(key), "an item that starts with content")
        require(start.get("status", "in_progress") == "in_progress", "an item that starts with another status")
        return cls(start)

    def add_arguments(self, piece: str) -> None:
        """Add a delta of a call's arguments. Raises GrammarError."""
        require(self.whole is None, "more arguments after their end")
        self.arguments.add(piece)
        self.empty &= not piece

    def end_arguments(self, text: Any, name: Any) -> None:
        """Check the complete arguments. Raises GrammarError."""
        require(self.whole is None, "more arguments after their end")
        require(name == self.constant["name"], "arguments done under another name")
        self._check_arguments(text)
        self.whole = digest(text)

    def _check_arguments(self, text: Any) -> None:
        if self.whole is not None:
            require(digest(text) == self.whole, "a call done with other arguments")
            return
        # Servers and clients count `{}` without any delta as no arguments.
        none = self.type == "function_call" and self.empty and text == "{}"
        require(none or self.arguments.matches(text), "arguments that are not what their deltas were")

    def end(self, raw: Any) -> None:
        """Check the finished item. Raises GrammarError."""
        item = self._same(raw)
        status = item.get("status", "completed")
        require(status in ("completed", "incomplete"), "an item done with another status")
        require(self.type != "message" or self.parts, "a message without a part")
        require(all(part.done for part in (*self.parts, *self.summaries)), "an item done before its part")
        if self.type in _STREAMED:
            # Codex runs every call that is done; only an incomplete one may lack the `.done` event of its arguments.
            complete = (self.whole is not None) is (status == "completed")
            require(complete, "a call done without its arguments, or cut after them")
        require(self.type != "compaction" or item["encrypted_content"], "a compaction without content")
        self._compare(item)
        self.cut = status == "incomplete"
        self.done = digest(item)
        self.parts, self.summaries = [], []

    def _same(self, raw: Any) -> Json:
        """Return a later state of the item, whose constant keys are compared. Raises GrammarError."""
        item = check_item(raw)
        constant = {key: item.get(key) for key in _CONSTANT}
        require(constant == self.constant, "an item that changed its id, type or name")
        return item

    def _compare(self, item: Json) -> None:
        """Compare an item with its events. Raises GrammarError."""
        for parts, raw in ((self.parts, item.get("content", [])), (self.summaries, item.get("summary", []))):
            require(len(raw) == len(parts), "an item with another number of parts than its events")
            for part, value in zip(parts, raw, strict=True):
                part.check(value)
        if self.type in _STREAMED:
            self._check_arguments(item[CALLS[self.type]])

    def check_final(self, raw: Json, status: str) -> None:
        """Check the item in the last snapshot, which has this status. Raises GrammarError."""
        if self.done is not None:
            # Codex runs free text that is done, whatever its status: one that was cut must not be.
            require(not self.cut or self.type != "custom_tool_call", "free text that was cut, but is done")
            require(digest(raw) == self.done, "the last snapshot has another item than was done")
            return
        withheld = status == "incomplete" and self.type == "custom_tool_call"
        require(status == "failed" or withheld, "an item that was never done")
        require(raw.get("status") == "incomplete", "an open item that is not incomplete in the last snapshot")
        self._compare(self._same(raw))

"""The blocks of a Messages stream that is forwarded, and whether its clients read them as they were meant."""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.request import Json
from dragoman.dialects.messages.reply_fields import TEXT_KEYS
from dragoman.dialects.shared.forwarded_calls import ForwardedCalls, Verdict
from dragoman.limits import DEFAULT_LIMITS
from dragoman.wire.delta_template import RunCallback

_DELTAS: Final = {"text": "text_delta", "thinking": "thinking_delta", "tool_use": "input_json_delta"}
"""Type of a block → type of the deltas of its text."""
_START: Final[dict[str, Json]] = {
    "text": {"type": "text", "text": ""},
    "thinking": {"type": "thinking", "thinking": ""},
    "": {"type": "redacted_thinking", "data": ""},
}
"""The starts of blocks that stand for those that were forwarded."""


class ForwardedBlocks:
    """The blocks of one stream. Clients take them to count from 0."""

    __slots__ = ("_types", "calls", "open", "open_calls")

    def __init__(self) -> None:
        self._types: list[str] = []
        """The types of the blocks; "" for those of other types than `_DELTAS` has."""
        self.open: dict[int, bool] = {}
        """Index of each open block → True if it is a call."""
        self.open_calls = 0
        """The number of open calls."""
        self.calls: ForwardedCalls | None = None
        """None before the first call."""

    def start(self, index: Any, block: Any) -> bool:
        """Record a start. Return False if clients would misread it."""
        count = len(self._types)
        if type(block) is not dict or type(index) is not int or index != count or count >= DEFAULT_LIMITS.blocks:
            return False
        kind = block.get("type")
        if type(kind) is not str:
            return False
        is_call = kind == "tool_use"
        if is_call:
            if self.calls is None:
                self.calls = ForwardedCalls()
            if block.get("input") != {} or not self.calls.start(index, block.get("id"), block.get("name")):
                return False
        elif kind in _DELTAS and block.get(kind) != "":
            return False  # some clients begin with an empty text
        self._types.append(kind if kind in _DELTAS else "")
        self.open[index] = is_call
        self.open_calls += is_call
        return True

    def stop(self, index: int) -> None:
        """Record the end of an open block."""
        self.open_calls -= self.open.pop(index)

    def delta(self, index: int, delta: Any) -> Verdict:
        """Record a delta of an open block."""
        kind = self._types[index]
        if not kind:
            return "plain"
        form = delta.get("type") if type(delta) is dict else None
        if form != _DELTAS[kind]:
            is_text = type(form) is not str or form in TEXT_KEYS or TEXT_KEYS[_DELTAS[kind]] in delta
            return "odd" if is_text else "plain"
        text = delta.get(TEXT_KEYS[form])
        if kind == "tool_use" and self.calls is not None:
            return "plain" if self.calls.lost else "odd" if text is None else self.calls.add(index, text)
        return "plain" if type(text) is str else "odd"

    def on_run(self, index: int) -> RunCallback | None:
        """See `Observer.on_run`, for the block."""
        if self._types[index] != "tool_use" or self.calls is None or self.calls.lost:
            return None
        return self.calls.by_key[index].arguments.add_all

    def is_whole(self, index: int) -> bool:
        """True unless an open block is a call whose arguments are not whole."""
        if not self.open[index] or self.calls is None or self.calls.lost:
            return True
        call = self.calls.by_key[index]
        return call.arguments.is_blank() or call.is_whole()

    def events(self, held: tuple[str, int] | None) -> list[Json]:
        """Return events that bring a reader to the state of these blocks before the event that is `held`.

        That is the type and the index of the first delta of a call, or of the end of a block.
        """
        form, at = held or ("", -1)
        events: list[Json] = []
        for index, kind in enumerate(self._types):
            block = _START.get(kind)
            if block is None and self.calls is not None:
                call = self.calls.by_key[index]
                block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
            events.append({"type": "content_block_start", "index": index, "content_block": block})
            if kind:
                name, pieces = _DELTAS[kind], ["."]
                if kind == "tool_use" and self.calls is not None:
                    is_held = index == at and form == "content_block_delta"
                    pieces = [] if is_held else self.calls.by_key[index].fragments()
                for piece in pieces:
                    delta = {"type": name, TEXT_KEYS[name]: piece}
                    events.append({"type": "content_block_delta", "index": index, "delta": delta})
            if index not in self.open and (index != at or form != "content_block_stop"):
                events.append({"type": "content_block_stop", "index": index})
        return events

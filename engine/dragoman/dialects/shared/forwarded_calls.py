"""The calls of a forwarded stream: what its clients have of them, and whether they read it as it was meant."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Literal

from dragoman.dialects.shared.odd_arguments import form_of
from dragoman.dialects.shared.streamed_arguments import Arguments, ReplyBudget
from dragoman.errors import LimitExceeded
from dragoman.limits import DEFAULT_LIMITS

Verdict = Literal["plain", "odd", "unsure"]
"""`plain` if clients read a fragment as it was meant; `unsure` if that depends on the next frame."""


class ForwardedCall:
    """A call whose fragments are forwarded. `begun` is False before the first text of its arguments."""

    __slots__ = ("arguments", "begun", "custom", "id", "name")

    def __init__(self, call_id: str, name: str, custom: bool, budget: ReplyBudget) -> None:
        self.id, self.name, self.custom = call_id, name, custom
        self.arguments = Arguments(budget, name)
        self.begun = False

    def is_whole(self) -> bool:
        """True if clients may run the call."""
        return self.custom or self.arguments.ends_whole()


class ForwardedCalls:
    """The calls of one stream by key. `lost` is True once their arguments are too long to be kept."""

    __slots__ = ("_budget", "_ids", "by_key", "lost")

    def __init__(self) -> None:
        self._budget = ReplyBudget(DEFAULT_LIMITS)
        self._ids: set[str] = set()
        self.by_key: dict[Hashable, ForwardedCall] = {}
        self.lost = False

    def start(self, key: Hashable, call_id: Any, name: Any, *, custom: bool = False) -> bool:
        """Record a call. Return False if it has no name, or no id of its own."""
        if type(name) is not str or not name or type(call_id) is not str or not call_id or call_id in self._ids:
            return False
        self._ids.add(call_id)
        self.by_key[key] = ForwardedCall(call_id, name, custom, self._budget)
        return True

    def add(self, key: Hashable, text: Any) -> Verdict:
        """Record a fragment of arguments."""
        if text is None or text == "":
            return "plain"
        call = self.by_key[key]
        if type(text) is not str:
            return "odd"
        verdict: Verdict = "plain"
        if not call.begun and not call.custom and (form := form_of(text)):
            if form != "empty":
                return "odd"
            verdict = "unsure"
        elif call.begun and not call.custom and not text.isspace() and call.arguments.is_empty_object():
            return "odd"
        call.begun = True
        try:
            call.arguments.add(text)
        except LimitExceeded:
            self.lost = True
        return verdict

    def are_whole(self) -> bool:
        """True if clients may run all calls."""
        return all(call.is_whole() for call in self.by_key.values())

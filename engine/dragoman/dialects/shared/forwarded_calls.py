"""The calls of a forwarded stream: what its clients have of them, and whether they read it as it was meant."""

from __future__ import annotations

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

    def fragments(self, count: int | None = None) -> list[str]:
        """Return the first fragments of the arguments, or all, as one or two. None is an empty object, which a reader
        would keep back until the next one."""
        text = self.arguments.text(count)
        cut = text.find("{") + 1
        return [piece for piece in (text[:cut], text[cut:]) if piece]


class ForwardedCalls:
    """The calls of one stream by key. `lost` is True once they are too many or too long to be kept."""

    __slots__ = ("_budget", "_ids", "by_key", "lost")

    def __init__(self) -> None:
        self._budget = ReplyBudget(DEFAULT_LIMITS)
        self._ids: set[str] = set()
        self.by_key: dict[int, ForwardedCall] = {}
        self.lost = False

    def start(self, key: int, call_id: Any, name: Any, *, custom: bool = False) -> bool:
        """Record a call. Return False if it has no name, or no id of its own."""
        if type(name) is not str or not name or type(call_id) is not str or not call_id or call_id in self._ids:
            return False
        if len(self.by_key) >= DEFAULT_LIMITS.blocks:
            self.lost = True
            return True
        self._ids.add(call_id)
        self.by_key[key] = ForwardedCall(call_id, name, custom, self._budget)
        return True

    def add(self, key: int, text: Any) -> Verdict:
        """Record a fragment of the arguments of a call."""
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
        elif call.begun and not call.custom and _is_more(call.arguments, text):
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


def _is_more(arguments: Arguments, text: str) -> bool:
    """True if a fragment comes after an empty object, or may repeat what came before it."""
    return arguments.may_repeat(text) if text[:1] == "{" else arguments.is_empty_object() and not text.isspace()

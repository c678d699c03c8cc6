"""The arguments of a streamed call: limited in size while they arrive, checked at the end of the call."""

from __future__ import annotations

import re
from collections.abc import Callable

from dragoman.dialects.shared.json_fields import parse_object
from dragoman.dialects.shared.odd_arguments import EMPTY_FIRST, form_of, read_odd, read_repeated
from dragoman.errors import LimitExceeded, UpstreamProtocolError
from dragoman.limits import Limits
from dragoman.wire.json_codec import loads

_SURROGATE = re.compile(r"[\ud800-\udfff]")
_ESCAPE = re.compile(r"\\.", re.DOTALL)


class ReplyBudget:
    """The size budget that all calls of a reply share (`limits.tool_arguments`), as they are kept until it ends."""

    __slots__ = ("_limit", "left")

    def __init__(self, limits: Limits) -> None:
        self.left = self._limit = limits.tool_arguments

    def take(self, size: int) -> None:
        """Take `size` characters from the budget. Raises LimitExceeded if it is exhausted."""
        self.left -= size
        if self.left < 0:
            raise LimitExceeded("tool_arguments", self._limit, upstream=True)

    def fits(self, size: int) -> bool:
        """Take `size` characters from the budget if it has as many. Return True if it had."""
        if size > self.left:
            return False
        self.left -= size
        return True


class Arguments:
    """The arguments of a call that have arrived, kept for `check` and `is_whole`."""

    __slots__ = (
        "_begun",
        "_braced",
        "_budget",
        "_depth",
        "_escaping",
        "_held",
        "_inside",
        "_left_out",
        "_passed",
        "_pieces",
        "_received",
        "_record",
        "_scanned",
        "_verdict",
        "name",
    )

    def __init__(self, budget: ReplyBudget, name: str = "", record: Callable[[str], None] | None = None) -> None:
        """`record` takes a description of what was repaired, each time."""
        self.name = name
        self._budget = budget
        self._record = record
        self._pieces: list[str] = []
        self._begun = False
        """True once `pass_on` has had a fragment with text."""
        self._held = ""
        """The form of arguments that are kept back, see `odd_arguments`; "" if they are passed on as they arrive."""
        self._passed = 0
        """The number of fragments that were passed on before those that are kept back."""
        self._left_out = ""
        """Arguments that arrived and do not count."""
        self._received = ""
        """All that arrived, if it was read as something else at the end."""
        # The state of the scan of `is_whole`.
        self._scanned = 0
        """The number of pieces that it has read."""
        self._depth = 0
        self._braced = False
        self._inside = 0
        """1 within a string, 0 outside of one."""
        self._escaping = False
        self._verdict: bool | None = None

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def is_blank(self) -> bool:
        """True if they are empty or white space so far."""
        return all(not piece or piece.isspace() for piece in self._pieces)

    def is_empty_object(self) -> bool:
        """True if they are one fragment so far, which is an empty object."""
        return len(self._pieces) == 1 and self._pieces[0].strip() == "{}"

    def add(self, text: str) -> None:
        """Add a fragment. Raises LimitExceeded."""
        if text:
            self._budget.take(len(text))
            self._pieces.append(text)

    def add_all(self, text: str, pieces: list[str]) -> bool:
        """Add the text of several fragments.

        Return False, and add nothing, if that would exceed the limit, or one of them may repeat what came before.
        """
        if "{" in text and any([piece[:1] == "{" for piece in (pieces if self._pieces else pieces[1:])]):
            return False
        budget, size = self._budget, len(text)  # as `fits`, without a call for each chunk
        if size > budget.left:
            return False
        budget.left -= size
        self._pieces.append(text)
        return True

    def pass_on(self, text: str) -> str:
        """Add a fragment, and return the text that can be passed on now. Raises LimitExceeded.

        Arguments that may not be the text of one object are kept back until `rest`.
        """
        repeats = not self._held and text[:1] == "{" and self.may_repeat(text)
        self.add(text)
        if not self._begun:
            if text:
                self._begun = True
                self._held = form_of(text)
            return "" if self._held else text
        if not self._held:
            if not repeats:
                return text
            self._held, self._passed, self._verdict = "repeated", len(self._pieces) - 1, None
            return ""
        if self._held == "empty" and (bare := text.strip()):
            held = "".join(self._pieces[:-1])
            self._held = ""
            if not bare.startswith("{"):
                return held + text
            self._leave_out(held, text)
            return text
        return ""

    def may_repeat(self, text: str) -> bool:
        """True if a fragment begins with all that came before it, or follows a whole object.

        No fragment is compared with more than its own length.
        """
        at = 0
        for piece in self._pieces:
            if not text.startswith(piece, at):
                return self.is_whole()
            at += len(piece)
        return at > 0

    def _leave_out(self, odd: str, counted: str) -> None:
        """Let the arguments be `counted` alone, without what arrived before, which is `odd`."""
        self._left_out, self._pieces = odd, [counted]
        self._scanned = self._depth = self._inside = 0
        self._braced = self._escaping = False
        self._verdict = None
        if self._record is not None:
            self._record(EMPTY_FIRST)

    def rest(self) -> str:
        """Return what was kept back, now that the call has ended, in the form that it means if there is only one."""
        if not self._held:
            return ""
        form, self._held = self._held, ""
        if form == "repeated":
            return self._rest_of_repeated()
        text = self.text()
        if form == "empty" or (odd := read_odd(text)) is None:
            return text
        self._received = text
        self._pieces, self._verdict = [odd[0]], True
        if self._record is not None:
            self._record(odd[1])
        return odd[0]

    def _rest_of_repeated(self) -> str:
        passed, text = self.text(self._passed), self.text()
        if parse_object(text) is None and (odd := read_repeated(passed, self._pieces[self._passed :])) is not None:
            self._received = text
            self._pieces, self._verdict = [odd[0]], True
            text = odd[0]
            if self._record is not None:
                self._record(odd[1])
        return text[len(passed) :]

    def is_held(self) -> bool:
        """True if arguments are kept back."""
        return bool(self._held)

    def shown(self) -> str:
        """Return the arguments so far that were, or can be, passed on."""
        return self.text(self._passed) if self._held else self.text()

    def received(self) -> str:
        """Return all that arrived, with what does not count."""
        return self._received or self._left_out + self.text()

    @property
    def count(self) -> int:
        """The number of fragments so far; several that came at once may be one."""
        return len(self._pieces)

    def text(self, count: int | None = None) -> str:
        """Return the first fragments, or all so far. Halves of a surrogate pair in two are joined to one character."""
        text = "".join(self._pieces[:count])
        if not text.isascii() and _SURROGATE.search(text):
            return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        return text

    def is_whole(self) -> bool:
        """True if the arguments so far are one JSON object, perhaps with white space around it.

        Each character is scanned once, however often this is called; the object is parsed once, at its last brace.
        """
        if self._verdict is not None:
            return self._verdict
        if self._scanned < len(self._pieces):
            self._scan()
            if self._braced and self._depth <= 0 and not self._inside:
                try:
                    self._verdict = type(loads(self.text())) is dict
                except ValueError:
                    self._verdict = False  # the brackets match but it is not JSON, and no further text can change that
        return self._verdict is True

    def ends_whole(self) -> bool:
        """True if the arguments, all of which have arrived, are a JSON object. They are parsed once."""
        if self._verdict is None and (text := self.text()) and parse_object(text) is not None:
            self._verdict = True
        return self._verdict is True

    def _scan(self) -> None:
        text = "".join(self._pieces[self._scanned :])
        self._scanned = len(self._pieces)
        if self._escaping:
            text = "\\" + text
        bare = _ESCAPE.sub("", text) if "\\" in text else text
        self._escaping = bare.endswith("\\")
        between = bare.split('"')
        outside = "".join(between[self._inside :: 2])
        self._inside = (self._inside + len(between) - 1) % 2
        self._braced = self._braced or "{" in outside
        self._depth += outside.count("{") + outside.count("[") - outside.count("}") - outside.count("]")

    def check(self) -> None:
        """Raise UpstreamProtocolError unless they are a JSON object; empty arguments count as `{}` (mapping §6.3).

        Otherwise a client would run a call with other arguments if the stream lost a fragment.
        """
        if self._verdict:
            return
        text = self.text()
        if not text or text.isspace():
            return
        try:
            value = loads(text)
        except ValueError:
            raise UpstreamProtocolError(
                f"upstream ended the call of {self.name!r} with arguments that are not whole JSON"
            ) from None
        if type(value) is not dict:
            raise UpstreamProtocolError(f"upstream called {self.name!r} with arguments that are not a JSON object")

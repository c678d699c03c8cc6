"""Breaches of a dialect in what clients were sent, told in the log: one line for each reply, and not too many."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from dragoman.dialects.errors.redact import quote, redact

if TYPE_CHECKING:
    from dragoman.stages.violation import Violation
    from dragoman_server.observability.receipts import Receipt

log = logging.getLogger("dragoman")
MOST: Final = 10
"""Lines in one minute; the next one behind them says how many were left out."""
_MINUTE: Final = 60.0
_LINE_MAX: Final = 1000
"""Longest breach in a line, in characters: a rule and a masked frame."""


class Offenders:
    """Who tells the log of breaches. `clock` gives seconds from any origin."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since = clock() - _MINUTE
        self._told = self._left_out = 0

    def tell(self, receipt: Receipt, violation: Violation) -> None:
        """A reply has ended that broke its client's dialect; the receipt still has its translation."""
        now = self._clock()
        if now - self._since >= _MINUTE:
            self._since, self._told = now, 0
        if self._told >= MOST:
            self._left_out += 1
            return
        self._told += 1
        translation = receipt.translation
        assert translation is not None
        shown = redact(str(violation), translation.context.secrets)
        # What passes through is as the upstream made it; anything else is a defect of ours.
        who = "upstream" if translation.passthrough else "output"
        more = f"; {self._left_out} more replies did, of which no line was written" if self._left_out else ""
        self._left_out = 0
        log.warning("%s %s %s (route %s) %s broke its grammar: %s%s", receipt.request_id, translation.direction,
                    receipt.provider, receipt.route, who, quote(shown, _LINE_MAX), more)  # fmt: skip

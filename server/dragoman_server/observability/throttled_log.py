"""Warnings that are limited in number: failures of upstreams, and violations of a dialect in replies.

An upstream that cannot be reached fails each request in the same way, and a server that breaks its dialect's grammar
does so in each reply. Some of these lines are logged as warnings, and the next one states how many were not.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from dragoman import Failure
from dragoman.errors import FailureKind, FailureOrigin
from dragoman.gateway import Violation, quote, redact
from dragoman_server.config.provider import Auth, Provider
from dragoman_server.receipt import Receipt

log = logging.getLogger("dragoman")
WARNING_INTERVAL: Final = 60.0
"""Seconds between two warnings of one kind about one upstream."""
VIOLATIONS_MAX: Final = 10
"""Most lines about violations in one minute."""
_MINUTE: Final = 60.0
_LINE_MAX: Final = 1000
"""Longest violation in a line, in characters: a rule and a masked frame."""
KEY_ERRORS: Final = frozenset({FailureKind.AUTHENTICATION, FailureKind.BILLING, FailureKind.PERMISSION})
"""Errors about the key that was sent. The operator can act on them only if the key is a configured one."""
_CONNECTION_ERRORS: Final = frozenset({"unreachable", "connect"})


class UpstreamWarnings:
    """Decides which failures of upstreams are warnings: those that an operator has to act on.

    Each request still has its line of the log; `--quiet` shows the warnings only. `clock` returns seconds from any
    origin.
    """

    def __init__(self, providers: Mapping[str, Provider], clock: Callable[[], float] = time.monotonic) -> None:
        self._places = {name: provider.address() for name, provider in providers.items()}
        self._with_key = frozenset(name for name, provider in providers.items() if provider.auth is Auth.CONFIGURED)
        self._clock = clock
        self._warned: dict[tuple[str | None, str], tuple[float, int]] = {}
        """By provider and cause: the time of the last warning, and the number of failures since."""

    def level(self, provider: str | None, failure: Failure) -> tuple[int, str]:
        """Return the level of the line about a failure of a provider, and a note to append to the line.

        For a connection that failed, the note names the upstream's host and port, which clients do not get.
        """
        cause = self._cause(provider, failure)
        if cause is None:
            return logging.INFO, ""
        place = self._places.get(provider or "") if cause in _CONNECTION_ERRORS else None
        note = f"; upstream at {place}" if place is not None else ""
        more = self._due((provider, cause))
        return (logging.INFO, note) if more is None else (logging.WARNING, note + more)

    def of_fallback(self, provider: str, outcome: str) -> str | None:
        """Return the note of a warning that a request has left a provider after this outcome; None for no warning."""
        return self._due((provider, f"left:{outcome}"))

    def _due(self, key: tuple[str | None, str]) -> str | None:
        """Return the end of a warning's line, or None if one of this kind was logged a short time ago."""
        now = self._clock()
        since, times = self._warned.get(key) or (now - WARNING_INTERVAL, 0)
        if now - since < WARNING_INTERVAL:
            self._warned[key] = since, times + 1
            return None
        self._warned[key] = now, 0
        return f"; {times} more since the last warning" if times else ""

    def _cause(self, provider: str | None, failure: Failure) -> str | None:
        if failure.origin is not FailureOrigin.UPSTREAM:
            return None
        if failure.reason in _CONNECTION_ERRORS:
            return failure.reason
        return failure.kind if failure.kind in KEY_ERRORS and provider in self._with_key else None


class LinesPerMinute:
    """Limits lines of the log to `most` in one minute. `clock` returns seconds from any origin."""

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self._most = most
        self._clock = clock
        self._minute_began = clock() - _MINUTE
        self._taken = self._suppressed = 0

    def take(self) -> bool:
        """Return True if another line may be written; else it is counted as suppressed."""
        now = self._clock()
        if now - self._minute_began >= _MINUTE:
            self._minute_began, self._taken = now, 0
        if self._taken >= self._most:
            self._suppressed += 1
            return False
        self._taken += 1
        return True

    def suppressed(self) -> int:
        """Return the number of lines that were suppressed since the last call."""
        count, self._suppressed = self._suppressed, 0
        return count


class ViolationLog:
    """Logs violations of a dialect in replies, at most `VIOLATIONS_MAX` per minute.

    `clock` returns seconds from any origin.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._lines = LinesPerMinute(VIOLATIONS_MAX, clock)

    def record(self, receipt: Receipt, violation: Violation) -> None:
        """Log the violation of a reply that has ended. Its receipt must still have its translation."""
        if not self._lines.take():
            return
        translation = receipt.translation
        assert translation is not None
        shown = redact(str(violation), translation.context.secrets)
        # Output that passes through is the upstream's; other output is Dragoman's, and the violation a defect.
        side = "upstream" if translation.passthrough else "output"
        suppressed = self._lines.suppressed()
        more = f"; {suppressed} more replies did, of which no line was written" if suppressed else ""
        log.warning("%s %s %s (route %s) %s broke its grammar: %s%s", receipt.request_id, translation.direction,
                    receipt.provider, receipt.route, side, quote(shown, _LINE_MAX), more)  # fmt: skip

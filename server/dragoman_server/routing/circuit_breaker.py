"""A passive circuit breaker: after several failures in a row a provider gets no requests for a while.

It is closed while the provider works, and open during a pause. After the pause requests are let through, one in each
second, until a first one succeeds, which closes the breaker. A failure begins a pause of twice the length.

A failure may be caused by what one client sends. Such failures name their `part`: the breaker opens only on those of
two parts, of which neither counts for more than half.
"""

from __future__ import annotations

from collections.abc import Callable

PROBE = 1.0
"""Seconds between two requests that test a provider. One that takes long must not keep out all others."""


class CircuitBreaker:
    """The breaker of one provider. `clock` returns seconds from any origin; `configure` sets the limits."""

    def __init__(self, failures: int, cooldown: float, longest: float, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.failures = 0
        """Failures since the last success, as far as they count."""
        self.open = False
        """True from the failure that opens the breaker to the success that closes it."""
        self.until = 0.0
        """The end of the pause, on the clock."""
        self._probed: float | None = None
        """When the last request after the pause began, unless it ended without a result."""
        self._parts: dict[bytes, int] = {}
        """Failures by part since the last success, or since the last pause began; those without a part below b""."""
        self._pause = cooldown
        self.configure(failures, cooldown, longest)

    def configure(self, failures: int, cooldown: float, longest: float) -> None:
        """Set the failures that open it (0: never), and the first and the longest pause."""
        self._limit, self._cooldown, self._longest = failures, cooldown, max(cooldown, longest)
        if not self.open:
            self._pause = cooldown

    def remaining(self) -> float:
        """Return the seconds until a request is let through, 0 if one is now."""
        if not self.open:
            return 0.0
        free = self.until if self._probed is None else max(self.until, self._probed + PROBE)
        return max(0.0, free - self._clock())

    @property
    def is_tested(self) -> bool:
        """True if a pause is over, and a request was let through since."""
        return self.open and self._probed is not None and self._clock() >= self.until

    def begin(self) -> None:
        """Record that a request was let through. `succeeded`, `failed` or `abandoned` must follow."""
        if self.open:
            self._probed = self._clock()

    def succeeded(self) -> bool:
        """Record a success. Return True if it closes the breaker."""
        was_open, self.open = self.open, False
        self.failures, self._probed, self._pause = 0, None, self._cooldown
        if self._parts:
            self._parts = {}
        return was_open

    def failed(self, part: bytes = b"") -> bool:
        """Record a failure, of one `part` or of the provider itself.

        Return True if it opens the breaker, or begins a further pause.
        """
        now = self._clock()
        if self.open and not self.is_tested:
            self.failures += 1  # of a request from before the pause: it is known already
            return False
        if not self._limit and not self.open:
            self.failures += 1
            return False
        parts = self._parts
        count = parts[part] = parts.get(part, 0) + 1
        if part and not self.open and count > (self._limit + 1) // 2:
            return False
        self.failures += 1
        if part and len(parts) == 1:
            return False
        if self.open:
            self._pause = min(self._longest, self._pause * 2)
        elif self.failures < self._limit:
            return False
        self._parts = {}
        self.open, self._probed = True, None
        self.until = now + self._pause
        return True

    def abandoned(self) -> None:
        """Record that a request ended without a result, such as that of a client that disconnected."""
        self._probed = None

    def hold(self, seconds: float) -> bool:
        """Open it for at least `seconds`, as another gateway found the provider failing. Return True if it was closed.

        The pause is shortened to the longest one.
        """
        was_open, self.open = self.open, True
        self.until = max(self.until, self._clock() + min(seconds, self._longest))
        return not was_open

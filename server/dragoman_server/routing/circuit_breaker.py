"""A passive circuit breaker: after several failures in a row a provider gets no requests for a while.

It is closed while the provider works, and open during a pause. After the pause one request is let through. Its success
closes the breaker; its failure begins a pause of twice the length.
"""

from __future__ import annotations

from collections.abc import Callable


class CircuitBreaker:
    """The breaker of one provider. `clock` returns seconds from any origin; `configure` sets the limits."""

    __slots__ = ("_clock", "_cooldown", "_limit", "_longest", "_pause", "_probing", "failures", "open", "until")

    def __init__(self, failures: int, cooldown: float, longest: float, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.failures = 0
        """Failures since the last success."""
        self.open = False
        """True from the failure that opens the breaker to the success that closes it."""
        self.until = 0.0
        """The end of the pause, on the clock."""
        self._probing = False
        self._pause = cooldown
        self.configure(failures, cooldown, longest)

    def configure(self, failures: int, cooldown: float, longest: float) -> None:
        """Set the failures that open it (0: never), and the first and the longest pause."""
        self._limit, self._cooldown, self._longest = failures, cooldown, max(cooldown, longest)
        if not self.open:
            self._pause = cooldown

    def remaining(self) -> float:
        """Return the seconds until a request is let through, 0 if one is now.

        While the request after a pause is under way, this is a first pause for all others.
        """
        if not self.open:
            return 0.0
        return max(0.0, self.until - self._clock()) or (self._cooldown if self._probing else 0.0)

    def begin(self) -> None:
        """Record that a request was let through. `succeeded`, `failed` or `abandoned` must follow."""
        if self.open:
            self._probing = True

    def succeeded(self) -> bool:
        """Record a success. Returns True if it closes the breaker."""
        was_open, self.open = self.open, False
        self.failures, self._probing, self._pause = 0, False, self._cooldown
        return was_open

    def failed(self) -> bool:
        """Record a failure. Returns True if it opens the breaker, or begins a further pause."""
        self.failures += 1
        now = self._clock()
        if self.open:
            # Requests from before the pause may fail during it: that is known already.
            if not self._probing or now < self.until:
                return False
            self._pause = min(self._longest, self._pause * 2)
        elif not self._limit or self.failures < self._limit:
            return False
        self.open, self._probing = True, False
        self.until = now + self._pause
        return True

    def abandoned(self) -> None:
        """Record that a request ended without a result, such as that of a client that disconnected."""
        self._probing = False

    def hold(self, seconds: float) -> bool:
        """Open it for at least `seconds`, as another gateway found the provider failing. Returns True if it was closed.

        The pause is shortened to the longest one.
        """
        was_open, self.open = self.open, True
        self.until = max(self.until, self._clock() + min(seconds, self._longest))
        return not was_open

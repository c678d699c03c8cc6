"""What is remembered for a time, and no more of it than so much."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Lasting(Generic[K, V]):
    """At most `most` values, each for `seconds`; the oldest goes first."""

    def __init__(self, most: int, seconds: float, clock: Callable[[], float]) -> None:
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._values: dict[K, tuple[float, V]] = {}

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: K) -> bool:
        return self.get(key) is not None

    def get(self, key: K) -> V | None:
        """The value, while it lasts."""
        found = self._values.get(key)
        if found is None:
            return None
        until, value = found
        if self._clock() >= until:
            del self._values[key]
            return None
        return value

    def put(self, key: K, value: V) -> None:
        """Remember a value from now on."""
        self._values.pop(key, None)
        if len(self._values) >= self._most:
            del self._values[next(iter(self._values))]
        self._values[key] = (self._clock() + self._seconds, value)

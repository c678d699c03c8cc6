"""A bounded cache whose entries expire."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class TTLCache(Generic[K, V]):
    """Holds at most `most` values, each for `seconds`. The oldest is evicted first. `clock` returns seconds."""

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
        """Return the value of a key, None if it was not stored or has expired."""
        found = self._values.get(key)
        if found is None:
            return None
        until, value = found
        if self._clock() >= until:
            del self._values[key]
            return None
        return value

    def put(self, key: K, value: V) -> None:
        """Store a value for the cache's time."""
        self._values.pop(key, None)
        if len(self._values) >= self._most:
            del self._values[next(iter(self._values))]
        self._values[key] = (self._clock() + self._seconds, value)

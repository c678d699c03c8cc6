"""What was worked out lately, by the text it was worked out from.

A memo of a pure function: it changes no result, only what a result costs. It holds no more than its bound, whoever
sends what, and threads may share it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class TextCache(Generic[T]):
    """Values of texts that have `most` characters together; what was longest unused goes.

    Nothing is counted when a value is found: when the younger half of the room is full it becomes the older half, and
    what was not asked for since it did so is gone the next time.
    """

    __slots__ = ("_half", "_old", "_size", "young")

    def __init__(self, most: int) -> None:
        self._half = most // 2
        self.clear()

    def clear(self) -> None:
        """Forget all."""
        self.young: dict[str, T] = {}
        """What was kept or found last: to look here first spares a call."""
        self._old: dict[str, T] = {}
        self._size = 0

    def get(self, text: str) -> T | None:
        """What was kept for `text`, if it still is."""
        found = self.young.get(text)
        if found is None:
            found = self._old.get(text)
            if found is not None:
                self.put(text, found)
        return found

    def put(self, text: str, value: T) -> None:
        """Keep a value that nobody will change. That of a text which would take half of the room is not kept."""
        size = len(text)
        # No lock: from here on nothing is called, so CPython lets no other thread in between. Without its global lock
        # two threads could count one text too little, until the half is full and the count begins anew.
        if size > self._half or text in self.young:
            return
        if self._size + size > self._half:
            self._old, self.young, self._size = self.young, {}, 0
        self.young[text] = value
        self._size += size


K = TypeVar("K", bound=Hashable)


V = TypeVar("V")


class TTLCache(Generic[K, V]):
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

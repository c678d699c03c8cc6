"""A bounded cache of values that were computed from texts."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class TextCache(Generic[T]):
    """Maps texts to values, for texts of at most `most` characters together. Threads may share it.

    It has two generations and keeps no order of use: when the younger one is full it becomes the older one, and what
    the older one held and was not found since then is dropped. So a hit costs one dictionary lookup.
    """

    __slots__ = ("_half", "_old", "_size", "young")

    def __init__(self, most: int) -> None:
        self._half = most // 2
        self.clear()

    def clear(self) -> None:
        """Drop everything."""
        self.young: dict[str, T] = {}
        """The younger generation. A caller may look here first, which saves a call."""
        self._old: dict[str, T] = {}
        self._size = 0

    def get(self, text: str) -> T | None:
        """Return the value of `text`, or None if it is not stored or was dropped."""
        found = self.young.get(text)
        if found is None:
            found = self._old.get(text)
            if found is not None:
                self.put(text, found)
        return found

    def put(self, text: str, value: T) -> None:
        """Store a value, which must not change afterwards. A text of half the capacity or more is not stored."""
        size = len(text)
        # No lock: nothing is called from here on, so CPython switches to no other thread. Without the global lock two
        # threads could count one text too few, until the next generation starts at 0.
        if size > self._half or text in self.young:
            return
        if self._size + size > self._half:
            self._old, self.young, self._size = self.young, {}, 0
        self.young[text] = value
        self._size += size

"""The token counts of an upstream Messages stream (mapping §9.4)."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.events import Usage
from dragoman.canonical.request import Json
from dragoman.dialects.messages.stop_and_usage import merge_counts, read_usage


class UsageReader:
    """Merges the cumulative counts of one stream: later counts replace earlier ones, they are not added."""

    __slots__ = ("_canonical", "_counts", "_final")

    def __init__(self) -> None:
        self._counts: Json = {}
        self._canonical: Usage | None = None
        """The canonical form of `_counts`; None if they have changed since."""
        self._final = False
        """True once `message_delta` counted the output."""

    def start(self, usage: Any) -> None:
        """Take the counts of `message_start`. Its count of the output is not final."""
        if type(usage) is dict:
            self._counts = dict(usage)

    def update(self, usage: Any) -> bool:
        """Take the counts of a `message_delta`. Return True if `merge_counts` corrected the input."""
        if type(usage) is not dict:
            return False
        self._canonical = None
        self._final |= usage.get("output_tokens") is not None
        return merge_counts(self._counts, usage)

    def canonical(self) -> Usage | None:
        """Return the counts so far, None if nothing was counted."""
        if self._canonical is None and self._counts:
            self._canonical = read_usage(self._counts)
        return self._canonical

    def is_final(self) -> bool:
        """True if an event after the content counted the output."""
        return self._final

    def is_preliminary(self) -> bool:
        """True if only `message_start` counted the output."""
        return not self._final and bool(self._counts.get("output_tokens"))

"""The share of the streams that is validated: checking a stream costs several times as much as translating it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dragoman.short_repr import short_repr

FIRST: Final = 20
"""The streams of each direction and provider that are validated before the share applies."""


class ValidationSample:
    """Chooses the streams that are validated: the first `FIRST` of each direction and provider, then a share.

    A new vendor's quirk is thereby found at once. Make one sample per configuration, and pass `take` to `translate`:

        sample = ValidationSample(0.02, random.random)
        options = ReplyOptions(validate=lambda: sample.take("messages", "chat", "vendor"))
        translate(direction, body, options=options)

    Args:
        share: The share of the streams after the first ones, from 0 to 1. 0 chooses none at all.
        chance: Returns a number from 0 up to, but not including, 1.
    """

    __slots__ = ("_chance", "_taken", "share")

    def __init__(self, share: float, chance: Callable[[], float]) -> None:
        self.share = share
        self._chance = chance
        self._taken: dict[tuple[str, str, str], int] = {}
        """The streams chosen so far, by direction and provider, up to `FIRST`."""

    def __repr__(self) -> str:
        return short_repr(self, f"{self.share:g}")

    def take(self, client: str, upstream: str, provider: str) -> bool:
        """Return whether the stream that begins now is validated.

        `client` and `upstream` are the dialects. `provider` is any name for the upstream from a limited set.
        """
        if not self.share:
            return False
        place = client, upstream, provider
        if (taken := self._taken.get(place, 0)) < FIRST:
            self._taken[place] = taken + 1
            return True
        return self._chance() < self.share

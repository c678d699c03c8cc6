"""The headers with the remaining limits of a key, as the vendor of the client's dialect writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil

from multidict import istr

from dragoman import Dialect
from dragoman.gateway import CLIENT_DIALECTS, written_duration
from dragoman_server.accounts.limits.claim import REQUESTS, TOKENS, BucketLimit
from dragoman_server.accounts.limits.decision import SCALE
from dragoman_server.accounts.limits.period import rfc3339

_FACTS = ("limit", "remaining", "reset")
_LIMITS = {client: limits for client in CLIENT_DIALECTS if (limits := client.facts.limits) is not None}
_NAMES = {
    limits: {
        # aiohttp would convert plain names for each reply.
        name: tuple(istr(limits.form.format(what=name, fact=fact)) for fact in _FACTS)
        for name in (REQUESTS, TOKENS)
    }
    for limits in dict.fromkeys(_LIMITS.values())
}
"""The names of the headers of each vendor."""


class _Form:
    """The headers of one vendor: those that never change, and for each bucket what the others are computed from."""

    def __init__(self, buckets: Iterable[BucketLimit], names: Mapping[str, tuple[str, ...]]) -> None:
        self.headers: dict[str, str] = {}
        """All headers in their order, those that change without a value."""
        self.buckets: list[tuple[int, str, str, int, int]] = []
        """Index, names of the headers with what remains and with the reset, limit, and level if it is full."""
        for index, (name, size, _) in enumerate(buckets):
            limit, remaining, reset = names[name]
            self.headers |= {limit: str(size), remaining: "", reset: ""}
            self.buckets.append((index, remaining, reset, size, size * SCALE))


class RateHeaders:
    """Writes the headers with the limits per minute of one key."""

    def __init__(self, buckets: Sequence[BucketLimit]) -> None:
        forms = {limits: _Form(buckets, names) for limits, names in _NAMES.items()}
        self._forms = {client: (forms[limits], limits.resets == "time") for client, limits in _LIMITS.items()}

    def write(self, levels: Sequence[int], client: Dialect, now: float) -> dict[str, str]:
        """Return the headers for these levels of the buckets, at Unix seconds `now`.

        OpenAI writes the time until a limit is full again as a duration, Anthropic as a time (RFC 3339).
        """
        form, as_time = self._forms[client]
        headers = form.headers.copy()
        for index, remaining, reset, size, full in form.buckets:
            level = levels[index]
            missing = full - level
            headers[remaining] = str(level // SCALE) if level > 0 else "0"
            headers[reset] = (
                rfc3339(ceil(now + missing / size / 1000)) if as_time else written_duration(-(-missing // size))
            )
        return headers

"""The headers with the remaining limits of a key, as the vendor of the client's dialect writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil

from multidict import istr

from dragoman import Dialect
from dragoman_server.accounts.limits.claim import REQUESTS, TOKENS, BucketLimit
from dragoman_server.accounts.limits.decision import SCALE
from dragoman_server.accounts.limits.period import rfc3339

_FACTS = ("limit", "remaining", "reset")
# aiohttp would convert plain names for each reply.
_OPENAI = {name: tuple(istr(f"x-ratelimit-{fact}-{name}") for fact in _FACTS) for name in (REQUESTS, TOKENS)}
_ANTHROPIC = {name: tuple(istr(f"anthropic-ratelimit-{name}-{fact}") for fact in _FACTS) for name in (REQUESTS, TOKENS)}


class _Form:
    """The headers of one vendor: those that never change, and for each bucket what the others are computed from."""

    __slots__ = ("buckets", "headers")

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

    __slots__ = ("_anthropic", "_openai")

    def __init__(self, buckets: Sequence[BucketLimit]) -> None:
        self._openai = _Form(buckets, _OPENAI)
        self._anthropic = _Form(buckets, _ANTHROPIC)

    def write(self, levels: Sequence[int], client: Dialect, now: float) -> dict[str, str]:
        """Return the headers for these levels of the buckets, at Unix seconds `now`.

        OpenAI writes the time until a limit is full again as a duration, Anthropic as a time (RFC 3339).
        """
        messages = client is Dialect.MESSAGES
        form = self._anthropic if messages else self._openai
        headers = form.headers.copy()
        for index, remaining, reset, size, full in form.buckets:
            level = levels[index]
            missing = full - level
            headers[remaining] = str(level // SCALE) if level > 0 else "0"
            headers[reset] = rfc3339(ceil(now + missing / size / 1000)) if messages else _duration(size, missing)
        return headers


def _duration(size: int, missing: int) -> str:
    """Return the time in which a bucket of this size gains `missing` units."""
    millis = -(-missing // size)
    if millis < 1000:
        return f"{millis}ms" if millis else "0s"
    whole = -(-millis // 1000)
    hours, minutes, seconds = whole // 3600, whole // 60 % 60, whole % 60
    if hours:
        return f"{hours}h{minutes}m{seconds}s"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"

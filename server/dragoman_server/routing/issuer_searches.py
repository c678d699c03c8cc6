"""The searches for issuers that are not known: what a client may cost the providers with ids that no one has.

A search asks up to `TRIES_MAX` providers for one request. So a client has few searches at a time, requests for the
same id share one, and an id that a provider does not have is not asked for again for a while.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from math import ceil
from typing import Final

from dragoman import DragomanError, Failure
from dragoman.errors import FailureKind, FailureOrigin
from dragoman_server.routing.response_issuers import Issuer, response_digest

TRIES_MAX: Final = 8
"""Most providers, each with each of its keys, that are asked for one response."""
SECONDS: Final = 10.0
"""Longest time for all of them, and for the wait for a place."""
OPEN_MAX: Final = 4
"""Most searches of one client at a time. Others wait."""
MISSES_MAX: Final = 32
"""Most ids of one client that no provider had within `MISS_SECONDS`. With more, its searches are rejected."""
MISS_SECONDS: Final = 10.0
CLIENTS_MAX: Final = 256
"""Most clients whose misses are known. Those of the client that searched the longest time ago are forgotten."""

Ask = Callable[[Issuer], Awaitable[bool | None]]
"""Returns True if an issuer has what is searched, False if not, None if it does not answer that."""


class IssuerSearches:
    """The searches of one process. `clock` returns seconds from any origin."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._clients: OrderedDict[bytes, _Client] = OrderedDict()

    def __len__(self) -> int:
        return len(self._clients)

    async def find(self, client: bytes, given: str, among: Sequence[Issuer], ask: Ask) -> Issuer | None:
        """Return the first of the issuers that has the response or conversation with the id `given`.

        `client` stands for all that separates clients at these issuers. The first `TRIES_MAX` are asked, one by one. If
        none has it, return the first one that did not answer; None if all have answered. Raises DragomanError (429) if
        the client has searched too much.
        """
        state = self._clients.setdefault(client, _Client())
        self._clients.move_to_end(client)
        if len(self._clients) > CLIENTS_MAX:
            self._clients.popitem(last=False)
        digest = response_digest(client, given)
        missing = state.missing(digest, self._clock())
        left = tuple(issuer for issuer in among[:TRIES_MAX] if issuer not in missing)
        if not left:
            return None
        search = state.open.get((digest, left))
        if search is None:
            search = state.open[digest, left] = _Search(self._search(state, digest, left, ask))
        search.waiting += 1
        try:
            return await asyncio.shield(search.task)
        finally:
            search.waiting -= 1
            if not search.waiting:
                del state.open[digest, left]
                search.task.cancel()

    async def _search(self, state: _Client, digest: bytes, left: tuple[Issuer, ...], ask: Ask) -> Issuer | None:
        silent: Issuer | None = None
        asked: Issuer | None = None
        try:
            async with asyncio.timeout(SECONDS), state.places:
                state.check(self._clock())
                for asked in left:
                    found = await ask(asked)
                    if found:
                        return asked
                    if found is None:
                        silent = silent or asked
                    else:
                        state.miss(digest, asked, self._clock())
        except TimeoutError:
            if asked is None:
                raise _too_many(1) from None
            return silent or asked
        return silent


class _Client:
    """The open searches and the misses of one client."""

    __slots__ = ("_misses", "open", "places")

    def __init__(self) -> None:
        self.places = asyncio.Semaphore(OPEN_MAX)
        self.open: dict[tuple[bytes, tuple[Issuer, ...]], _Search] = {}
        self._misses: dict[bytes, tuple[float, set[Issuer]]] = {}
        """By the digest of the id, oldest first: when they are forgotten, and the issuers that do not have it."""

    def missing(self, digest: bytes, now: float) -> frozenset[Issuer]:
        """Return the issuers that are known not to have an id."""
        for each, (until, _) in list(self._misses.items()):
            if until > now:
                break
            del self._misses[each]
        found = self._misses.get(digest)
        return frozenset(found[1]) if found is not None else frozenset()

    def miss(self, digest: bytes, issuer: Issuer, now: float) -> None:
        """Note that an issuer does not have an id."""
        self._misses.setdefault(digest, (now + MISS_SECONDS, set()))[1].add(issuer)

    def check(self, now: float) -> None:
        """Raise DragomanError (429) if too many ids are known that no provider had."""
        self.missing(b"", now)
        if len(self._misses) >= MISSES_MAX:
            until, _ = next(iter(self._misses.values()))
            raise _too_many(max(1, ceil(until - now)))


class _Search:
    """A search, and the number of requests that wait for it. It ends with the last of them."""

    __slots__ = ("task", "waiting")

    def __init__(self, search: Awaitable[Issuer | None]) -> None:
        self.task = asyncio.ensure_future(search)
        self.waiting = 0


def _too_many(seconds: int) -> DragomanError:
    message = (
        f"too many requests for responses or conversations that no provider is known to have; try again in {seconds} "
        "seconds, and name those that exist"
    )
    headers = {"retry-after": str(seconds)}
    return DragomanError(Failure(FailureKind.RATE_LIMIT, message, 429, origin=FailureOrigin.CLIENT, headers=headers))

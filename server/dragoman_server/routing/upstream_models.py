"""The model lists of upstreams, fetched in the background and cached.

A client waits up to `WAIT` seconds for a list that was never fetched before, and not for others: the old list is used
until the new one is there. An upstream whose list cannot be fetched is tried again after `PAUSE` seconds.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from weakref import WeakValueDictionary

from dragoman import DragomanError
from dragoman.aio import Timeouts, UpstreamRequest
from dragoman.gateway import MODEL_LIST_PATH, ListedModel, model_list_query, read_model_list
from dragoman.wire import json_dumps, json_loads
from dragoman_server.config.provider import Provider
from dragoman_server.credentials.provider_request import request_to
from dragoman_server.routing.list_problems import unreachable

log = logging.getLogger("dragoman")

FRESH = 300.0
"""Seconds after which a list is fetched again."""
PAUSE = 30.0
"""Seconds before a list that could not be fetched is tried again."""
WAIT = 2.0
"""Longest time that a client waits for lists that were never fetched, in seconds."""
TIMEOUT = 5.0
"""Seconds that an upstream has to send its whole list."""
MODELS_MAX = 2000
"""Most models of one upstream."""
BODY_MAX = 4 * 1024 * 1024
"""Most bytes of one page."""
PAGES_MAX = 5
KEPT = 64
"""Most lists that are cached; the least recently used one is dropped first, and before it those that are empty. Clients
with keys of their own have a list for each key, and may invent keys."""
FETCHES_MAX = 8
"""Most requests for lists at the same time."""
CLIENT_FETCHES = 4
"""Most of them for one client."""
CLIENT_WAITING = 16
"""Most requests for lists of one client that run or wait for others; beyond it, a list is empty."""

Fetch = Callable[[UpstreamRequest], Awaitable[tuple[int, bytes]]]
"""Sends a request and returns status and body. Raises UpstreamError."""
Listed = Callable[[Provider, Iterable[ListedModel]], None]
"""Gets each list of a provider that was fetched."""


class ListRefused(ValueError):
    """An upstream's response to the request for its models is not a 200; `status` is its status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


async def fetch_models(fetch: Fetch, provider: Provider, headers: Mapping[str, str]) -> tuple[ListedModel, ...]:
    """Fetch all pages of a provider's list. Raises UpstreamError, ListRefused, and ValueError if it is no list."""
    timeouts = Timeouts(connect=TIMEOUT, first_byte=TIMEOUT, idle=TIMEOUT)
    models: dict[str, ListedModel] = {}
    after = None
    for _ in range(PAGES_MAX):
        url = provider.endpoint(MODEL_LIST_PATH, model_list_query(provider.dialect, after))
        status, body = await fetch(request_to(provider, url, headers, b"", False, timeouts, "GET"))
        if status != 200:
            raise ListRefused(status)
        page = read_model_list(await asyncio.to_thread(json_loads, body))
        for model in page.models:
            models.setdefault(model.name, model)
        if page.after is None or page.after == after or len(models) >= MODELS_MAX:
            break
        after = page.after
    return tuple(models.values())[:MODELS_MAX]


@dataclass(slots=True)
class _List:
    """The list of one upstream with one key. `models` has no value until the first response or failure."""

    models: tuple[ListedModel, ...] | None = None
    due: float = 0.0
    failed: bool = False
    reached: bool = True
    refresh: asyncio.Task[None] | None = None


class _Turns:
    """The fetches of one client: `waiting` of them run or wait."""

    def __init__(self, most: int) -> None:
        self.slots = asyncio.Semaphore(most)
        self.waiting = 0


class UpstreamModels:
    """The lists of a gateway's upstreams. `listed` gets each one that is fetched. `clock` returns seconds from any
    origin; `wait` is in seconds."""

    def __init__(
        self,
        fetch: Fetch,
        listed: Listed | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        wait: float = WAIT,
    ) -> None:
        self._fetch = fetch
        self._listed = listed
        self._clock = clock
        self._wait = wait
        self._lists: dict[bytes, _List] = {}
        self._refreshes: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(FETCHES_MAX)
        self._of_client: WeakValueDictionary[Hashable, _Turns] = WeakValueDictionary()

    def known(self, provider: Provider, headers: Mapping[str, str]) -> tuple[ListedModel, ...]:
        """Return the cached list of a provider for requests with these headers, empty if it was not fetched."""
        found = self._lists.get(_key(provider, headers))
        return (found.models or ()) if found is not None else ()

    def refresh(self, providers: Iterable[tuple[Provider, Mapping[str, str]]]) -> None:
        """Fetch the lists that are due in the background, for the gateway itself."""
        for provider, headers in providers:
            self._refreshed(provider, headers)

    def _refreshed(
        self, provider: Provider, headers: Mapping[str, str], client: Hashable = None, *, early: bool = False
    ) -> _List:
        """Return a list, which is fetched in the background if it is due; with `early`, also if it was not reached."""
        key = _key(provider, headers)
        entry = self._lists.pop(key, None) or _List()
        if len(self._lists) >= KEPT:
            empty = (each for each, old in self._lists.items() if not old.models)
            del self._lists[next(empty, next(iter(self._lists)))]
        self._lists[key] = entry
        due = self._clock() >= entry.due or (early and not entry.reached)
        if entry.refresh is None and due and len(self._refreshes) < KEPT:
            most = FETCHES_MAX if client is None else CLIENT_FETCHES
            turns = self._of_client.setdefault(client, _Turns(most))
            if turns.waiting < CLIENT_WAITING or client is None:
                turns.waiting += 1
                entry.refresh = task = asyncio.create_task(self._refresh_one(entry, provider, headers, turns))
                self._refreshes.add(task)
                task.add_done_callback(self._refreshes.discard)
        return entry

    async def lists(
        self, providers: Iterable[tuple[Provider, Mapping[str, str]]], client: Hashable = None
    ) -> list[tuple[ListedModel, ...]]:
        """Return the list of each provider; empty for one that has none, or does not send it in time.

        Clients take turns. None is the gateway itself.
        """
        entries = [self._refreshed(provider, headers, client) for provider, headers in providers]
        if first := {each.refresh for each in entries if each.refresh is not None and each.models is None}:
            await asyncio.wait(first, timeout=self._wait)
        return [each.models or () for each in entries]

    async def fetched(self, provider: Provider, headers: Mapping[str, str]) -> tuple[ListedModel, ...] | None:
        """Return the list of a provider after a fetch, or None if the provider cannot be reached."""
        entry = self._refreshed(provider, headers, early=True)
        if entry.refresh is not None:
            await asyncio.wait({entry.refresh})
        return (entry.models or ()) if entry.reached else None

    async def close(self) -> None:
        """Cancel all fetches."""
        tasks = list(self._refreshes)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _refresh_one(self, entry: _List, provider: Provider, headers: Mapping[str, str], turns: _Turns) -> None:
        try:
            async with turns.slots, self._slots, asyncio.timeout(TIMEOUT):
                entry.models = await fetch_models(self._fetch, provider, headers)
            if self._listed is not None:
                self._listed(provider, entry.models)
            entry.failed, entry.reached, entry.due = False, True, self._clock() + FRESH
        except (DragomanError, TimeoutError, ValueError) as error:
            entry.models, entry.due = entry.models or (), self._clock() + PAUSE
            if not entry.failed:
                log.info("provider %s does not list its models: %s", provider.name, _reason(provider, error))
            entry.failed, entry.reached = True, isinstance(error, ValueError)
        except Exception:
            entry.models, entry.due = entry.models or (), self._clock() + FRESH
            log.exception("the models of provider %s could not be read", provider.name)
        finally:
            entry.refresh = None
            turns.waiting -= 1


def _reason(provider: Provider, error: Exception) -> str:
    return str(error) if isinstance(error, ValueError) else unreachable(provider, error, TIMEOUT)


def _key(provider: Provider, headers: Mapping[str, str]) -> bytes:
    """Return the cache key of a list: providers with the same URL and key share it."""
    url = provider.endpoint(MODEL_LIST_PATH, model_list_query(provider.dialect))
    digest = blake2b(url.encode(), digest_size=16)
    digest.update(json_dumps(sorted(headers.items())))
    return digest.digest()

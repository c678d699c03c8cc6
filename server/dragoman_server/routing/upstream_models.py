"""The model lists of upstreams, fetched in the background and cached.

A client waits up to `WAIT` seconds for a list that was never fetched before, and not for others: the old list is used
until the new one is there. An upstream whose list cannot be fetched is tried again after `PAUSE` seconds.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b

from dragoman import DragomanError
from dragoman.aio import Timeouts, UpstreamRequest
from dragoman.gateway import MODEL_LIST_PATH, ListedModel, model_list_query, read_model_list
from dragoman.wire import json_dumps, json_loads
from dragoman_server.config.provider import Provider
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
"""Most lists that are cached; the least recently used one is dropped first. Clients with keys of their own have a list
for each key."""
FETCHES_MAX = 8
"""Most requests for lists at the same time."""

Fetch = Callable[[UpstreamRequest], Awaitable[tuple[int, bytes]]]
"""Sends a request and returns status and body. Raises UpstreamError."""


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
        status, body = await fetch(UpstreamRequest(url, headers, b"", False, timeouts, "GET"))
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


class UpstreamModels:
    """The lists of a gateway's upstreams. `clock` returns seconds from any origin; `wait` is in seconds."""

    def __init__(self, fetch: Fetch, *, clock: Callable[[], float] = time.monotonic, wait: float = WAIT) -> None:
        self._fetch = fetch
        self._clock = clock
        self._wait = wait
        self._lists: dict[bytes, _List] = {}
        self._refreshes: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(FETCHES_MAX)

    def known(self, provider: Provider, headers: Mapping[str, str]) -> tuple[ListedModel, ...]:
        """Return the cached list of a provider for requests with these headers, empty if it was not fetched."""
        found = self._lists.get(_key(provider, headers))
        return (found.models or ()) if found is not None else ()

    def refresh(
        self, providers: Iterable[tuple[Provider, Mapping[str, str]]], *, early: bool = False
    ) -> list[asyncio.Task[None]]:
        """Fetch the lists that are due in the background; with `early`, also those that could not be reached.

        Returns the tasks that fetch a list for the first time.
        """
        first = []
        for provider, headers in providers:
            key = _key(provider, headers)
            entry = self._lists.pop(key, None) or _List()
            self._lists[key] = entry
            if len(self._lists) > KEPT:
                del self._lists[next(iter(self._lists))]
            due = self._clock() >= entry.due or (early and not entry.reached)
            if entry.refresh is None and due and len(self._refreshes) < KEPT:
                entry.refresh = task = asyncio.create_task(self._refresh_one(entry, provider, headers))
                self._refreshes.add(task)
                task.add_done_callback(self._refreshes.discard)
            if entry.refresh is not None and entry.models is None:
                first.append(entry.refresh)
        return first

    async def lists(self, providers: Iterable[tuple[Provider, Mapping[str, str]]]) -> list[tuple[ListedModel, ...]]:
        """Return the list of each provider; empty for one that has none, or does not send it in time."""
        wanted = list(providers)
        if first := self.refresh(wanted):
            await asyncio.wait(set(first), timeout=self._wait)
        return [self.known(provider, headers) for provider, headers in wanted]

    async def fetched(self, provider: Provider, headers: Mapping[str, str]) -> tuple[ListedModel, ...] | None:
        """Return the list of a provider after a fetch, or None if the provider cannot be reached."""
        self.refresh([(provider, headers)], early=True)
        entry = self._lists[_key(provider, headers)]
        if entry.refresh is not None:
            await asyncio.wait({entry.refresh})
        return (entry.models or ()) if entry.reached else None

    async def close(self) -> None:
        """Cancel all fetches."""
        tasks = list(self._refreshes)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _refresh_one(self, entry: _List, provider: Provider, headers: Mapping[str, str]) -> None:
        try:
            async with self._slots, asyncio.timeout(TIMEOUT):
                entry.models = await fetch_models(self._fetch, provider, headers)
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


def _reason(provider: Provider, error: Exception) -> str:
    return str(error) if isinstance(error, ValueError) else unreachable(provider, error, TIMEOUT)


def _key(provider: Provider, headers: Mapping[str, str]) -> bytes:
    """Return the cache key of a list: providers with the same URL and key share it."""
    url = provider.endpoint(MODEL_LIST_PATH, model_list_query(provider.dialect))
    digest = blake2b(url.encode(), digest_size=16)
    digest.update(json_dumps(sorted(headers.items())))
    return digest.digest()

"""The models that upstreams list themselves, remembered for a while.

Upstreams are asked in the background. A client waits a moment for lists that were never asked for before, and never
for others: a list stays while it is renewed, and an upstream that failed is not asked again for a while.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b

from dragoman.aio.timeouts import Timeouts
from dragoman.aio.upstream.interface import UpstreamRequest
from dragoman.dialects.shared import model_lists
from dragoman.dialects.shared.model_lists import ListedModel
from dragoman.errors import DragomanError, UpstreamError
from dragoman.wire.json_codec import dumps, loads
from dragoman_server.config.providers import Provider

log = logging.getLogger("dragoman")

FRESH = 300.0
"""Seconds after which a list is asked for again."""
PAUSE = 30.0
"""Seconds before an upstream without a list is asked again."""
WAIT = 2.0
"""Longest wait of a client for lists that were never there, in seconds."""
TIMEOUT = 5.0
"""Seconds that an upstream has for its whole list."""
MODELS_MAX = 2000
"""Most models of one upstream."""
BODY_MAX = 4 * 1024 * 1024
"""Bytes of one answer."""
PAGES_MAX = 5
KEPT = 64
"""Most lists that are remembered; the one not wanted for longest goes first. Clients that bring their own keys have
a list for each key."""
ASKING_MAX = 8
"""Most requests for lists at once."""

Fetch = Callable[[UpstreamRequest], Awaitable[tuple[int, bytes]]]
"""Sends a call and gives status and body. Raises UpstreamError."""


@dataclass(slots=True)
class _List:
    """The list of one upstream with one key. `models` is None until the first answer or failure."""

    models: tuple[ListedModel, ...] | None = None
    due: float = 0.0
    failed: bool = False
    asking: asyncio.Task[None] | None = None


class UpstreamModels:
    """The lists of a gateway's upstreams. `clock` gives seconds from any origin, `wait` is the longest wait."""

    def __init__(self, fetch: Fetch, *, clock: Callable[[], float] = time.monotonic, wait: float = WAIT) -> None:
        self._fetch = fetch
        self._clock = clock
        self._wait = wait
        self._lists: dict[bytes, _List] = {}
        self._asking: set[asyncio.Task[None]] = set()
        self._turns = asyncio.Semaphore(ASKING_MAX)

    def known(self, provider: Provider, headers: Mapping[str, str]) -> tuple[ListedModel, ...]:
        """The list of a provider as far as it is known, for requests with these headers."""
        found = self._lists.get(_key(provider, headers))
        return (found.models or ()) if found is not None else ()

    def refresh(self, providers: Iterable[tuple[Provider, Mapping[str, str]]]) -> list[asyncio.Task[None]]:
        """Ask in the background for the lists that are due. Returns the tasks that bring a first list."""
        first = []
        for provider, headers in providers:
            key = _key(provider, headers)
            known = self._lists.pop(key, None) or _List()
            self._lists[key] = known
            if len(self._lists) > KEPT:
                del self._lists[next(iter(self._lists))]
            if known.asking is None and self._clock() >= known.due and len(self._asking) < KEPT:
                known.asking = task = asyncio.create_task(self._renew(known, provider, headers))
                self._asking.add(task)
                task.add_done_callback(self._asking.discard)
            if known.asking is not None and known.models is None:
                first.append(known.asking)
        return first

    async def lists(self, providers: Iterable[tuple[Provider, Mapping[str, str]]]) -> list[tuple[ListedModel, ...]]:
        """The list of each provider as it is known now, or soon; empty where there is none."""
        wanted = list(providers)
        if first := self.refresh(wanted):
            await asyncio.wait(set(first), timeout=self._wait)
        return [self.known(provider, headers) for provider, headers in wanted]

    async def close(self) -> None:
        """Ask no more."""
        tasks = list(self._asking)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _renew(self, known: _List, provider: Provider, headers: Mapping[str, str]) -> None:
        try:
            async with self._turns, asyncio.timeout(TIMEOUT):
                known.models = await self._asked(provider, headers)
            known.failed, known.due = False, self._clock() + FRESH
        except (DragomanError, TimeoutError, ValueError) as error:
            known.models, known.due = known.models or (), self._clock() + PAUSE
            if not known.failed:
                log.info("provider %s does not list its models: %s", provider.name, _reason(error))
            known.failed = True
        except Exception:
            known.models, known.due = known.models or (), self._clock() + FRESH
            log.exception("the models of provider %s could not be read", provider.name)
        finally:
            known.asking = None

    async def _asked(self, provider: Provider, headers: Mapping[str, str]) -> tuple[ListedModel, ...]:
        """All pages of a provider's list. Raises UpstreamError, ValueError."""
        timeouts = Timeouts(connect=TIMEOUT, first_byte=TIMEOUT, idle=TIMEOUT)
        models: dict[str, ListedModel] = {}
        after = None
        for _ in range(PAGES_MAX):
            url = provider.endpoint(model_lists.PATH, model_lists.query(provider.dialect, after))
            status, body = await self._fetch(UpstreamRequest(url, headers, b"", False, timeouts, "GET"))
            if status != 200:
                raise ValueError(f"status {status}")
            page = model_lists.read(await asyncio.to_thread(loads, body))
            for model in page.models:
                models.setdefault(model.name, model)
            if page.after is None or page.after == after or len(models) >= MODELS_MAX:
                break
            after = page.after
        return tuple(models.values())[:MODELS_MAX]


def _reason(error: Exception) -> str:
    if isinstance(error, UpstreamError):
        return error.failure.code or str(error.failure.kind)
    if isinstance(error, TimeoutError):
        return f"no answer within {TIMEOUT:g} s"
    return str(error)


def _key(provider: Provider, headers: Mapping[str, str]) -> bytes:
    """Two providers with one URL and one key have one list."""
    url = provider.endpoint(model_lists.PATH, model_lists.query(provider.dialect))
    digest = blake2b(url.encode(), digest_size=16)
    digest.update(dumps(sorted(headers.items())))
    return digest.digest()

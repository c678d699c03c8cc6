"""The part of one process in the routing that processes share.

One task calls the store: at once when a request needs a place or leaves one, ten times a second while requests wait,
and every two seconds otherwise. Whatever changes in one turn of the event loop, and during a call, is in one call.
While the store fails, each process uses its part of each bound.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from hashlib import blake2b
from typing import TypeVar

from dragoman.wire import json_dumps, json_loads
from dragoman_server.config.provider import Provider
from dragoman_server.observability.metric_families import STORE_ERRORS, Totals
from dragoman_server.proxy.shared_routing.interface import LEASE, RetryClaim, RoutingStore, StoreError
from dragoman_server.routing.response_issuers import Issuer
from dragoman_server.routing.routing_state import RoutingState
from dragoman_server.routing.shared_retries import SharedRetryBudget
from dragoman_server.routing.shared_slots import INTERVAL, SharedSlots

log = logging.getLogger("dragoman")
T = TypeVar("T")
RENEW = LEASE / 3
"""Seconds between two calls of a process of which nothing has changed, by which its leases are renewed."""
AGAIN = 1.0
"""Seconds between two calls of a store that fails."""
ALONE = RENEW + AGAIN
"""Seconds for which a process goes on to use its part of the bounds when the store answers again.

The store may have lost its data; by then, all processes have reported what they use.
"""


class SharedRouting:
    """The places, retries, issuers and running responses of `routing`, shared through `store`.

    Args:
        routing: The state of the providers in this process.
        store: The store, which is not open yet.
        providers: A function that returns the providers of the configuration.
        totals: The counters to add to.
        clock: A function that returns seconds from any origin.
    """

    def __init__(
        self,
        routing: RoutingState,
        store: RoutingStore,
        providers: Callable[[], Mapping[str, Provider]],
        totals: Totals,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._routing = routing
        self._store = store
        self._providers = providers
        self._totals = totals
        self._clock = clock
        self._process = f"{socket.gethostname()}:{os.getpid()}:{os.urandom(6).hex()}"
        self._slots: dict[str, SharedSlots] = {}
        self._budget = SharedRetryBudget(routing.own_budget, self._change)
        self._processes = 1
        """The number of processes at the last answer of the store."""
        self._alone_until = 0.0
        """The time until which this process uses its part of the bounds, as the store has failed."""
        self._is_changed = False
        """True once the store is to be called within `INTERVAL`."""
        self._is_open = False
        self._opening = asyncio.Lock()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.failing = False
        """True while the store does not answer."""

    def start(self) -> None:
        """Begin, if that has not happened. Must be called in the event loop."""
        if self._task is None:
            self._routing.share_bounds(self._budget, self._slots_of)
            self._routing.issuers.shared = self._routing.running.shared = self
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """End, and close the store. The places of this process are free when its lease ends."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
            self._budget.fail()  # no retry waits for an answer that does not come
        with suppress(StoreError):
            await self._store.close()

    def _slots_of(self, provider: Provider) -> SharedSlots:
        slots = self._slots.get(provider.name)
        if slots is None:
            slots = SharedSlots(provider.name, provider.concurrent, provider.queue, self._change, self._clock)
            self._slots[provider.name] = slots
            if self.failing or self._clock() < self._alone_until:
                slots.share(self._processes)
        else:
            slots.configure(provider.concurrent, provider.queue)
        return slots

    def _change(self, at_once: bool) -> None:
        """Call the store at once, or soon. One that fails is not called for each change."""
        if self.failing:
            return
        if at_once:
            self._wake.set()
        elif not self._is_changed:
            self._is_changed = True
            asyncio.get_running_loop().call_later(INTERVAL, self._wake.set)

    async def _run(self) -> None:
        while True:
            try:
                await self.exchange()
            except StoreError:
                pass  # recorded where it was raised
            except Exception:
                log.exception("sharing the bounds of providers failed by a defect")
                self._fail()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._delay()):
                    await self._wake.wait()

    def _delay(self) -> float:
        if self.failing or self._clock() < self._alone_until:
            return AGAIN
        return INTERVAL if any(each.waits for each in self._slots.values()) else RENEW

    async def _open(self) -> None:
        """Open the store, if it is not open. Raises StoreError."""
        if not self._is_open:
            async with self._opening:
                if not self._is_open:
                    await self._store.open()
                    self._is_open = True

    async def exchange(self) -> None:
        """Report to the store, and use what it grants. Raises StoreError."""
        self._wake.clear()
        self._is_changed = False
        claimed = [(slots, claim) for slots in self._slots.values() if (claim := slots.claim()) is not None]
        options = self._routing.options
        retries = RetryClaim(*self._budget.claim(), options.budget, options.budget_min)
        try:
            await self._open()
            answer = await self._store.exchange(self._process, [claim for _, claim in claimed], retries)
        except StoreError as error:
            self._totals.add(STORE_ERRORS, ("routing",))
            if not self.failing:
                text = "the store does not share the bounds of providers; this process uses its part of them, 1/%d: %s"
                log.error(text, self._processes, error)
            self._fail()
            raise
        now = self._clock()
        if self.failing:
            self.failing, self._alone_until = False, now + ALONE
            log.warning("the store shares the bounds of providers again")
        self._processes = answer.processes
        self._budget.grant(answer.retries)
        if now < self._alone_until:
            return
        for (slots, _), grant in zip(claimed, answer.grants, strict=True):
            slots.grant(grant)

    def _fail(self) -> None:
        self.failing = True
        self._budget.fail()
        for slots in self._slots.values():
            slots.share(self._processes)

    # --- issuers -----------------------------------------------------------------------------------------------------

    async def keep_issuer(self, owner: bytes, response: bytes, issuer: Issuer) -> None:
        """Keep the issuer of a response for all processes, if the store answers."""
        value = json_dumps([issuer.provider, _place(issuer.base_url), issuer.key]).decode()
        await self._guarded(lambda: self._store.keep_issuer(owner.hex(), response.hex(), value))

    async def find_issuer(self, owner: bytes, response: bytes) -> Issuer | None:
        """Return the issuer of a response that another process keeps; None if that is not known."""
        found = await self._guarded(lambda: self._store.find_issuer(owner.hex(), response.hex()))
        if found is None:
            return None
        name, place, key = json_loads(found.encode())
        provider = self._providers().get(name)
        if provider is None or _place(provider.base_url) != place:
            return None
        return Issuer(name, provider.base_url, key)

    # --- running responses -------------------------------------------------------------------------------------------

    async def keep_run(self, owner: bytes, response: bytes, record: bytes) -> bool:
        """Keep the record of a running response for all processes. Return False if the store fails."""

        async def keep() -> bool:
            await self._store.keep_run(owner.hex(), response.hex(), record.decode())
            return True

        return await self._guarded(keep) is True

    async def take_run(self, owner: bytes, response: bytes) -> bytes | None:
        """Return the record of a running response that no process has taken."""
        found = await self._guarded(lambda: self._store.take_run(owner.hex(), response.hex()))
        return found.encode() if found is not None else None

    async def end_run(self, owner: bytes, response: bytes) -> None:
        """Remove the record of a running response."""
        await self._guarded(lambda: self._store.end_run(owner.hex(), response.hex()))

    async def _guarded(self, call: Callable[[], Awaitable[T]]) -> T | None:
        """Call the store, and return its answer; None if it fails."""
        if self.failing:
            return None
        try:
            await self._open()
            return await call()
        except StoreError:
            self._totals.add(STORE_ERRORS, ("issuers",))
            self._wake.set()  # the next exchange finds out whether it fails at all
            return None


def _place(url: str) -> str:
    """Return a digest of a base URL, which may hold a password."""
    return blake2b(url.encode(errors="replace"), digest_size=8).hexdigest()

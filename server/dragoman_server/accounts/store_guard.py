"""The guard of the store of the limits: a store that did not answer is not called by requests, until it does again."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from dragoman_server.accounts.known_keys import store_unavailable
from dragoman_server.accounts.store.interface import AccountStore, StoreError
from dragoman_server.accounts.store.options import CLOSED, StoreOptions
from dragoman_server.observability import metric_families as families
from dragoman_server.observability.metric_families import Totals

log = logging.getLogger("dragoman")
T = TypeVar("T")


class StoreGuard:
    """Calls one store, and records its failures in `totals`. `options` are those of a reload, too."""

    def __init__(self, store: AccountStore, options: StoreOptions, totals: Totals) -> None:
        self._store = store
        self._totals = totals
        self.options = options
        self.healthy = True
        """False while the store does not answer."""

    async def open(self) -> None:
        """Open the store. Raises StoreError if it cannot be used at all."""
        await self._store.open()
        self._totals.put(families.STORE_UP, (), 1)

    async def call(self, operation: str, call: Callable[[], Awaitable[T]]) -> T:
        """Call the store, unless it did not answer last time. Raises StoreError."""
        if not self.healthy:
            raise StoreError("the store does not answer")
        try:
            return await call()
        except StoreError as error:
            self._totals.add(families.STORE_ERRORS, (operation,))
            if self.healthy:  # calls that were under way at the same time fail too
                self.healthy = False
                self._totals.put(families.STORE_UP, (), 0)
                policy = "rejected" if self.options.on_failure == CLOSED else "admitted without limits"
                log.error("the store of limits does not answer, requests are %s: %s", policy, error)
            raise

    async def retry(self, trial: Callable[[], Awaitable[None]]) -> None:
        """Reach a store that did not answer, and use it by `trial`. Raises StoreError."""
        await self._store.ping()
        await trial()
        self.healthy = True
        self._totals.put(families.STORE_UP, (), 1)

    def check_policy(self) -> None:
        """Admit a request that the store could not check, or raise DragomanError."""
        if self.options.on_failure == CLOSED:
            self._totals.add(families.STORE_UNCHECKED, ("rejected",))
            raise store_unavailable("the limits of this API key cannot be checked at the moment; try again later")
        self._totals.add(families.STORE_UNCHECKED, ("admitted",))

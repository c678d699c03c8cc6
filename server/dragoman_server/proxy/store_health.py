"""The health of the store of responses: counted, logged when it changes, and reported by `GET /ready`.

After some failures in a row an operation is not tried for requests until the store answers again, so that few of them
wait for a store that hangs. Each operation counts by itself: where the disk is full, responses can still be read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from dragoman import DragomanError, Failure
from dragoman.errors import FailureKind, FailureOrigin
from dragoman.threads import NotStored, StoreError, Unreadable
from dragoman_server.observability.metric_families import STATE_ERRORS, STATE_UP, Totals

log = logging.getLogger("dragoman")
T = TypeVar("T")
FAILURES_MAX = 3
"""Failures in a row after which an operation fails at once."""


class StoreHealth:
    """The health of one store, as its calls find it. `totals` are the gateway's counters."""

    def __init__(self, totals: Totals) -> None:
        self._totals = totals
        self._failures: dict[str, int] = {}
        """Failures in a row by operation."""
        self._reason = ""
        self.failing = asyncio.Event()
        """Set while the last call of an operation has failed."""

    def open(self) -> None:
        """Report the store as one that answers."""
        self._totals.put(STATE_UP, (), 1)

    async def call(self, operation: str, call: Callable[[], Awaitable[T]]) -> T:
        """Call the store for a request. Raises StoreError, at once after several failures."""
        if self._failures and self._failures.get(operation, 0) >= FAILURES_MAX:
            raise StoreError(self._reason)
        try:
            result = await call()
        except (NotStored, Unreadable):
            self._answered(operation)
            raise
        except StoreError as error:
            self._failed(operation, str(error))
            raise
        self._answered(operation)
        return result

    async def probe(self, operation: str, call: Callable[[], Awaitable[T]]) -> T:
        """Call the store to find out if it answers; then all operations are tried again. Raises StoreError."""
        try:
            result = await call()
        except StoreError as error:
            self._failed(operation, str(error))
            raise
        self._answered(*self._failures)
        return result

    def _failed(self, operation: str, reason: str) -> None:
        self._totals.add(STATE_ERRORS, (operation,))
        self._failures[operation] = self._failures.get(operation, 0) + 1
        self._reason = reason
        if not self.failing.is_set():
            self.failing.set()
            self._totals.put(STATE_UP, (), 0)
            log.error("the store of responses fails: %s", reason)

    def _answered(self, *operations: str) -> None:
        if not self._failures:
            return
        for operation in operations:
            self._failures.pop(operation, None)
        if not self._failures:
            self.failing.clear()
            self._totals.put(STATE_UP, (), 1)
            log.warning("the store of responses answers again")


def unavailable(error: StoreError) -> DragomanError:
    """Return the error (503) for a request that needs what a store cannot return."""
    log.error("stored responses cannot be read: %s", error)
    message = "stored responses are not available at the moment; try again later"
    failure = Failure(FailureKind.OVERLOADED, message, 503, origin=FailureOrigin.PROXY, reason="store")
    failure.headers["retry-after"] = "1"
    return DragomanError(failure)
